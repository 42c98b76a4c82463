"""The files of one queue: which there are, units read from them and written to them."""

from __future__ import annotations

import bisect
import logging
import os
import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.files import FILE_NAME_DIGITS, Unflushed, file_name, make_file
from reput_consumequeue.layout import UNIT, UNIT_DTYPE, UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.files import Disk, Entry, FilePool
    from reput.log import Loss

    Units = np.ndarray[tuple[int], np.dtype[np.void]]

logger = logging.getLogger(__name__)

__all__ = ["FileSet", "QueueFiles", "unit_file_size"]


@attrs.define(eq=False)
class FileSet:
    """What the files of all queues share."""

    disk: Disk
    pool: FilePool
    units_per_file: int
    writable: bool
    losses: Callable[[int, int], Sequence[Loss]] = lambda start, end: ()
    """What the log has lost between two physical offsets."""
    floor: Callable[[str, int], int] = lambda topic, queue_id: 0
    """Queue offset below which every one of a queue was given, as far as the store knows."""
    scratch: str = ""
    """Where a file is made before it gets its name; beside it when left out."""
    extend_file_size: int = 0
    """Bytes of an extend file; 0 as long as there is none."""
    unflushed: Unflushed[str] = attrs.field(init=False)
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    """Held for moments, by whoever changes the list of a queue's files."""

    def __attrs_post_init__(self) -> None:
        self.unflushed = Unflushed(self.disk, self.pool.flush)

    def forget(self, path: str) -> None:
        """Note that a file is about to be removed."""
        self.unflushed.forget(path)
        self.pool.forget(path)

    def make_file(self, directory: str, path: str, size: int, *, is_first: bool) -> None:
        """Make a file of zeros in a directory, which is made, too, when this is its first."""
        if is_first:
            self.disk.make_directory(directory)
        make_file(self.disk, path, size, aside=self.scratch)
        self.unflushed.written(path)
        self.made(directory, is_new=is_first)

    def made(self, directory: str, *, is_new: bool) -> None:
        """Note that a file was made or removed in ``directory``, which may be new itself."""
        if is_new:
            topic = os.path.dirname(directory)
            every_queue = os.path.dirname(topic)
            self.unflushed.named(os.path.dirname(every_queue), every_queue, topic)
        self.unflushed.named(directory)


def unit_file_size(entry: Entry) -> int | None:
    """Size of a directory's entry, bytes; None where that is no file of units, or no more."""
    name = entry.name
    if not (len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()):
        return None
    try:
        return entry.stat().st_size if entry.is_file() else None
    except FileNotFoundError:  # removed between the listing and now
        return None


class QueueFiles:
    """Files of one queue, end to end, all of one size. Positions are units, not bytes."""

    def __init__(self, directory: str, shared: FileSet) -> None:
        self.directory = directory
        self.shared = shared
        self.bases: tuple[int, ...] = ()
        """First unit of each file, ascending; replaced whole, so that readers need no lock."""
        self.lost_last = False
        """Whether a file without bytes was found: units may be missing behind those in front."""
        self._removed_one = False
        # The file written last, as nearly every write goes on in it: its units, its path.
        self._active_base, self._active_stop, self._active_path = 0, 0, ""

    @property
    def units_per_file(self) -> int:
        """Units in one file."""
        return self.shared.units_per_file

    def path(self, base: int) -> str:
        """Path of the file whose first unit is ``base``."""
        return f"{self.directory}/{file_name(base * UNIT_SIZE)}"

    def load(self) -> None:
        """Read the directory.

        Raises:
            CorruptFileError: a file of another size than the rest, or a gap between two.
        """
        found: list[tuple[int, int]] = []
        for entry in self.shared.disk.list(self.directory):
            size = unit_file_size(entry)
            if size is not None:
                found.append((int(entry.name), size))
        sizes = [size for _, size in found]
        if 0 in sizes:
            # A power cut took a size that was not flushed. What lies behind it was not either, and
            # is written again: the last file first, so that a crash in between leaves no gap.
            first_lost = sizes.index(0)
            self.lost_last = True
            if self.shared.writable:
                for base, _ in reversed(found[first_lost:]):
                    self.shared.disk.remove(f"{self.directory}/{file_name(base)}")
                    self.shared.disk.flush_directory(self.directory)
            del found[first_lost:]
        expected = self.units_per_file * UNIT_SIZE
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
        self.bases = tuple(base // UNIT_SIZE for base, _ in found)

    def _advice(self) -> str:
        # All of them: what one queue lacks, nobody looks for in a log that was dispatched.
        every_queue = os.path.dirname(os.path.dirname(self.directory))
        return f"remove {every_queue} to have all queues built again from the log"

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
        data = self._read_bytes(base, (unit - base) * UNIT_SIZE, count * UNIT_SIZE)
        return np.frombuffer(data[: len(data) - len(data) % UNIT_SIZE], UNIT_DTYPE)

    def read_place(self, unit: int) -> tuple[int, int] | None:
        """Physical offset and size that one unit states; None where there is no unit to read."""
        base = self.base_of(unit)
        if base is None:
            return None
        data = self._read_bytes(base, (unit - base) * UNIT_SIZE, UNIT_SIZE)
        if len(data) < UNIT_SIZE:
            return None
        physical_offset, size, _ = UNIT.unpack(data)
        return physical_offset, size

    def _read_bytes(self, base: int, position: int, size: int) -> bytes:
        shared = self.shared
        try:
            if shared.writable:
                return shared.pool.read(self.path(base), size, position)
            # Opened each time: a descriptor that is kept would go on showing a file which the
            # writer has removed, also when it has made another one of that name.
            descriptor = shared.disk.open(self.path(base))
        except FileNotFoundError:  # trimmed in the meantime
            return b""
        try:
            return shared.disk.read(descriptor, size, position)
        finally:
            shared.disk.close(descriptor)

    def write(self, unit: int, data: memoryview) -> None:
        """Write units from ``unit`` on, over as many files as it takes; made as needed."""
        position, end = 0, len(data)
        while position < end:
            if not self._active_base <= unit < self._active_stop:
                self._activate(unit - unit % self.units_per_file)
            part = data[position : position + (self._active_stop - unit) * UNIT_SIZE]
            self.shared.pool.write(self._active_path, part, (unit - self._active_base) * UNIT_SIZE)
            self.shared.unflushed.written(self._active_path)
            position += len(part)
            unit += len(part) // UNIT_SIZE

    def _activate(self, base: int) -> None:
        if not self.bases or base > self.bases[-1]:
            self.make(base)
        self._active_base, self._active_stop = base, base + self.units_per_file
        self._active_path = self.path(base)

    def make(self, base: int) -> None:
        """Make the file whose first unit is ``base``, at full size and zero."""
        size = self.units_per_file * UNIT_SIZE
        self.shared.make_file(self.directory, self.path(base), size, is_first=not self.bases)
        with self.shared.lock:  # another thread may be trimming the head
            self.bases = (*self.bases, base)

    def note_unflushed(self) -> None:
        """Have the next flush bring all files to disk, and the names that lead to them."""
        for base in self.bases:
            self.shared.unflushed.written(self.path(base))
        self.shared.made(self.directory, is_new=True)

    def clear_from(self, unit: int) -> None:
        """Remove files behind the one that ends before ``unit``, and zero that one's tail.

        Different from RocketMQ on purpose: it leaves cut units on disk, where a later opening
        takes them for good ones.
        """
        for base in reversed(self.bases):
            if base < unit or (base == unit > 0 and len(self.bases) == 1):
                break  # a sole file that is empty stays: its name says where the queue goes on
            self._remove(base)
        holding = self.base_of(unit)
        if holding is not None:
            path = self.path(holding)
            with self.shared.pool.descriptor(path) as descriptor:
                size = self.units_per_file * UNIT_SIZE
                if self.shared.disk.clear(descriptor, (unit - holding) * UNIT_SIZE, size):
                    self.shared.unflushed.written(path)

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
        with self.shared.lock:
            self.bases = tuple(other for other in self.bases if other != base)
        if base == self._active_base:
            self._active_stop = 0
        self.shared.forget(path)
        if self._removed_one:
            # One after the other also on disk: a power cut must not leave a gap.
            self.shared.disk.flush_directory(self.directory)
        self.shared.disk.remove(path)
        self._removed_one = True
        self.shared.made(self.directory, is_new=False)
        logger.info("removed file=%s", path)
