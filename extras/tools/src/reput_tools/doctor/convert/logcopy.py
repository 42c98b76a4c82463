"""`LogCopy`: writes the records of a log to a plain one, and adapts what states their places.

See `reput_tools.offline.moved_records`.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from reput.files import Disk, file_name
from reput.record.layout import BLANK_MAGIC, BLANK_MIN_SIZE, SIZE_AND_MAGIC
from reput_tools.offline import moved_records

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

    Offsets = npt.NDArray[np.int64]

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"


class LogCopy:
    """Writes the files of a plain log; a context manager."""

    def __init__(self, directory: str, disk: Disk, file_size: int, start: int) -> None:
        """Begin a log.

        Args:
            directory: where its files are made.
            disk: of the new store.
            file_size: bytes of a file.
            start: physical offset at which the log begins.
        """
        self.end_offset = self.start_offset = start
        """Where the next record goes, unless it does not fit in the file."""
        self.last_record_offset = -1
        self.last_store_timestamp = 0
        self._directory = directory
        self._disk = disk
        self._file_size = file_size
        self._base = start
        self._descriptor = -1
        self._halves: list[tuple[Offsets, Offsets]] = []
        """Old and new physical offsets of half messages, of which later records state the old."""

    def __enter__(self) -> Self:
        self._disk.make_directory(self._directory)
        return self

    def __exit__(self, *_: object) -> None:
        self._end_file()
        self._disk.flush_directory(self._directory)

    def add(self, batch: DispatchBatch) -> Offsets:
        """Write the records of a batch; return their new physical offsets."""
        if not len(batch):
            return np.empty(0, np.int64)
        moved = self._places(batch.size)
        self._note_halves(batch, moved)
        data = moved_records(batch, moved, self._half_of)
        position = np.cumsum(batch.size) - batch.size
        self._write(data, position, moved)
        self.last_record_offset = int(moved[-1])
        self.last_store_timestamp = int(batch.store_timestamp[-1])
        return moved

    # ------------------------------------------------------------------ places

    def _places(self, size: Offsets) -> Offsets:
        """Return where records of these sizes go: no record fills a file to its end."""
        moved, ends, row = np.empty(len(size), np.int64), np.cumsum(size), 0
        at, base = self.end_offset, self._base
        while row < len(size):
            done = int(ends[row] - size[row])
            room = base + self._file_size - at - BLANK_MIN_SIZE
            stop = int(np.searchsorted(ends, done + room, "right"))
            moved[row:stop] = ends[row:stop] - size[row:stop] + (at - done)
            if stop > row:
                at += int(ends[stop - 1]) - done
            if stop < len(size):
                base += self._file_size
                at = base
            row = stop
        return moved

    # ------------------------------------------------------------------ what records state

    def _note_halves(self, batch: DispatchBatch, moved: Offsets) -> None:
        if HALF_TOPIC in batch.topics:
            rows = batch.topic_code == batch.topics.index(HALF_TOPIC)
            if rows.any():
                self._halves.append((batch.physical_offset[rows], moved[rows]))

    def _half_of(self, stated: Offsets) -> Offsets:
        """Return the new offsets of half messages; 0, the value of other messages, of a lost one.

        What lies before the log is trimmed: such an offset leads nowhere, as before.
        """
        old = np.concatenate([each for each, _ in self._halves] or [np.empty(0, np.int64)])
        new = np.concatenate([each for _, each in self._halves] or [np.empty(0, np.int64)])
        self._halves = [(old, new)]
        found = np.searchsorted(old, stated)
        is_known = found < len(old)
        is_known[is_known] = old[found[is_known]] == stated[is_known]
        value = np.where(stated < self.start_offset, stated, 0)
        value[is_known] = new[found[is_known]]
        return value

    # ------------------------------------------------------------------ files

    def _write(self, data: npt.NDArray[np.uint8], position: Offsets, moved: Offsets) -> None:
        base = moved - (moved - self.start_offset) % self._file_size
        borders = [0, *(np.flatnonzero(np.diff(base)) + 1).tolist(), len(moved)]
        ends = [*position.tolist(), len(data)]
        for first, stop in itertools.pairwise(borders):
            if self._descriptor < 0 or base[first] != self._base:
                self._begin_file(int(base[first]))
            part = data[ends[first] : ends[stop]]
            self._disk.write(self._descriptor, part.data, int(moved[first]) - self._base)
            self.end_offset = int(moved[first]) + len(part)

    def _begin_file(self, base: int) -> None:
        if self._descriptor >= 0:
            at = self.end_offset - self._base
            blank = SIZE_AND_MAGIC.pack(self._file_size - at, BLANK_MAGIC)
            self._disk.write(self._descriptor, blank, at)
        self._end_file()
        path = os.path.join(self._directory, file_name(base))
        self._descriptor = self._disk.open(path, create=True)
        self._disk.truncate(self._descriptor, self._file_size)
        self._base = base

    def _end_file(self) -> None:
        if self._descriptor >= 0:
            try:
                self._disk.flush(self._descriptor)
            finally:
                self._disk.close(self._descriptor)
                self._descriptor = -1
