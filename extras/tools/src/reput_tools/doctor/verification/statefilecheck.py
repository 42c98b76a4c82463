"""Checks the small files that reput itself keeps in a store."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Final

from reput.errors import CorruptFileError
from reput.files import OWN_DIRECTORY, system_clock
from reput.log import (
    HEAD,
    LOG,
    LossLedger,
    fingerprint_of,
)
from reput_tools.doctor.findings import Findings, Severity, end_at, finding_of_file

if TYPE_CHECKING:
    from reput import Store
    from reput.log import StateFile
    from reput_tools.offline import Traces

_LETTERS_MAX: Final = 64 << 20
_STATE: Final = f"{OWN_DIRECTORY}/state"
_PAGES_SIZE: Final = 2 * 4096  # bytes: each of the two slots of the state file takes pages


def check_own(traces: Traces, store: Store, findings: Findings) -> int:
    """Check what reput keeps in a store; return the number of files looked at.

    Args:
        traces: of the store.
        store: open for reading.
        findings: is added to.
    """
    disk, root = traces.disk, traces.root
    own = os.path.join(root, OWN_DIRECTORY)
    if not disk.exists(own):
        return 0
    count = _check_manifest(traces, findings)
    count += _check_closed(traces, store, findings)
    count += _check_state(traces, store, findings)
    count += _check_records(traces, findings)
    count += _check_letters(traces, findings)
    if disk.exists(os.path.join(own, "rebuild")):
        findings.add(
            finding_of_file(
                Severity.NOTICE,
                "reput.left-over",
                "reput",
                f"{OWN_DIRECTORY}/rebuild",
                "what a rebuild has left that was killed",
                "nothing",
                "the next rebuild removes it",
            )
        )
    return count


def _check_manifest(traces: Traces, findings: Findings) -> int:
    expected = "the plugins and options of the store"
    try:
        if traces.manifest is not None or traces.is_only_rebuilt:
            return 0
        found, advice = (
            "none",
            "open the store once with all of its plugins named, which notes them",
        )
    except (CorruptFileError, OSError) as error:
        found = getattr(error, "reason", None) or str(error)
        advice = "move the file away, and open the store once with all of its plugins named"
    findings.add(
        finding_of_file(
            Severity.DAMAGE, "reput.manifest", "reput", _STATE, found, expected, advice, position=0
        )
    )  # fmt: skip
    return 0


def _check_closed(traces: Traces, store: Store, findings: Findings) -> int:
    end = traces.closed_at
    # Damage at the end has a finding of its own.
    is_told = store.recovery.finding is not None
    if end is not None and end > store.log.max_physical_offset and not is_told:
        findings.add(
            finding_of_file(
                Severity.LOSS, "log.end-missing", "log", _STATE,
                f"the log ends at {store.log.max_physical_offset}",
                f"its end at {end}, as the store was closed",
                "look for a copy of the log's last files",
            )
        )  # fmt: skip
    return 0


def _check_state(traces: Traces, store: Store, findings: Findings) -> int:
    state, file, log = traces.state_file, _STATE, store.log
    slots = state.load()
    _check_journal(state, findings)
    _check_losses(traces, state, findings)
    if not slots:
        if not state.is_damaged and not (log.max_physical_offset and traces.reput_wrote_last):
            return 0
        severity = Severity.DAMAGE
        if not state.is_damaged:  # only it knows whether old files of the log are missing
            severity = Severity.WARNING if log.min_physical_offset else Severity.NOTICE
        findings.add(
            finding_of_file(
                severity, "reput.state", "reput",
                file, _no_slot(traces, state), "two slots, one of them whole",
                "nothing: the store writes it when it is next opened for writing, from the log and "
                "the files of plugins; it then does not know which plugins were suspended, and "
                "whether old files of the log were lost before",
                position=0 if state.is_damaged else None,
            )
        )  # fmt: skip
        return int(state.is_damaged)
    advice = "nothing: the plugin derives again from an older place when the store is next opened"
    end = log.max_physical_offset
    for name, newest in traces.places():
        of = "the log" if name in (LOG, HEAD) else f"plugin {name}"
        if newest.physical_offset > end:
            findings.add(
                finding_of_file(
                    Severity.WARNING, "reput.state-ahead", "reput", file,
                    f"{of} is complete to {newest.physical_offset}",
                    f"at most {end}, where the log ends", advice,
                )
            )  # fmt: skip
        elif newest.record_offset >= log.min_physical_offset and (
            fingerprint_of(log, newest.record_offset) != newest.fingerprint
        ):
            findings.add(
                finding_of_file(
                    Severity.WARNING, "reput.state-record", "reput", file,
                    f"of {of}, the checksum {newest.fingerprint:08X} of the record at "
                    f"{newest.record_offset}",
                    "that of the record which the log has there",
                    f"{advice}; the record was changed, or the log written again",
                )
            )  # fmt: skip
    return 1


def _no_slot(traces: Traces, state: StateFile) -> str:
    if not state.is_damaged:
        return "no file"
    size = len(traces.disk.read_file(state.path))
    return end_at(size) if size % _PAGES_SIZE else "no slot that is whole"


def _check_journal(state: StateFile, findings: Findings) -> None:
    if state.is_damaged or not state.damage:
        return
    findings.add(
        finding_of_file(
            Severity.DAMAGE, "reput.journal", "reput", _STATE, state.damage,
            "losses, next queue offsets, ranges of checksums and ends of queues",
            "put the file back from a copy; else the next opening keeps a copy of it, and goes on "
            "with what can be read: queues without messages may begin at 0 again, and a record "
            "that has lost its checksum may not be noticed",
            position=state.damaged_at,
        )
    )  # fmt: skip


def _check_losses(traces: Traces, state: StateFile, findings: Findings) -> None:
    ledger = LossLedger(state, system_clock)
    ledger.load(writable=False)
    if ledger.entries:
        findings.add(
            finding_of_file(
                Severity.NOTICE, "reput.losses", "reput", _STATE,
                f"{len(ledger.entries)} recorded losses", "none",
                f"see them: reput losses {shlex.quote(traces.root)}",
            )
        )  # fmt: skip


def _check_records(traces: Traces, findings: Findings) -> int:
    names = traces.records.names()
    for name in names:
        if traces.records.load(name).state not in ("running", "retrying"):
            findings.add(
                finding_of_file(
                    Severity.WARNING, "reput.suspended", "reput",
                    _STATE,
                    f"the plugin {name} is {traces.records.load(name).state}", "running",
                    f"reput resume {shlex.quote(traces.root)} {name}",
                )
            )  # fmt: skip
        letters = traces.dead_letters(name).read()
        if letters:
            findings.add(
                finding_of_file(
                    Severity.NOTICE, "reput.dead-letters", "reput",
                    f"{OWN_DIRECTORY}/dead-letters/{name}.jsonl",
                    f"{len(letters)} messages that {name} has skipped", "none",
                    f"see them: reput dead-letters {shlex.quote(traces.root)} {name}",
                )
            )  # fmt: skip
    return len(names)


def _check_letters(traces: Traces, findings: Findings) -> int:
    """Check that each dead letter can be read."""
    count = 0
    for entry in traces.disk.list(os.path.join(traces.root, OWN_DIRECTORY, "dead-letters")):
        count += 1
        data = traces.disk.read_file(entry.path, _LETTERS_MAX)
        for number, line in enumerate(data.split(b"\n"), 1):
            try:
                if line.strip():
                    json.loads(line)
            except (ValueError, RecursionError):
                findings.add(
                    finding_of_file(
                        Severity.DAMAGE, "reput.dead-letters-line", "reput",
                        os.path.relpath(entry.path, traces.root),
                        f"line {number} is not valid JSON",
                        "one JSON object on each line",
                        "nothing: the line is ignored, and its message is not listed",
                    )
                )  # fmt: skip
    return count
