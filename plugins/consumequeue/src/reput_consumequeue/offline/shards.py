"""Build the queues from splits of the log, in parallel.

The place of a unit is its queue offset times its size, whatever stands before it: each split writes
the units of its messages where they belong, in files of full size; no unit is sorted or sent. Two
splits may write to one file at the same time, but never to the same unit.

This is right only if every queue offset follows the one before it. If an offset repeats or leaves a
gap, the sequential rules of `ConsumeQueue.append_run` decide, and the log is read in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from reput.files import Disk, FilePool, file_name, run_parallel
from reput_consumequeue.layout import DIRECTORY, UNIT_SIZE, gone_units, pre_blank_units
from reput_consumequeue.unitruns import runs
from reput_tools.offline import NotSplittableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reput.record import DispatchBatch
    from reput_consumequeue.unitruns import UnitRun
    from reput_tools.offline import Split

_NAME = "consumequeue"
_FILES_OPEN = 256
_QUEUE_ID_MAX = (1 << 31) - 1


@attrs.frozen
class Extent:
    """Units of one queue that one split has written."""

    first: int
    """Queue offset of the first unit."""
    next: int
    """Queue offset after the last unit."""


@attrs.define(eq=False)
class QueueScan:
    """Writes the units of one split."""

    staging: str
    units_per_file: int
    is_good: Callable[[str], bool]
    """Returns whether a topic may name a directory."""
    disk: Disk = attrs.field(factory=Disk)
    grows: bool = False
    """Whether the last file of a queue ends after its last unit."""
    extents: dict[tuple[str, int], Extent] = attrs.field(factory=dict)
    _pool: FilePool = attrs.field(init=False)
    _made: set[str] = attrs.field(factory=set)

    def __attrs_post_init__(self) -> None:
        self._pool = FilePool(self.disk, _FILES_OPEN, write=True)

    def add(self, batch: DispatchBatch) -> None:
        """See `reput_tools.offline.ShardScan.add`."""
        for run in runs(batch):
            if 0 <= run.queue_id <= _QUEUE_ID_MAX and self.is_good(run.topic):
                self._write(run)

    def _write(self, run: UnitRun) -> None:
        key = run.topic, run.queue_id
        first = int(run.queue_offsets[0])
        known = self.extents.get(key)
        if not run.consecutive or first < 0 or (known is not None and first != known.next):
            raise _unlike(key)
        stop = first + len(run.queue_offsets)
        self.extents[key] = Extent(first if known is None else known.first, stop)
        unit, position = first, 0
        while unit < stop:
            base = unit - unit % self.units_per_file
            count = min(base + self.units_per_file, stop) - unit
            path = f"{self.staging}/{DIRECTORY}/{run.topic}/{run.queue_id}/"
            path += file_name(base * UNIT_SIZE)
            self._make(path)
            part = run.data[position : position + count * UNIT_SIZE]
            self._pool.write(path, part, (unit - base) * UNIT_SIZE)
            unit, position = unit + count, position + len(part)

    def _make(self, path: str) -> None:
        if path in self._made:
            return
        _make_file(self.disk, path, UNIT_SIZE if self.grows else self.units_per_file * UNIT_SIZE)
        self._made.add(path)

    def _flush(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._pool.flush(path)

    def finish(self) -> Mapping[tuple[str, int], Extent]:
        """Flush the units, and return the extent written of each queue."""
        run_parallel(self._flush, sorted(self._made), self.disk.flushes_at_once)
        self._pool.close()
        return self.extents


@attrs.define(eq=False)
class QueueBuilder:
    """Builds all queues from splits; see `reput_tools.offline.ShardBuilder`."""

    units_per_file: int
    is_good: Callable[[str], bool]
    disk: Disk = attrs.field(factory=Disk)
    floors: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    """Queue offset at which a queue continues of which the log has no message any more."""
    min_physical_offset: int = 0
    grows: bool = False
    """Whether the last file of a queue ends after its last unit."""

    @property
    def directories(self) -> Sequence[str]:
        """The directory of units only: queues with extend files are built in order."""
        return (DIRECTORY,)

    def begin(self, split: Split, staging: str) -> QueueScan:
        """See `reput_tools.offline.ShardBuilder.begin`."""
        return QueueScan(staging, self.units_per_file, self.is_good, self.disk, self.grows)

    def plan(self, scanned: Sequence[Mapping[tuple[str, int], Extent]]) -> Sequence[Any]:
        """Return no tasks, as nothing is left to do if every queue continues from split to split.

        Raises:
            NotSplittableError: a queue offset repeats or leaves a gap.
        """
        _whole(scanned)
        return []

    def build(self, task: Any, staging: str) -> Any:
        """Never called: the plan is empty."""
        raise AssertionError("no tasks were planned")

    def finish(
        self,
        scanned: Sequence[Mapping[tuple[str, int], Extent]],
        built: Sequence[Any],
        staging: str,
    ) -> None:
        """Write the units before the first message of each queue, and flush all names."""
        every = f"{staging}/{DIRECTORY}"
        self.disk.make_directory(every)
        topics = set()
        begins = {
            key: (extent.first, pre_blank_units(extent.first % self.units_per_file))
            for key, extent in _whole(scanned).items()
        }
        for (topic, queue_id), floor in self.floors.items():
            if (topic, queue_id) in begins or not 0 <= queue_id <= _QUEUE_ID_MAX or not floor:
                continue
            if self.is_good(topic):
                units = gone_units(floor % self.units_per_file, self.min_physical_offset)
                begins[topic, queue_id] = floor, units
        for (topic, queue_id), (first, units) in sorted(begins.items()):
            directory = f"{every}/{topic}/{queue_id}"
            path = f"{directory}/{file_name((first - first % self.units_per_file) * UNIT_SIZE)}"
            _make_file(
                self.disk, path, UNIT_SIZE if self.grows else self.units_per_file * UNIT_SIZE
            )
            if units:
                self._write(path, units)
            self.disk.flush_directory(directory)
            topics.add(f"{every}/{topic}")
        for directory in sorted(topics):
            self.disk.flush_directory(directory)
        self.disk.flush_directory(every)

    def _write(self, path: str, units: bytes) -> None:
        descriptor = self.disk.open(path, write=True)
        try:
            self.disk.write(descriptor, units, 0)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)


def _whole(
    scanned: Sequence[Mapping[tuple[str, int], Extent]],
) -> dict[tuple[str, int], Extent]:
    """Return the extents of the queues over all splits.

    Raises:
        NotSplittableError: a queue does not continue where the split before ended.
    """
    queues: dict[tuple[str, int], Extent] = {}
    for extents in scanned:
        for key, extent in extents.items():
            known = queues.get(key)
            if known is not None and extent.first != known.next:
                raise _unlike(key)
            queues[key] = extent if known is None else Extent(known.first, extent.next)
    return queues


def _unlike(key: tuple[str, int]) -> NotSplittableError:
    topic, queue_id = key
    return NotSplittableError(
        _NAME, f"queue offsets of {topic}/{queue_id} repeat or leave gaps, so their order decides"
    )


def _make_file(disk: Disk, path: str, size: int) -> None:
    """Create a file of zeros of that size, or leave the file of another process as it is."""
    disk.make_directory(path.rpartition("/")[0])
    descriptor = disk.open(path, create=True)
    try:
        if disk.size(descriptor) < size:
            disk.truncate(descriptor, size)  # the only size that the file can have: nothing is cut
    finally:
        disk.close(descriptor)
