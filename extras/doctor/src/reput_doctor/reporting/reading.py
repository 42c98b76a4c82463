"""Counts a log in splits, side by side, and reads in one piece what is damaged.

A split that is not sound, or does not end where the next one begins, is counted again by a scan in
order, from a border that is certain to the next file's beginning: that scan finds each damage, and
where the log goes on after it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput.log import SPLIT_SIZE, Damage, DamageCollector, Split, plan_splits, read_split
from reput_doctor.reporting.counts import Counts, TimeRange
from reput_doctor.reporting.logpart import LogPart, open_log

if TYPE_CHECKING:
    from reput.log import LogReader
    from reput.record import Corruption
    from reput_doctor.reporting.marks import Mark
    from reput_rebuild.engine import Engine

__all__ = ["DAMAGES_MAX", "CountedLog", "count_log"]

DAMAGES_MAX: Final = 1_000
"""Damages that are listed; those after them are counted."""
_SPLITS_PER_JOB: Final = 3  # so that a slow last split keeps one core waiting, not all
_SPLIT_MIN: Final = 1 << 20


@attrs.define(eq=False)
class CountedLog:
    """What came of reading the log, or a part of it."""

    counts: Counts
    damages: list[Damage] = attrs.field(factory=list)
    """In the order of the log; at most `DAMAGES_MAX`."""
    damage_count: int = 0
    damaged_size: int = 0
    """Bytes of all damages."""

    def note(self, damages: Sequence[Damage]) -> None:
        """Add damages that follow those already noted."""
        self.damage_count += len(damages)
        self.damaged_size += sum(damage.size for damage in damages)
        self.damages += damages[: max(DAMAGES_MAX - len(self.damages), 0)]

    def take(self, other: CountedLog) -> None:
        """Add what another process has read."""
        self.counts.take(other.counts)
        self.damages = sorted(
            [*self.damages, *other.damages], key=lambda each: (each.start_offset, each.position)
        )[:DAMAGES_MAX]
        self.damage_count += other.damage_count
        self.damaged_size += other.damaged_size


@attrs.frozen
class _Rules:
    """What to count; sent to each process."""

    part: LogPart
    times: TimeRange
    marks: tuple[Mark, ...]


def count_log(
    log: LogReader,
    part: LogPart,
    engine: Engine,
    *,
    times: TimeRange,
    marks: Sequence[Mark],
    end_finding: Corruption | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CountedLog:
    """Count the messages of ``part``, and list what is damaged.

    Args:
        log: the log, opened by this process.
        part: where it is, and what to read of it.
        engine: runs the tasks.
        times: store times of the messages that are counted.
        marks: places in queues to find.
        end_finding: damage that opening took for the log's end.
        progress: called with bytes done and bytes in all; what is read again counts again.
    """
    rules = _Rules(part, times, tuple(marks))
    even = part.size // (engine.parallelism * _SPLITS_PER_JOB)
    size = max(min(SPLIT_SIZE, even), _SPLIT_MIN)
    splits = plan_splits(log, size, part.start_offset, part.end_offset)
    total = sum(split.size for split in splits)
    found: list[CountedLog | None] = engine.run(
        functools.partial(_count, rules), splits, lambda done: progress(done, total)
    )
    again = _stretches(splits, found, part.file_size)
    more = sum(split.size for split in again)
    searched: list[CountedLog] = engine.run(
        functools.partial(_search, rules), again, lambda done: progress(total + done, total + more)
    )
    whole = CountedLog(Counts(times, rules.marks))
    doubtful = [(split.start_offset, split.end_offset) for split in again]
    for split, each in zip(splits, found, strict=True):
        if each is not None and not any(
            start <= split.start_offset < end for start, end in doubtful
        ):
            whole.take(each)
    for each in searched:
        whole.take(each)
    last = DamageCollector(log)
    last.add_end(end_finding)
    whole.note(last.damages)
    return whole


def _count(rules: _Rules, split: Split, report: Callable[[int], None]) -> CountedLog | None:
    """Count one split; None if it is not sound."""
    counts = Counts(rules.times, rules.marks)
    with open_log(rules.part) as log:
        try:
            for batch in read_split(log, split, check_crc=True):
                counts.add(batch)
                report(batch.end_offset - split.start_offset)
        except CorruptFileError:
            return None
    return CountedLog(counts)


def _search(rules: _Rules, split: Split, report: Callable[[int], None]) -> CountedLog:
    """Count a stretch that is not sound, in one piece, and list its damages."""
    found = CountedLog(Counts(rules.times, rules.marks))
    with open_log(rules.part) as log:
        collector = DamageCollector(log)
        for batch in log.scan(split.start_offset, split.end_offset, check_crc=True):
            found.counts.add(batch)
            collector.add(batch)
            if collector.damages:
                found.note(collector.damages)
                collector.damages.clear()
            report(batch.end_offset - split.start_offset)
    return found


def _stretches(
    splits: Sequence[Split], found: Sequence[CountedLog | None], file_size: int
) -> list[Split]:
    """Return what to read in one piece.

    The log's beginning is a border, and so is the end of a sound split that began at one; after an
    unsound split, only the beginning of the next file is a border for certain.
    """
    again: list[Split] = []
    is_open = False
    for split, each in zip(splits, found, strict=True):
        if split.start_offset % file_size == 0:
            is_open = False
        if is_open:
            again[-1] = Split(again[-1].number, again[-1].start_offset, split.end_offset)
        elif each is None:
            again.append(split)
            is_open = True
    return again
