"""First round of a job: the size and kind of every row, and the hashes of the keys.

Of rows with the same key in one run of a task, only the last row's hash is written. So a key that
comes often takes no more space than others, and the merge reads less.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.files import FilePool
from reput_compaction.filepairs.filepair import Pair, PairFiles
from reput_compaction.filepairs.pairscan import windows
from reput_compaction.job.jobtasks import KIND_DTYPE, KIND_STAYS, KIND_WAITS, Scanned
from reput_compaction.run.superseded import ROW_DTYPE, SORT_FACTOR, KeyHash, by_key, part_starts

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput_compaction.job.jobtasks import Job, ScanTask

_FILES_OPEN = 8


def scan(job: Job, task: ScanTask, report: Callable[[int], None], disk: Disk) -> Scanned:
    """Do a task of the first round.

    Args:
        job: the job of the task.
        task: what to read.
        report: called with the bytes of records read.
        disk: file operations.

    Raises:
        CorruptFileError: a record is not what its unit says.
    """
    pool = FilePool(disk, _FILES_OPEN, write=False)
    files = PairFiles(job.staging, disk, pool, job.sizes)
    key_hash, done = KeyHash(job.seed), 0
    found = _Found(job, disk, task.parts[0].row)
    try:
        for part in task.parts:
            pair = Pair.at(part.places, part.base)
            for window in windows(files, pair, part.stretch):
                keys, has_body = window.keys_and_bodies()
                stays, waits = job.rules.judge(window, keys, has_body, part.newest, job.now)
                kinds = np.empty(len(stays), KIND_DTYPE)
                kinds["size"] = window.sizes
                kinds["kind"] = stays * KIND_STAYS | waits * KIND_WAITS
                found.add(kinds, *key_hash(keys, part.queue))
                done += len(window.data)
                report(done)
        return found.finish()
    finally:
        pool.close()
        found.close()


class _Found:
    """Collects the findings of one task and writes them to two files."""

    def __init__(self, job: Job, disk: Disk, row: int) -> None:
        name = f"{job.staging}/scan-{uuid.uuid4().hex}"
        self.answer = Scanned(row, row, f"{name}.keys", f"{name}.kinds", np.zeros((0, 0), np.int64))
        self._disk = disk
        self._bits = job.bits
        self._limit = max(job.rules.memory // SORT_FACTOR // ROW_DTYPE.itemsize, 1)
        self._rows: list[npt.NDArray[np.void]] = []
        self._kinds: list[npt.NDArray[np.void]] = []
        self._run_row = self._next = row
        self._written = 0
        self._starts: list[npt.NDArray[np.int64]] = []
        self._keys = disk.create_fresh(self.answer.keys)

    def add(
        self,
        kinds: npt.NDArray[np.void],
        high: npt.NDArray[np.uint64],
        low: npt.NDArray[np.uint64],
    ) -> None:
        """Add the next rows."""
        rows = np.empty(len(kinds), ROW_DTYPE)
        rows["high"], rows["low"] = high, low
        rows["number"] = np.arange(self._next, self._next + len(kinds))
        self._next += len(kinds)
        self._rows.append(rows)
        self._kinds.append(kinds)
        if self._next - self._run_row >= self._limit:
            self._end_run()

    def _end_run(self) -> None:
        rows, kinds = np.concatenate(self._rows), np.concatenate(self._kinds)
        order, is_followed = by_key(rows)
        kinds["kind"][rows["number"][order[is_followed]] - self._run_row] &= ~KIND_STAYS & 0xFF
        rows = rows[order[~is_followed]]
        self._disk.write(self._keys, rows.tobytes(), self._written * ROW_DTYPE.itemsize)
        self._starts.append(self._written + part_starts(rows["high"], self._bits))
        self._written += len(rows)
        self._append_kinds(kinds)
        self._rows, self._kinds, self._run_row = [], [], self._next

    def _append_kinds(self, kinds: npt.NDArray[np.void]) -> None:
        descriptor = self._disk.open(self.answer.kinds, create=True)
        try:
            at = (self._run_row - self.answer.row) * KIND_DTYPE.itemsize
            self._disk.write(descriptor, kinds.tobytes(), at)
        finally:
            self._disk.close(descriptor)

    def finish(self) -> Scanned:
        """Write what is left, and return what the task found."""
        if self._rows:
            self._end_run()
        return attrs.evolve(self.answer, end_row=self._next, starts=np.array(self._starts))

    def close(self) -> None:
        """Close the open file."""
        self._disk.close(self._keys)
