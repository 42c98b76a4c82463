"""`LogCopy`: writes the records of a log to a plain one, and adapts what states their places.

A record states its own physical offset. That of a committed transaction states that of its half
message, too, and some have a checksum of all of their bytes. Nothing else in a record is a physical
offset: markers of ended transactions and waiting messages state queue offsets, which stay.

Source: RocketMQ ``CommitLog#doAppend``; ``EndTransactionProcessor``.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from reput.files import Disk, file_name
from reput.record import crc32
from reput.record.layout import (
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    BORN_HOST_V6,
    CRC_PROPERTY_NAME,
    CRC_PROPERTY_SIZE,
    HOST_EXTRA_V6,
    SIZE_AND_MAGIC,
    STORE_HOST_V6,
)
from reput_tools.doctor.repair.fieldrepair import FIELD_POSITIONS

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

    Offsets = npt.NDArray[np.int64]

__all__ = ["HALF_TOPIC", "LogCopy"]

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
_OWN_OFFSET: Final = FIELD_POSITIONS["physical_offset"][0]
_HALF_OFFSET: Final = FIELD_POSITIONS["prepared_transaction_offset"][0]
_NAME: Final = np.frombuffer(CRC_PROPERTY_NAME, np.uint8)
_WORD: Final = np.arange(8)


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
        position = np.cumsum(batch.size) - batch.size
        data = _gathered(batch, position)
        changed = moved != batch.physical_offset
        data[(position + _OWN_OFFSET)[:, None] + _WORD] = _big_endian(moved)
        self._note_halves(batch, moved)
        changed |= self._state_halves(batch, data, position)
        _sign(batch, data, position, changed)
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

    def _state_halves(
        self, batch: DispatchBatch, data: npt.NDArray[np.uint8], position: Offsets
    ) -> npt.NDArray[np.bool_]:
        """Replace the stated offsets of half messages; return which rows were changed."""
        stated = batch.column("prepared_transaction_offset")
        changed = np.zeros(len(batch), np.bool_)
        # What lies before the log is trimmed: such an offset leads nowhere, as before.
        rows = np.flatnonzero(stated >= max(self.start_offset, 1))
        if not len(rows):
            return changed
        old = np.concatenate([each for each, _ in self._halves] or [np.empty(0, np.int64)])
        new = np.concatenate([each for _, each in self._halves] or [np.empty(0, np.int64)])
        self._halves = [(old, new)]
        found = np.searchsorted(old, stated[rows])
        is_known = found < len(old)
        is_known[is_known] = old[found[is_known]] == stated[rows][is_known]
        value = np.zeros(len(rows), np.int64)  # of a lost one; 0 is the value of other messages
        value[is_known] = new[found[is_known]]
        flags = batch.sys_flag[rows]
        at = position[rows] + _HALF_OFFSET
        at += HOST_EXTRA_V6 * ((flags & BORN_HOST_V6 != 0).astype(np.int64))
        at += HOST_EXTRA_V6 * ((flags & STORE_HOST_V6 != 0).astype(np.int64))
        data[at[:, None] + _WORD] = _big_endian(value)
        changed[rows] = value != stated[rows]
        return changed

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


def _gathered(batch: DispatchBatch, position: Offsets) -> npt.NDArray[np.uint8]:
    """Return a copy of the records of a batch, one behind the other."""
    first, total = batch.start, int(batch.size.sum())
    if int(first[-1] + batch.size[-1] - first[0]) == total:
        return batch.window[int(first[0]) : int(first[0]) + total].copy()
    return batch.window[np.arange(total) + np.repeat(first - position, batch.size)]


def _big_endian(values: Offsets) -> npt.NDArray[np.uint8]:
    return values.astype(">i8").view(np.uint8).reshape(-1, 8)


def _sign(
    batch: DispatchBatch,
    data: npt.NDArray[np.uint8],
    position: Offsets,
    changed: npt.NDArray[np.bool_],
) -> None:
    """Compute the checksums of changed records that have one of all of their bytes."""
    rows = np.flatnonzero(changed & (batch.properties_text.sizes >= CRC_PROPERTY_SIZE))
    end = position[rows] + batch.size[rows]
    tails = data[(end - CRC_PROPERTY_SIZE)[:, None] + np.arange(len(_NAME))]
    for row in rows[(tails == _NAME).all(axis=1)].tolist():
        first = int(position[row])
        stop = first + int(batch.size[row]) - CRC_PROPERTY_SIZE
        value = crc32(data[first:stop].tobytes()) & 0x7FFFFFFF
        digits = f"{value:010d}"[::-1].encode()
        at = stop + len(CRC_PROPERTY_NAME)
        data[at : at + len(digits)] = np.frombuffer(digits, np.uint8)
