"""`CacheNeutralDisk`: reads much, and leaves the system's page cache as it was."""

from __future__ import annotations

import contextlib
import os
from typing import Final

from reput.files import Disk

_PIECE: Final = 128 << 10  # bytes; pages that were in memory before are told apart at this size


class CacheNeutralDisk(Disk):
    """A disk whose reads drop from memory what they brought there.

    Pages that were in memory before stay there, so that a program that reads all of a store does
    not push out what others use. Nothing is read ahead. A system without these calls reads as
    usual.
    """

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """See `Disk.read`."""
        buffer = bytearray(max(min(size, self.size(descriptor) - position), 0))
        count = self.read_into(descriptor, memoryview(buffer), position)
        return bytes(memoryview(buffer)[:count])

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """See `Disk.read_into`."""
        _advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")  # read-ahead blurs the pages
        filled = 0
        while filled < len(buffer):
            piece = buffer[filled : filled + _PIECE]
            at = position + filled
            if not _from_memory(descriptor, piece, at):
                count = super().read_into(descriptor, piece, at)
                _advise(descriptor, at, count, "POSIX_FADV_DONTNEED")
                if count < len(piece):
                    return filled + count
            filled += len(piece)
        return filled


def _from_memory(descriptor: int, buffer: memoryview, position: int) -> bool:
    """Fill ``buffer`` if all of it is in memory; return whether it was."""
    try:
        return os.preadv(descriptor, [buffer], position, os.RWF_NOWAIT) == len(buffer)
    except (AttributeError, OSError):  # not in memory, or the system cannot tell
        return False


def _advise(descriptor: int, position: int, size: int, name: str) -> None:
    """Give the system an advice; it need not take it."""
    with contextlib.suppress(AttributeError, OSError):
        os.posix_fadvise(descriptor, position, size, getattr(os, name))
