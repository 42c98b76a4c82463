"""Second and third round of a job: find rows with a successor, and lay out the others in pairs.

No record is read here: hashes, sizes and row numbers are enough.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.files import FilePool
from reput_compaction.job.jobtasks import (
    KIND_DTYPE,
    KIND_STAYS,
    KIND_WAITS,
    LaidPair,
    Merged,
)
from reput_compaction.run.superseded import ROW_DTYPE, by_key

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput_compaction.job.jobtasks import Job, LayTask, MergeTask, Scanned
    from reput_compaction.layout import FileSizes

_FILES_OPEN = 64
_NUMBER = np.dtype("<i8")


def merge(job: Job, task: MergeTask, report: Callable[[int], None], disk: Disk) -> Merged:
    """Do a task of the second round."""
    pool, done = FilePool(disk, _FILES_OPEN), 0
    found = []
    try:
        for each in task.segments:
            found.append(read_items(pool, each.path, ROW_DTYPE, each.first, each.count))
            done += each.count * ROW_DTYPE.itemsize
            report(done)
    finally:
        pool.close()
    rows = np.concatenate([np.zeros(0, ROW_DTYPE), *found])
    del found
    order, is_followed = by_key(rows)
    numbers = np.sort(rows["number"][order[is_followed]])
    path = f"{job.staging}/merge-{uuid.uuid4().hex}"
    _write(disk, path, [numbers])
    return Merged(path, np.searchsorted(numbers, task.borders))


def read_items(
    pool: FilePool, path: str, dtype: np.dtype[Any], first: int, count: int
) -> npt.NDArray[Any]:
    """Return items ``[first, first + count)`` of a file that a task has written.

    Raises:
        OSError: the file ends before.
    """
    data = pool.read(path, count * dtype.itemsize, first * dtype.itemsize)
    if len(data) != count * dtype.itemsize:
        raise OSError(
            f"{path}: ends at {first * dtype.itemsize + len(data)}, where its task has written "
            f"{(first + count) * dtype.itemsize} bytes; is it one file system for all tasks?"
        )
    return np.frombuffer(data, dtype)


def _write(disk: Disk, path: str, arrays: list[npt.NDArray[np.int64]]) -> None:
    descriptor, position = disk.create_fresh(path), 0
    try:
        for array in arrays:
            data = array.astype(_NUMBER).tobytes()
            disk.write(descriptor, data, position)
            position += len(data)
    finally:
        disk.close(descriptor)


# ---------------------------------------------------------------------- third round


def lay_out(
    job: Job, task: LayTask, report: Callable[[int], None], disk: Disk
) -> tuple[LaidPair, ...]:
    """Do a task of the third round.

    Raises:
        ValueError: a record is too large for a file.
    """
    path = f"{job.staging}/stays-{uuid.uuid4().hex}"
    descriptor, written = disk.create_fresh(path), 0
    pool, begin, end = FilePool(disk, _FILES_OPEN), task.queues[0].row, task.queues[-1].end_row
    layouts = [_Layout(job.sizes, each.queue, path) for each in task.queues]
    try:
        for number, scanned in enumerate(task.scanned):
            first, stop = max(scanned.row, begin), min(scanned.end_row, end)
            kinds = _kinds_of(task, number, pool, first, stop)
            rows = np.flatnonzero(kinds["kind"] & KIND_STAYS)
            kinds, rows = kinds[rows], rows + first
            waits = (kinds["kind"] & KIND_WAITS) != 0
            data = (rows * 2 + waits).astype(_NUMBER).tobytes()
            disk.write(descriptor, data, written * _NUMBER.itemsize)
            for queue, layout in zip(task.queues, layouts, strict=True):
                low, high = np.searchsorted(rows, (queue.row, queue.end_row)).tolist()
                layout.add(rows[low:high], kinds["size"][low:high], written + low)
            written += len(rows)
            report((stop - begin) * KIND_DTYPE.itemsize)
    finally:
        pool.close()
        disk.close(descriptor)
    return tuple(pair for layout in layouts for pair in layout.finish())


def _kinds_of(
    task: LayTask, number: int, pool: FilePool, first: int, stop: int
) -> npt.NDArray[np.void]:
    """Return the kinds of rows of one split; rows with a successor are marked as not staying."""
    scanned: Scanned = task.scanned[number]
    kinds = read_items(pool, scanned.kinds, KIND_DTYPE, first - scanned.row, stop - first).copy()
    for each in task.merged:
        low, high = each.starts[number : number + 2].tolist()
        superseded = read_items(pool, each.path, _NUMBER, low, high - low)
        low, high = np.searchsorted(superseded, (first, stop)).tolist()
        kinds["kind"][superseded[low:high] - first] &= ~KIND_STAYS & 0xFF
    return kinds


@attrs.define(eq=False)
class _Layout:
    """Cuts the staying rows of one queue into pairs, in the way of `Files.write_block`."""

    sizes: FileSizes
    queue: int
    path: str
    pairs: list[LaidPair] = attrs.field(factory=list)
    _is_full: bool = True

    def add(self, rows: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32], first: int) -> None:
        """Add the next rows that stay; ``first`` is where their numbers begin in the file."""
        ends, row, begun = np.cumsum(sizes, dtype=np.int64), 0, 0
        while row < len(rows):
            if self._is_full:
                self.pairs.append(self._next(first + row, int(rows[row])))
                self._is_full = False
            pair = self.pairs[-1]
            stop = self.sizes.stop_of(ends, row, begun, pair.count, pair.size)
            if stop <= row:
                self._is_full = True
                if pair.count == 0:
                    raise ValueError(
                        f"a record of {int(sizes[row])} bytes fits into no file of "
                        f"{self.sizes.log} bytes"
                    )
                continue
            end = int(ends[stop - 1])
            self.pairs[-1] = attrs.evolve(
                pair,
                count=pair.count + stop - row,
                size=pair.size + end - begun,
                end_row=int(rows[stop - 1]) + 1,
            )
            row, begun = stop, end

    def _next(self, first: int, row: int) -> LaidPair:
        base = self.pairs[-1].base + self.sizes.log if self.pairs else 0
        return LaidPair(self.queue, base, self.path, first, 0, 0, row, row)

    def finish(self) -> Iterator[LaidPair]:
        """Yield the pairs."""
        yield from self.pairs
