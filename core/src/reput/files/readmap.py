"""`ReadMaps`: files of this process's own store, mapped so that many pieces need no system call.

The system call that reads one piece takes half a microsecond, more than all other work on a short
message. But touching a page that cannot be loaded ends the process (SIGBUS). So a block of a map is
used only after the system has loaded it once without an error, and no map is used of a file that is
shorter than it was. Everything else is read by its descriptor, where an error is an exception.
"""

from __future__ import annotations

import errno
import mmap
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs
import numpy as np

from reput.engine import kernel
from reput.files.preallocation import POPULATE_READ, populate
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from reput.files.system.disk import Disk

    MappedPart = tuple[npt.NDArray[np.uint8], int, int, Callable[[], int]]
    """Loaded bytes of a map, ``(w,)``, read-only; where they begin; bytes of the file; and what
    returns these once more: if they have become fewer, a use of the array may end the process."""

_File = TypeVar("_File")

MAPPED_MIN: Final = 8
"""Pieces of one read that are worth a map; fewer are as fast without."""

_BLOCK_SIZE: Final = 1 << 18  # bytes that are loaded at once
_SPREAD_MAX: Final = 1 << 16  # bytes of a file for each piece; more would load what nobody reads
_MAPS_MAX: Final = 8  # files; a map has two descriptors of its own
_PARTS_MAX: Final = 4  # of one file: readers at as many places find what they have loaded
_JOINED_MAX: Final = 64  # blocks on each side that join a part at once
_SHORT_NOW: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@attrs.define(eq=False, repr=False)
class _ReadMap:
    map: mmap.mmap
    data: npt.NDArray[np.uint8]
    """``(file size,)``, the bytes of `map`; it ends with the last reference to them."""
    loaded: list[int]
    """Bytes of each block that were loaded once."""
    base: int
    """Where the file begins, in what its user counts by."""
    size: Callable[[], int]
    """Returns the bytes that the file has now."""
    ready: tuple[MappedPart, ...] = ()
    """Parts of `data` that were loaded, the last one first; replaced as a whole."""

    def load(self, start: int, end: int, limit: int) -> bool:
        """Load what is missing of ``[start, end)``, and with it its blocks up to ``limit``.

        Returns:
            False if the system could not.
        """
        loaded = self.loaded
        low = start // _BLOCK_SIZE * _BLOCK_SIZE
        for begin in range(low, end, _BLOCK_SIZE):
            block = begin // _BLOCK_SIZE
            if loaded[block] >= min(_BLOCK_SIZE, end - begin):
                continue
            size = min(_BLOCK_SIZE, limit - begin)  # the rest may not be written yet
            done = loaded[block] & -mmap.PAGESIZE  # readers at the end ask for a little each time
            if not populate(self.data.ctypes.data + begin + done, size - done, POPULATE_READ):
                return False
            loaded[block] = size
        high = (end - 1) // _BLOCK_SIZE * _BLOCK_SIZE + loaded[(end - 1) // _BLOCK_SIZE]
        self._note_ready(low, high)
        return True

    def _note_ready(self, low: int, high: int) -> None:
        """Note a part, with other parts that touch it and blocks beside it that are loaded."""
        loaded, others = self.loaded, []
        for part in self.ready:
            first = part[1] - self.base
            end = first + len(part[0])
            if first <= high and low <= end:
                low, high = min(low, first), max(high, end)
            else:
                others.append(part)
        block = low // _BLOCK_SIZE
        for size in reversed(loaded[max(block - _JOINED_MAX, 0) : block]):
            if size < _BLOCK_SIZE:
                break
            low -= _BLOCK_SIZE
        block, rest = divmod(high, _BLOCK_SIZE)
        for size in loaded[block : block + _JOINED_MAX] if not rest else ():
            high += size
            if size < _BLOCK_SIZE:
                break
        made = self.data[low:high], self.base + low, len(self.data), self.size
        self.ready = (made, *others[: _PARTS_MAX - 1])


class ReadMaps(Generic[_File]):
    """Maps of the files that were mapped last. Thread-safe."""

    def __init__(
        self, disk: Disk, descriptor: Callable[[_File], AbstractContextManager[int]]
    ) -> None:
        """Map files of ``disk``, which ``descriptor`` opens."""
        self._disk = disk
        self._descriptor = descriptor
        self._lock = new_lock()
        self._maps: OrderedDict[_File, _ReadMap] = OrderedDict()
        self._works = True
        self._forget_count = 0
        """Calls of `forget` and `clear`; a map made meanwhile may be of the forgotten file."""
        self.parts: tuple[MappedPart, ...] = ()
        """What `loaded` has loaded of files, the last one first; replaced as a whole."""

    def loaded(
        self, file: _File, base: int, size: int, start: int, end: int, count: int, limit: int
    ) -> npt.NDArray[np.uint8] | None:
        """Return ``(end - start,)``, those bytes of a file; None to read them without a map.

        Args:
            file: identifies the file.
            base: where the file begins, in what `parts` count by.
            size: bytes of the file when it is full.
            start: file position of the first piece that is wanted.
            end: file position after the last one.
            count: how many pieces are wanted.
            limit: file position after the last byte that is written.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        is_worth = count >= MAPPED_MIN and 0 <= start < end <= limit <= size
        if not self._works or not is_worth or end - start > count * _SPREAD_MAX:
            return None
        found = self._maps.get(file)
        if found is None or len(found.data) < end:  # it may have grown since it was mapped
            found = self._made(file, base, size, end)
        if found is None or found.size() < len(found.data):
            return None
        if not found.load(start, end, min(limit, len(found.data))):
            return None
        with self._lock:
            self._note_parts(found)
        return found.data[start:end]

    def _note_parts(self, first: _ReadMap | None = None) -> None:
        maps = sorted(self._maps.values(), key=lambda each: each is not first)
        self.parts = tuple(part for each in maps for part in each.ready)

    def _made(self, file: _File, base: int, size: int, end: int) -> _ReadMap | None:
        forget_count = self._forget_count
        with self._descriptor(file) as descriptor:
            if not self._disk.is_whole(descriptor, size):
                size = self._disk.size(descriptor)
                if size < end or not self._disk.is_whole(descriptor, size):
                    return None
            try:
                made = self._disk.map_to_read(descriptor, size)
            except (OSError, ValueError, OverflowError) as error:
                # No such maps, or no address space. Descriptors and memory may be short only now.
                is_short = isinstance(error, OSError) and error.errno in _SHORT_NOW
                self._works = self._works and is_short
                return None
            data = np.frombuffer(made, np.uint8)
            loaded = [0] * -(-size // _BLOCK_SIZE)
            found = _ReadMap(made, data, loaded, base, map_size(made, descriptor))
            with self._lock:
                if self._works and self._forget_count == forget_count:
                    self._maps[file] = found
                while len(self._maps) > _MAPS_MAX:
                    self._maps.popitem(last=False)
        return found

    def forget(self, file: _File) -> None:
        """Unmap a file that is going to be removed or replaced, after its last use."""
        with self._lock:
            self._forget_count += 1  # a thread that maps it now keeps the map for this read only
            self._maps.pop(file, None)
            self._note_parts()

    def clear(self) -> None:
        """Unmap all files after their last use, and map none any more."""
        self._works = False
        with self._lock:
            self._forget_count += 1
            self._maps.clear()
            self.parts = ()


@kernel
def map_size(made: mmap.mmap, descriptor: int) -> Callable[[], int]:
    """Return what returns the size that the file of ``made`` has now.

    Args:
        made: a map, which keeps its file open.
        descriptor: of the same file.
    """
    return made.size
