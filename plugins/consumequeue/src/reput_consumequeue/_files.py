"""The files of one queue: which there are, units read from them and written to them."""

from __future__ import annotations

import bisect
import logging
import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.layout import FILE_NAME_DIGITS, file_name
from reput_consumequeue.layout import UNIT_DTYPE, UNIT_SIZE

if TYPE_CHECKING:
    from reput.disk import Disk, FilePool

    Units = np.ndarray[tuple[int], np.dtype[np.void]]

logger = logging.getLogger(__name__)

__all__ = ["FileSet", "QueueFiles"]


@attrs.define(eq=False)
class FileSet:
    """What the files of all queues share."""

    disk: Disk
    pool: FilePool
    units_per_file: int
    writable: bool
    dirty: set[str] = attrs.field(factory=set)
    """Paths written since the last flush."""
    new_directories: set[str] = attrs.field(factory=set)
    """Directories in which files were made since the last flush."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def written(self, path: str) -> None:
        """Note that a file has bytes which are not on disk."""
        if path not in self.dirty:
            with self._lock:
                self.dirty.add(path)

    def flush(self) -> None:
        """Bring to disk what was written before this call; a dispatch may go on meanwhile."""
        with self._lock:
            paths, self.dirty = self.dirty, set()
            directories, self.new_directories = self.new_directories, set()
        try:
            for path in sorted(paths):
                if self.disk.exists(path):
                    self.pool.flush([path])
            for directory in sorted(directories):
                if self.disk.exists(directory):
                    self.disk.flush_directory(directory)
        except BaseException:
            with self._lock:  # the caller may try again, and then for all of them
                self.dirty |= paths
                self.new_directories |= directories
            raise

    def forget(self, path: str) -> None:
        """Note that a file is about to be removed."""
        with self._lock:
            self.dirty.discard(path)
        self.pool.forget(path)

    def made(self, directory: str) -> None:
        """Note that a file was made in ``directory``."""
        with self._lock:
            self.new_directories.add(directory)


class QueueFiles:
    """Files of one queue, end to end, all of one size. Positions are units, not bytes."""

    def __init__(self, directory: str, shared: FileSet) -> None:
        self.directory = directory
        self.shared = shared
        self.bases: tuple[int, ...] = ()
        """First unit of each file, ascending; replaced whole, so that readers need no lock."""
        self._paths: dict[int, str] = {}

    @property
    def units_per_file(self) -> int:
        """Units in one file."""
        return self.shared.units_per_file

    def path(self, base: int) -> str:
        """Path of the file whose first unit is ``base``."""
        path = self._paths.get(base)
        if path is None:
            path = self._paths[base] = f"{self.directory}/{file_name(base * UNIT_SIZE)}"
        return path

    def load(self) -> None:
        """Read the directory.

        Raises:
            CorruptFileError: a file of another size than the rest, or a gap between two.
        """
        found: list[tuple[int, int]] = []
        for entry in self.shared.disk.list(self.directory):
            name = entry.name
            if (
                len(name) == FILE_NAME_DIGITS
                and name.isascii()
                and name.isdigit()
                and entry.is_file()
            ):
                found.append((int(name), entry.stat().st_size))
        if found and found[-1][1] == 0:
            base, _ = found.pop()  # a crash between making a file and giving it its size
            if self.shared.writable:
                self.shared.disk.remove(f"{self.directory}/{file_name(base)}")
        expected = self.units_per_file * UNIT_SIZE
        for number, (base, size) in enumerate(found):
            path = f"{self.directory}/{file_name(base)}"
            if size != expected:
                raise CorruptFileError(
                    path,
                    size,
                    f"the file has {size} bytes where {expected} are expected; remove the queue's "
                    "directory to have it built again from the log",
                )
            if base % expected or (number and base != found[number - 1][0] + expected):
                raise CorruptFileError(
                    path,
                    0,
                    "the file does not follow the one before it; remove the queue's directory to "
                    "have it built again from the log",
                )
        self.bases = tuple(base // UNIT_SIZE for base, _ in found)

    def base_of(self, unit: int) -> int | None:
        """First unit of the file that holds ``unit``; None when no file does."""
        bases = self.bases
        index = bisect.bisect_right(bases, unit) - 1
        if index < 0 or unit >= bases[index] + self.units_per_file:
            return None
        return bases[index]

    def read(self, unit: int, count: int) -> Units:
        """Units from ``unit`` on, at most ``count`` and up to the end of their file."""
        base = self.base_of(unit)
        if base is None or count <= 0:
            return np.zeros(0, UNIT_DTYPE)
        count = min(count, base + self.units_per_file - unit)
        try:
            data = self.shared.pool.read(
                self.path(base), count * UNIT_SIZE, (unit - base) * UNIT_SIZE
            )
        except FileNotFoundError:  # trimmed in the meantime
            return np.zeros(0, UNIT_DTYPE)
        return np.frombuffer(data[: len(data) - len(data) % UNIT_SIZE], UNIT_DTYPE)

    def write(self, unit: int, data: memoryview) -> None:
        """Write units from ``unit`` on, over as many files as it takes; made as needed."""
        position, end = 0, len(data)
        while position < end:
            base = unit - unit % self.units_per_file
            if not self.bases or base > self.bases[-1]:
                self.make(base)
            room = (base + self.units_per_file - unit) * UNIT_SIZE
            part = data[position : position + room]
            path = self.path(base)
            self.shared.pool.write(path, part, (unit - base) * UNIT_SIZE)
            self.shared.written(path)
            position += len(part)
            unit += len(part) // UNIT_SIZE

    def make(self, base: int) -> None:
        """Make the file whose first unit is ``base``, at full size and zero."""
        disk, path = self.shared.disk, self.path(base)
        if not self.bases:
            disk.make_directory(self.directory)
        descriptor = disk.open(path, create=True)
        try:
            # No space yet: units are written through the file, so a full disk is an error of
            # that write; and ten thousand queues of three messages do not take sixty gigabytes.
            disk.truncate(descriptor, self.units_per_file * UNIT_SIZE)
        finally:
            disk.close(descriptor)
        self.shared.written(path)
        self.shared.made(self.directory)
        self.bases = (*self.bases, base)

    def clear_from(self, unit: int) -> None:
        """Remove files behind the one that ends before ``unit``, and zero that one's tail.

        Different from RocketMQ on purpose: it leaves cut units on disk, where a later opening
        takes them for good ones.
        """
        for base in reversed(self.bases):
            if base < unit or (base == unit and len(self.bases) == 1):
                break
            self._remove(base)
        base_holding = self.base_of(unit)
        if base_holding is None:
            return
        path = self.path(base_holding)
        start = (unit - base_holding) * UNIT_SIZE
        size = self.units_per_file * UNIT_SIZE - start
        tail = self.shared.pool.read(path, size, start).rstrip(b"\0")
        if tail:
            self.shared.pool.write(path, bytes(len(tail)), start)
            self.shared.written(path)

    def clear(self) -> None:
        """Remove all files."""
        for base in reversed(self.bases):
            self._remove(base)

    def trim(self, min_unit: int) -> int:
        """Remove whole files below ``min_unit``, never the last; the number removed."""
        removed = 0
        while len(self.bases) > 1 and self.bases[0] + self.units_per_file <= min_unit:
            self._remove(self.bases[0])
            removed += 1
        return removed

    def _remove(self, base: int) -> None:
        path = self.path(base)
        self.bases = tuple(other for other in self.bases if other != base)
        self.shared.forget(path)
        self.shared.disk.remove(path)
        logger.info("removed file=%s", path)
