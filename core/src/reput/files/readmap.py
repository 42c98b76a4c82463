"""`ReadMaps`: files of this process's own store, mapped so that many pieces need no system call.

The system call that reads one piece takes half a microsecond, more than all other work on a short
message. But touching a page that cannot be loaded ends the process (SIGBUS). So a block of a map is
used only after the system has loaded it once without an error, and no map is used of a file that is
shorter than it was. Everything else is read by its descriptor, where an error is an exception.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.files.populating import POPULATE_READ, populate
from reput.locks import new_lock

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files.system.disk import Disk

__all__ = ["MAPPED_MIN", "ReadMaps"]

MAPPED_MIN: Final = 8
"""Pieces of one read that are worth a map; fewer are as fast without."""

_BLOCK_SIZE: Final = 1 << 18  # bytes that are loaded at once
_SPREAD_MAX: Final = 1 << 16  # bytes of a file for each piece; more would load what nobody reads
_MAPS_MAX: Final = 8  # files; a map has a descriptor of its own


@attrs.define(eq=False)
class _ReadMap:
    data: npt.NDArray[np.uint8]
    """``(file size,)``, read-only; the map ends with the last reference to it."""
    loaded: list[int]
    """Bytes of each block that were loaded once."""

    def load(self, start: int, end: int, limit: int) -> bool:
        """Load what is missing of ``[start, end)``, and with it its blocks up to ``limit``.

        Returns:
            False if the system could not.
        """
        loaded = self.loaded
        for block in range(start // _BLOCK_SIZE, -(-end // _BLOCK_SIZE)):
            begin = block * _BLOCK_SIZE
            if loaded[block] >= min(_BLOCK_SIZE, end - begin):
                continue
            size = min(_BLOCK_SIZE, limit - begin)  # the rest may not be written yet
            if not populate(self.data.ctypes.data + begin, size, POPULATE_READ):
                return False
            loaded[block] = size
        return True


class ReadMaps:
    """Maps of the files that were read last. Thread-safe."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = new_lock()
        self._maps: OrderedDict[Hashable, _ReadMap] = OrderedDict()
        self._works = True

    def usable(
        self,
        file: Hashable,
        descriptor: int,
        size: int,
        start: int,
        end: int,
        count: int,
        limit: int,
    ) -> npt.NDArray[np.uint8] | None:
        """Return a file's bytes, of which ``[start, end)`` is loaded; None to read without a map.

        Args:
            file: identifies the file.
            descriptor: of the file, open during the call.
            size: bytes of the file.
            start: file position of the first piece that is wanted.
            end: file position after the last one.
            count: how many pieces are wanted.
            limit: file position after the last byte that is written.
        """
        is_worth = count >= MAPPED_MIN and 0 <= start < end <= limit <= size
        if not self._works or not is_worth or end - start > count * _SPREAD_MAX:
            return None
        if not self._disk.is_whole(descriptor, size):
            return None
        found = self._maps.get(file) or self._made(file, descriptor, size)
        return found.data if found is not None and found.load(start, end, limit) else None

    def _made(self, file: Hashable, descriptor: int, size: int) -> _ReadMap | None:
        try:
            data = np.frombuffer(self._disk.map_to_read(descriptor, size), np.uint8)
        except (OSError, ValueError, OverflowError):  # no address space, or no such maps
            self._works = False
            return None
        with self._lock:
            self._maps[file] = made = _ReadMap(data, [0] * -(-size // _BLOCK_SIZE))
            while len(self._maps) > _MAPS_MAX:
                self._maps.popitem(last=False)
        return made

    def forget(self, file: Hashable) -> None:
        """Unmap a file that is going to be removed or replaced, after its last use."""
        with self._lock:
            self._maps.pop(file, None)

    def clear(self) -> None:
        """Unmap all files after their last use, and map none any more."""
        self._works = False
        with self._lock:
            self._maps.clear()
