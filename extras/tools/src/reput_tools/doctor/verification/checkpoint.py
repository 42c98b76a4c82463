"""Checks the small files of RocketMQ beside the log: ``abort`` and the checkpoint."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from reput.log import (
    Checkpoint,
)
from reput_tools.doctor.findings import Findings, Severity, end_at, finding_of_file

if TYPE_CHECKING:
    from reput import Store
    from reput.files import Disk
    from reput_tools.offline import Traces

_CHECKPOINT_SIZE: Final = 4096
_USED_SIZE: Final = 48
_TIME_MAX: Final = 253_402_300_800_000


def check_state(traces: Traces, findings: Findings, *, is_written: bool) -> None:
    """Say how the last writer has left the store.

    Args:
        traces: of the store.
        findings: is added to.
        is_written: whether a process has the store open for writing.
    """
    if is_written:
        findings.add(
            finding_of_file(
                Severity.NOTICE,
                "store.open",
                "store",
                "lock",
                "a process that has the store open for writing",
                "a closed store, whose derived files can be compared",
                f"close it, or verify a copy: reput verify {shlex.quote(traces.root)}",
            )
        )
    elif traces.has_abort and not traces.was_closed:
        findings.add(
            finding_of_file(
                Severity.NOTICE,
                "store.not-closed",
                "store",
                "abort",
                "the file of a writer that was not closed: it was killed, or lost its power",
                "no such file",
                "nothing: the next opening recovers what came last",
            )
        )
    elif traces.unqueued_files:
        _add_unqueued(traces, findings)


def _add_unqueued(traces: Traces, findings: Findings) -> None:
    """Say that a store without queues has more log files than a broker derives them from."""
    findings.add(
        finding_of_file(
            Severity.NOTICE,
            "store.queues-behind",
            "store",
            "abort",
            f"{traces.unqueued_files} log files and no queues",
            "at most 10: brokers since 5.4 derive queues only of so many",
            f"before a broker opens it: reput backfill {shlex.quote(traces.root)} consumequeue",
        )
    )


def check_checkpoint(
    root: str,
    disk: Disk,
    store: Store,
    last_time: int,
    findings: Findings,
    *,
    is_written: bool = False,
) -> int:
    """Check RocketMQ's checkpoint; return the number of files looked at.

    Args:
        root: the store's directory.
        disk: bound to it.
        store: open for reading.
        last_time: store time of the last record of the log, ms; 0 if it is empty.
        findings: is added to.
        is_written: whether a process has the store open for writing, and may write it yet.
    """
    path = os.path.join(root, "checkpoint")
    advice = "nothing: the store writes it when it is next opened for writing"
    if not disk.exists(path):
        if last_time and not is_written:
            findings.add(
                finding_of_file(
                    Severity.NOTICE, "checkpoint.missing", "checkpoint", "checkpoint",
                    "no file", "the times up to which log, queues and index are flushed", advice,
                )
            )  # fmt: skip
        return 0
    try:
        data = disk.read_file(path, 2 * _CHECKPOINT_SIZE)
    except OSError as error:
        findings.add(
            finding_of_file(
                Severity.DAMAGE, "checkpoint.unreadable", "checkpoint", "checkpoint",
                str(error.strerror or error), "a file", advice,
            )
        )  # fmt: skip
        return 1
    if len(data) < Checkpoint.SIZE_MIN:
        findings.add(
            finding_of_file(
                Severity.DAMAGE, "checkpoint.short", "checkpoint", "checkpoint",
                end_at(len(data)), f"{_CHECKPOINT_SIZE} bytes", advice, position=len(data),
            )
        )  # fmt: skip
        return 1
    known = Checkpoint.load(path, disk)
    end = store.log.max_physical_offset
    fields = (
        ("log time", known.log_timestamp, last_time),
        ("queues time", known.queues_timestamp, last_time),
        ("index time", known.index_timestamp, last_time),
        ("replica offset", known.replica_offset, end),
        ("confirm offset", known.confirm_offset, end),
        ("queues offset", known.queues_offset, end),
    )
    for number, (name, value, most) in enumerate(fields):
        is_time = number < 3
        if value < 0 or (is_time and value > _TIME_MAX):
            kind, expected = "checkpoint.value", "0 or more" + (", a time" if is_time else "")
        elif value > most:
            kind, expected = "checkpoint.ahead", f"at most {most}, where the log ends"
        else:
            continue
        findings.add(
            finding_of_file(
                Severity.DAMAGE if kind == "checkpoint.value" else Severity.WARNING,
                kind,
                "checkpoint",
                "checkpoint",
                f"{name} {value}",
                expected,
                f"{advice}; if the log was longer once, look for a copy of its end"
                if kind == "checkpoint.ahead"
                else advice,
                position=8 * number,
            )
        )
    rest = data[_USED_SIZE:]
    if rest.strip(b"\0"):
        findings.add(
            finding_of_file(
                Severity.WARNING, "checkpoint.rest", "checkpoint", "checkpoint",
                "bytes after the six values", "zeros", advice,
                position=_USED_SIZE + len(rest) - len(rest.lstrip(b"\0")),
            )
        )  # fmt: skip
    return 1
