"""Fourth round of a job: copy the records that stay into new pairs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput.files import FilePool
from reput_compaction.filepairs.filepair import Pair, PairFiles
from reput_compaction.filepairs.queuenames import Places
from reput_compaction.filepairs.recordblock import RecordBlock, gathered
from reput_compaction.job.merge import read_items
from reput_compaction.run.compaction import Made

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput_compaction.job.jobtasks import Job, LaidPair, Part, WriteTask

_FILES_OPEN = 16
_STRETCH_SIZE = 4 << 20  # bytes read at once
_GAP_MAX = 64 << 10  # reading this many unneeded bytes is quicker than another call


def write(job: Job, task: WriteTask, report: Callable[[int], None], disk: Disk) -> tuple[Made, ...]:
    """Do a task of the fourth round.

    Args:
        job: the job of the task.
        task: the pairs to be written.
        report: called with the bytes of records written.
        disk: file operations.

    Raises:
        CorruptFileError: an old pair is not what it was when it was scanned.
    """
    writer = _Writer(job, task, disk)
    made, done = [], 0
    try:
        for pair in task.pairs:
            made.append(writer.write(pair))
            done += pair.size
            report(done)
        writer.flush()
    finally:
        writer.close()
    return tuple(made)


class _Writer:
    """Old pairs opened for reading, and a new directory of this attempt for new pairs."""

    def __init__(self, job: Job, task: WriteTask, disk: Disk) -> None:
        self._task = task
        self._first_rows = np.array([part.row for part in task.parts])
        self._numbers = FilePool(disk, _FILES_OPEN)
        self._source = PairFiles(
            job.staging, disk, FilePool(disk, _FILES_OPEN, write=False), job.sizes
        )
        self._directory = f"{job.staging}/write-{uuid.uuid4().hex}"
        # Not its parents: if they are gone, the job has ended and does not wait for this attempt.
        disk.make_one_directory(self._directory)
        self._target = PairFiles(
            self._directory, disk, FilePool(disk, _FILES_OPEN, write=True), job.sizes
        )

    def write(self, laid: LaidPair) -> Made:
        """Write one pair."""
        steps = (f"{self._directory}/{laid.queue}/{name}" for name in ("log", "queue", "notes"))
        pair = self._target.make(Places(*steps), laid.base)
        numbers = read_items(
            self._numbers, laid.path, np.dtype("<i8"), laid.first, laid.count
        ).astype(np.int64)
        rows, waits = numbers >> 1, (numbers & 1).astype(bool)
        oldest: list[int] = []
        for part, low, high in self._parts_of(rows):
            slots = rows[low:high] - part.row + part.stretch.first
            waiting = waits[low:high]
            for block, some in self._blocks(part, slots):
                stored = block.units["store_timestamp"][waiting[some]]
                oldest += [int(stored.min())] if len(stored) else []
                self._target.write_block(block, pair, _no_other)
        if (pair.count, pair.size) != (laid.count, laid.size):
            raise AssertionError(f"{pair.count} messages of {laid.count} were written")
        self._target.close(pair)
        self._target.flush_pair(pair)
        for handle in pair.handles:
            self._target.pool.forget(handle)  # closes the file; it is complete
        paths = (pair.log.path, pair.queue.path, pair.notes.path)
        extent = (pair.count, pair.size, pair.last, True)
        return Made(laid.queue, laid.base, paths, extent, min(oldest, default=None))

    def _parts_of(self, rows: npt.NDArray[np.int64]) -> Iterator[tuple[Part, int, int]]:
        """Yield the parts that have some of the rows, and the range of those rows."""
        borders = np.searchsorted(rows, self._first_rows).tolist()
        for part, low, high in zip(
            self._task.parts, borders, [*borders[1:], len(rows)], strict=True
        ):
            if high > low:
                yield part, low, high

    def _blocks(
        self, part: Part, slots: npt.NDArray[np.int64]
    ) -> Iterator[tuple[RecordBlock, slice]]:
        """Yield messages of one old pair, in blocks of one read each."""
        pair = Pair.at(part.places, part.base)
        first, stop = int(slots[0]), int(slots[-1]) + 1
        units = self._source.read_units(pair, first, stop)
        if len(units) != stop - first:
            raise _changed(pair)
        units = units[slots - first]  # a copy
        notes = self._source.read_notes(pair, first, stop)[slots - first]
        sizes = units["size"].astype(np.int64)
        starts = units["position"].astype(np.int64) - pair.base
        for some in stretches(starts, starts + sizes):
            begin = int(starts[some.start])
            end = int(starts[some.stop - 1] + sizes[some.stop - 1])
            if not 0 <= begin < end <= self._source.sizes.log:
                raise _changed(pair)
            window = np.frombuffer(self._source.pool.read(pair.log, end - begin, begin), np.uint8)
            if len(window) != end - begin:
                raise _changed(pair)
            data = gathered(window, starts[some] - begin, sizes[some])
            yield RecordBlock(data, units[some], notes[some]), some

    def flush(self) -> None:
        """Flush everything that was written."""
        self._target.unflushed.flush()

    def close(self) -> None:
        """Close all open files."""
        self._numbers.close()
        self._source.pool.close()
        self._target.pool.close()


def stretches(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of ascending records that are read at once, as the gaps between are small."""
    breaks = np.flatnonzero(starts[1:] - ends[:-1] > _GAP_MAX) + 1
    for low, high in zip([0, *breaks.tolist()], [*breaks.tolist(), len(starts)], strict=True):
        row = low
        while row < high:
            limit = int(starts[row]) + _STRETCH_SIZE
            stop = max(int(np.searchsorted(ends[:high], limit, "right")), row + 1)
            yield slice(row, stop)
            row = stop


def _no_other(last: Pair | None) -> Pair:
    raise AssertionError("a pair takes other messages than it was laid out for")


def _changed(pair: Pair) -> CorruptFileError:
    return CorruptFileError(
        pair.queue.path, 0, "the file has changed since it was scanned; run it once more"
    )
