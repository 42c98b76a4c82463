"""Counts a log in splits, side by side, and in one piece where it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput.log import Damage
from reput.record import unwrapped_batch
from reput_tools.doctor.statistics.counts import Counts, TimeRange
from reput_tools.doctor.statistics.logpart import LogPart, open_log
from reput_tools.doctor.tornrecord import torn_damages
from reput_tools.offline import (
    SPLIT_SIZE,
    DamageCollector,
    Split,
    plan_splits,
    read_in_rounds,
    read_split,
)

if TYPE_CHECKING:
    from reput import Store
    from reput.log import LogReader
    from reput_tools.doctor.statistics.reachedoffsets import ReachedOffset
    from reput_tools.offline import Engine

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
    removed_size: int = 0
    """Bytes at the beginning of which a writer has removed the files since they were listed."""
    is_sound: bool = True
    """Whether all was read to the end that was asked for."""

    def note(self, damages: Sequence[Damage]) -> None:
        """Add damages."""
        self.damage_count += len(damages)
        self.damaged_size += sum(damage.size for damage in damages)
        both = [*self.damages, *damages]
        self.damages = sorted(both, key=lambda each: each.start_offset)[:DAMAGES_MAX]

    def take(self, other: CountedLog) -> None:
        """Add what another process has read."""
        more = other.damage_count - len(other.damages)
        size = other.damaged_size - sum(damage.size for damage in other.damages)
        self.counts.take(other.counts)
        self.note(other.damages)
        self.removed_size += other.removed_size
        self.damage_count += more
        self.damaged_size += size


@attrs.frozen
class _Task:
    """A stretch of the log, and what to count there."""

    place: LogPart
    split: Split
    times: TimeRange
    marks: tuple[ReachedOffset, ...]

    @property
    def size(self) -> int:
        """Bytes of the stretch."""
        return self.split.size


def count_log(
    store: Store,
    part: LogPart,
    engine: Engine,
    *,
    times: TimeRange,
    marks: Sequence[ReachedOffset],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> CountedLog:
    """Count the messages of ``part``, and list what is damaged.

    Args:
        store: open for reading.
        part: what to read of its log.
        engine: runs the tasks.
        times: store times of the messages that are counted.
        marks: places in queues to find.
        progress: called with bytes done and bytes in all; bytes read again count again.
    """
    even = part.size // (engine.parallelism * _SPLITS_PER_JOB)
    size = max(min(SPLIT_SIZE, even), _SPLIT_MIN)
    splits = plan_splits(store.log, size, part.start_offset, part.end_offset)
    tasks = [_Task(part, split, times, tuple(marks)) for split in splits]
    whole = CountedLog(Counts(times, tuple(marks)))
    for _, found in read_in_rounds(tasks, engine, _count, _search, progress=progress):
        whole.take(found)
    last = DamageCollector(store.log)
    last.add_end(store.recovery.finding)
    whole.note(last.damages)
    known = {damage.start_offset for damage in whole.damages}
    torn = (each for each in torn_damages(store) if each.start_offset >= part.start_offset)
    whole.note([each for each in torn if each.start_offset not in known])
    return whole


def _count(task: _Task, report: Callable[[int], None]) -> CountedLog:
    """Count one split, which most often is valid."""
    found, split = CountedLog(Counts(task.times, task.marks)), task.split
    with open_log(task.place) as log:
        split = _left_of(split, log, found)
        try:
            for batch in read_split(log, split, check_crc=True):
                found.counts.add(unwrapped_batch(batch))
                report(batch.end_offset - task.split.start_offset)
        except (CorruptFileError, FileNotFoundError):
            return CountedLog(Counts(task.times, task.marks), is_sound=False)
    return found


def _search(task: _Task, report: Callable[[int], None]) -> CountedLog:
    """Count a stretch that is not valid, in one piece, and list its damages."""
    found, split = CountedLog(Counts(task.times, task.marks)), task.split
    with open_log(task.place) as log:
        split = _left_of(split, log, found)
        collector = DamageCollector(log)
        for batch in log.scan(split.start_offset, split.end_offset, check_crc=True):
            found.counts.add(unwrapped_batch(batch))
            collector.add(batch)
            if collector.damages:
                found.note(collector.damages)
                collector.damages.clear()
            report(min(batch.end_offset, split.end_offset) - task.split.start_offset)
    return found


def _left_of(split: Split, log: LogReader, found: CountedLog) -> Split:
    """Return the part of a split whose files are still there; the log's first ones may have gone.

    They were there when splits were planned, so a writer has removed them: that is not damage.
    """
    start = min(max(log.min_physical_offset, split.start_offset), split.end_offset)
    found.removed_size = start - split.start_offset
    return Split(split.number, start, split.end_offset)
