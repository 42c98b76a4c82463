"""The files of one queue: find them, and read and write their units."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput.files import file_name, is_file_name
from reput_consumequeue.layout import UNIT, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.recordfiles import FileSet, RecordFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput.files import Disk, Entry

    Listed = tuple[str, int, Sequence[tuple[int, int]]]
    Units = np.ndarray[tuple[int], np.dtype[np.void]]


def unit_file_size(entry: Entry) -> int | None:
    """Return the size in bytes of a file of units; None for an entry that is not such a file."""
    if not is_file_name(entry.name):
        return None
    try:
        return entry.stat().st_size if entry.is_file() else None
    except FileNotFoundError:  # removed between the listing and now
        return None


def unit_files(disk: Disk, directory: str) -> list[tuple[int, int]]:
    """Return the offset of the first byte and the size of each file of units, ascending."""
    found = []
    for entry in disk.list(directory):
        size = unit_file_size(entry)
        if size is not None:
            found.append((int(entry.name), size))
    return found


def first_size(found: Iterable[Listed], least: int) -> tuple[str, int, int] | None:
    """Return topic, queue id and size of the first file that has bytes; None without one.

    Args:
        found: the files of each queue.
        least: bytes of a full file, as far as the options say, if files grow; else 0. Then the size
            is that of files which other files follow, and no smaller than the largest.
    """
    first = None
    for topic, queue_id, files in found:
        if least and len(files) > 1:
            return topic, queue_id, files[1][0] - files[0][0]
        for _, size in files:
            if size and not least:
                return topic, queue_id, size
            if size and (first is None or size > first[2]):
                first = topic, queue_id, max(size - size % UNIT_SIZE, least)
    return first


class QueueFiles(RecordFiles):
    """Files of one queue. Positions are units."""

    def __init__(
        self, directory: str, shared: FileSet, dtype: np.dtype[np.void] = UNIT_DTYPE
    ) -> None:
        size, per_file = dtype.itemsize, shared.units_per_file
        super().__init__(directory, shared, record_size=size, per_file=per_file, depth=2)
        self.dtype = dtype
        self.grows = shared.grows
        self.lost_last = False
        """Whether a file without bytes was found: units may be missing after those before it."""
        # The file written last, as nearly every write continues in it: its units, its path.
        self._active_base, self._active_stop, self._active_path = 0, 0, ""

    def load(self, listed: Sequence[tuple[int, int]] | None = None) -> None:
        """Read the directory.

        Args:
            listed: what `unit_files` has returned for it just now; it is listed when left out.

        Raises:
            CorruptFileError: a file differs in size from the rest, or there is a gap between two.
        """
        self.per_file = self.shared.units_per_file  # a reader may have learnt it meanwhile
        found = list(unit_files(self.shared.disk, self.directory) if listed is None else listed)
        expected = self.file_size
        if self.grows:
            found = self._filled(found, expected)
        sizes = [size for _, size in found]
        if 0 in sizes:
            # A power cut took a size that was not flushed. Later files were not flushed either, and
            # are written again; remove the last first, so that a crash in between leaves no gap.
            first_lost = sizes.index(0)
            self.lost_last = True
            if self.shared.writable:
                for base, _ in reversed(found[first_lost:]):
                    self.shared.disk.remove(f"{self.directory}/{file_name(base)}")
                    self.shared.disk.flush_directory(self.directory)
            del found[first_lost:]
        for number, (base, size) in enumerate(found):
            path = f"{self.directory}/{file_name(base)}"
            if size != expected:
                raise CorruptFileError(
                    path,
                    size,
                    f"the file has {size} bytes where {expected} are expected; {self._advice()}",
                )
            if base % expected or (number and base != found[number - 1][0] + expected):
                raise CorruptFileError(
                    path,
                    0,
                    f"the file does not follow the one before it; {self._advice()}",
                )
        self.bases = tuple([base // self.record_size for base, _ in found])

    def _filled(self, found: list[tuple[int, int]], expected: int) -> list[tuple[int, int]]:
        """Return ``found`` with the full size of a last file that grows.

        If a power cut took the last change of the size of another file, the files after it are
        returned without bytes: they were not flushed either.
        """
        filled = []
        for number, (base, size) in enumerate(found):
            if not 0 < size < expected:
                filled.append((base, size))
                continue
            filled.append((base, expected))
            if self.shared.writable and number < len(found) - 1:
                return [*filled, *((later, 0) for later, _ in found[number + 1 :])]
        return filled

    def _advice(self) -> str:
        # All queues, as the units that one queue lacks are not looked for in a dispatched log.
        every_queue = os.path.dirname(os.path.dirname(self.directory))
        return f"remove {every_queue}, and all queues are rebuilt from the log"

    def read(self, unit: int, count: int) -> Units:
        """Return units from ``unit`` on, at most ``count`` and up to the end of their file."""
        return np.frombuffer(self.read_data(unit, count), self.dtype)

    def read_data(self, unit: int, count: int) -> bytes:
        """Return the same as `read`, as the bytes of whole units."""
        base = self.base_of(unit)
        if base is None or count <= 0:
            return b""
        count = min(count, base + self.per_file - unit)
        unit_size = self.record_size
        data = self.read_bytes(base, (unit - base) * unit_size, count * unit_size)
        excess = len(data) % unit_size
        return data[:-excess] if excess else data

    def read_place(self, unit: int) -> tuple[int, int] | None:
        """Return the physical offset and size that a unit states; None if it cannot be read."""
        base = self.base_of(unit)
        if base is None:
            return None
        data = self.read_bytes(base, (unit - base) * self.record_size, UNIT_SIZE)
        if len(data) < UNIT_SIZE:
            return None
        physical_offset, size, _ = UNIT.unpack(data)
        return physical_offset, size

    def write(self, unit: int, data: memoryview) -> None:
        """Write units from ``unit`` on, and create files as needed."""
        position, end, unit_size = 0, len(data), self.record_size
        while position < end:
            if not self._active_base <= unit < self._active_stop:
                self._activate(unit - unit % self.per_file)
            part = data[position : position + (self._active_stop - unit) * unit_size]
            self.shared.pool.write(self._active_path, part, (unit - self._active_base) * unit_size)
            self.shared.unflushed.written(self._active_path)
            position += len(part)
            unit += len(part) // unit_size

    def place_in_active(self, unit: int, count: int) -> tuple[str, int] | None:
        """Return path and file position of units that all go to the file written last."""
        if self._active_base <= unit and unit + count <= self._active_stop:
            return self._active_path, (unit - self._active_base) * self.record_size
        return None

    def _activate(self, base: int) -> None:
        if not self.bases or base > self.bases[-1]:
            self.make(base)
        self._active_base, self._active_stop = base, base + self.per_file
        self._active_path = self.path(base)

    def clear_from(self, unit: int) -> None:
        """Remove the files after the one that ends before ``unit``, and zero the tail of that file.

        Different from RocketMQ on purpose: RocketMQ leaves cut units on disk, and a later opening
        takes them for good ones.
        """
        for base in reversed(self.bases):
            if base < unit or (base == unit > 0 and len(self.bases) == 1):
                break  # a sole empty file stays: its name says where the queue continues
            self.remove(base)
        self.clear_tail(unit)

    def remove(self, base: int) -> None:
        """See `RecordFiles.remove`."""
        if base == self._active_base:
            self._active_stop = 0
        super().remove(base)
