"""Findings of what a log shows: damaged records, breaks of order, records that are odd."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_tools.doctor.findings import MESSAGES_PER_FINDING, Finding, Findings, Severity
from reput_tools.offline import TouchedMessage

if TYPE_CHECKING:
    from reput import Store
    from reput.log import Damage, Loss
    from reput_tools.doctor.verification.directorysurvey import Survey
    from reput_tools.doctor.verification.logcheck import LogChecked
    from reput_tools.doctor.verification.logorder import OrderBreak

_EXPECTED: Final = {
    "BAD_MAGIC": "a record, or the blank that closes a file",
    "BAD_SIZE": "a size that a record can have",
    "LENGTH_MISMATCH": "lengths that add up to the record's size",
    "PHYSICAL_OFFSET": "the physical offset at which the record stands",
    "BODY_CRC": "a body that matches its checksum",
    "RECORD_CRC": "bytes that match the record's checksum",
    "TORN": "a topic and properties that are complete",
    "TRUNCATED": "a record that ends inside of the file",
    "NO_BLANK": "a blank that closes the file",
}


def damaged_ranges(
    checked: LogChecked, lost: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return the ranges of the log whose records cannot be read, ascending and joined.

    Args:
        checked: what the log shows.
        lost: ranges whose bytes are missing.
    """
    ranges = sorted([*((each.start_offset, each.end_offset) for each in checked.damages), *lost])
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def add_log_findings(
    findings: Findings,
    checked: LogChecked,
    store: Store,
    surveyed: Survey,
    *,
    named: Sequence[TouchedMessage],
    recorded: Sequence[Loss],
    root: str,
    is_written: bool,
) -> None:
    """Add a finding for each thing that is not as a log should be.

    Args:
        findings: is added to.
        checked: what the log shows.
        store: open for reading.
        surveyed: the store, with the ranges of the log that are missing.
        named: messages in damaged ranges that derived files know.
        recorded: losses that the store's ledger lists.
        root: the store's directory, for advice.
        is_written: whether a process has the store open, which may be writing at the log's end.
    """
    end = store.log.max_physical_offset
    lost = surveyed.lost
    cut: set[int] = set()
    for gap in surveyed.gaps:
        record = _cut_by(gap, checked.damages)
        if record is not None:
            cut.add(record.start_offset)
            gap = _from(gap, record.start_offset)
        findings.add(_with_lost(gap, named))
    known = [(each.start_offset, each.end_offset) for each in recorded]
    for damage in checked.damages:
        if damage.start_offset in cut or any(
            start <= damage.start_offset < stop for start, stop in lost
        ):
            continue  # the missing file, or the missing end of a file, was reported
        is_tail = damage.start_offset >= end
        is_known = any(
            start < damage.end_offset and damage.start_offset < stop for start, stop in known
        )
        found = _of_damage(
            damage, store, root, is_tail=is_tail, is_written=is_written, is_known=is_known
        )
        findings.add(_with_lost(found, named))
    broken = [*damaged_ranges(checked, lost), *known]
    _add_breaks(findings, checked, store, broken)
    _add_times(findings, checked, store)
    for oddity in checked.oddities:
        place = oddity.message.physical_offset
        assert place is not None
        file, position = _place(store, place)
        findings.add(
            Finding(
                severity=Severity.LOSS if oddity.kind == "compressed-body" else Severity.WARNING,
                kind=f"log.{oddity.kind}",
                part="log",
                file=file,
                position=position,
                physical_offset=place,
                found=oddity.found,
                expected=oddity.expected,
                messages=(oddity.message,),
                message_count=1,
                advice="compare it with the producer's record, or with a replica: no checksum "
                "covers these bytes",
            )
        )
    if checked.oddity_count > len(checked.oddities):
        more = checked.oddity_count - len(checked.oddities)
        findings.add_count("log.odd-records", Severity.WARNING, more)


def _cut_by(gap: Finding, damages: Sequence[Damage]) -> Damage | None:
    """Return the record whose end is missing because its file is cut short."""
    start = gap.physical_offset
    if gap.kind != "log.short-file" or start is None:
        return None
    cut = (each for each in damages if each.start_offset < start < each.end_offset)
    return next((each for each in cut if each.end_offset <= start + (gap.size or 0)), None)


def _from(gap: Finding, start: int) -> Finding:
    """Return the finding of a file that is cut short, from the record on that is cut."""
    assert gap.physical_offset is not None
    more = gap.physical_offset - start
    return attrs.evolve(
        gap, position=(gap.position or 0) - more, size=(gap.size or 0) + more, physical_offset=start
    )


def _place(store: Store, physical_offset: int) -> tuple[str, int]:
    """Return the file, relative to the store's directory, and the file position."""
    path, position = store.log.path_of(physical_offset)
    return os.path.relpath(path, store.root), position


def _of_damage(
    damage: Damage, store: Store, root: str, *, is_tail: bool, is_written: bool, is_known: bool
) -> Finding:
    # A writer writes the size of a put's first record last: a kill in between leaves zeros there.
    is_begun = is_tail and not store.clean and not store.log.size_at(damage.start_offset)
    is_harmless = is_known or is_begun or (is_tail and is_written)
    severity = Severity.NOTICE if is_harmless else Severity.LOSS
    if is_known:
        advice = f"nothing: it is recorded, see: reput losses {shlex.quote(root)}"
    elif is_tail and is_written:
        advice = "nothing: a process is writing there"
    elif is_begun:
        advice = "nothing: a put that was never confirmed; the next opening cuts it off"
    elif is_tail:
        advice = (
            "copy the store before it is opened for writing, which cuts the log here; "
            f"reput repair {shlex.quote(root)} NEW_DIRECTORY keeps what can be read"
        )
    else:
        advice = (
            f"put the file back from a copy; else reput repair {shlex.quote(root)} NEW_DIRECTORY"
        )
    file, position = _place(store, damage.start_offset)
    message = TouchedMessage(
        damage.topic,
        damage.queue_id,
        damage.queue_offset,
        physical_offset=damage.start_offset,
    )
    return Finding(
        severity=severity,
        kind=f"log.{damage.reason.lower().replace('_', '-')}",
        part="log",
        file=file,
        position=position,
        size=damage.size,
        physical_offset=damage.start_offset,
        found=damage.detail,
        expected=_EXPECTED.get(damage.reason, "a record"),
        messages=() if damage.topic is None else (message,),
        message_count=None if damage.topic is None else 1,
        advice=advice,
    )


def _with_lost(finding: Finding, named: Sequence[TouchedMessage]) -> Finding:
    """Return the finding with the messages in its range that only derived files know."""
    start, size = finding.physical_offset, finding.size
    if finding.messages or start is None or size is None:
        return finding
    own = [
        each
        for each in named
        if each.physical_offset is not None and start <= each.physical_offset < start + size
    ]
    own.sort(key=lambda each: each.physical_offset or 0)
    if not own:
        return finding
    return attrs.evolve(finding, messages=own[:MESSAGES_PER_FINDING], message_count=len(own))


def _add_breaks(
    findings: Findings, checked: LogChecked, store: Store, broken: Sequence[tuple[int, int]]
) -> None:
    told = 0
    for each in checked.orders.breaks:
        told += 1
        if each.found > each.expected and any(
            start < each.place and each.before < stop for start, stop in broken
        ):
            continue  # the missing record stood in a damaged range, or in a recorded loss
        findings.add(_of_break(each, store))
    if checked.orders.break_count > told:
        more = checked.orders.break_count - told
        findings.add_count("log.queue-order", Severity.WARNING, more)


def _of_break(each: OrderBreak, store: Store) -> Finding:
    is_gap = each.found > each.expected
    file, position = _place(store, each.place)
    return Finding(
        severity=Severity.WARNING,
        kind="log.queue-gap" if is_gap else "log.queue-double",
        part="log",
        file=file,
        position=position,
        physical_offset=each.place,
        found=f"queue offset {each.found} of {each.topic}/{each.queue_id}",
        expected=f"queue offset {each.expected}, after the message at {each.before}",
        messages=(
            TouchedMessage(each.topic, each.queue_id, each.found, physical_offset=each.place),
        ),
        message_count=each.found - each.expected if is_gap else 1,
        advice=(
            "consumers step over the gap; look for a copy of the log if messages are missed"
            if is_gap
            else "only one message of two with one queue offset can be read by it; "
            "reput grep finds both"
        ),
    )


def _add_times(findings: Findings, checked: LogChecked, store: Store) -> None:
    for each in checked.orders.times:
        file, position = _place(store, each.place)
        findings.add(
            Finding(
                severity=Severity.WARNING,
                kind="log.time-order",
                part="log",
                file=file,
                position=position,
                physical_offset=each.place,
                found=f"store time {each.found}",
                expected=f"{each.expected} or later, the store time of the record at {each.before}",
                advice="a clock was set back, or one of the two records is damaged; searches by "
                "time may miss messages around it",
            )
        )
    if checked.orders.time_count > len(checked.orders.times):
        more = checked.orders.time_count - len(checked.orders.times)
        findings.add_count("log.time-order", Severity.WARNING, more)
