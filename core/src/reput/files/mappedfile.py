"""`MappedFile`, the file of a run that is written, through a map of its bytes.

A file of a broker's store has its full size from the start, as RocketMQ expects, and takes space as
it is written. A file that grows ends where its space does. Its map reaches further, so that it is
mapped once.

Source: RocketMQ ``DefaultMappedFile``.
"""

from __future__ import annotations

import errno
import mmap

import attrs

from reput.errors import CorruptFileError
from reput.files.system.disk import Disk

FIRST_SPACE = 1 << 20
"""Bytes of a file that get space on disk when it is made or opened, at least."""
FIRST_SIZE = 64 << 10
"""Bytes of a new file that grows."""
_MOST_SPACE = 64 << 20
_MOST_GROWTH = 4 << 20  # bytes by which a file grows at once


@attrs.define(eq=False, repr=False)
class MappedFile:
    """A file that is open for writing through a map of its bytes."""

    path: str
    base_offset: int
    size: int
    disk: Disk
    descriptor: int
    map: mmap.mmap
    reserved: int
    """Bytes from the start that have space on disk. Storing to others of the map may end the
    process with a signal."""
    grows: bool = False
    """Whether the file ends where its space does, until it is full (see `fill`)."""

    @classmethod
    def open(
        cls,
        path: str,
        base_offset: int,
        size: int,
        disk: Disk,
        used: int = 0,
        *,
        grows: bool = False,
    ) -> MappedFile:
        """Open and map a file, and give space to more than its ``used`` bytes.

        Args:
            path: the file.
            base_offset: offset of its first byte.
            size: bytes of the file when it is full.
            disk: file operations.
            used: bytes that are written.
            grows: whether the file may be shorter than ``size``.
        """
        descriptor = disk.open(path, write=True)
        try:
            found = disk.size(descriptor)
            if found != size and not (grows and found < size):
                raise CorruptFileError(path, found, f"the file should have {size} bytes")
            # Also used bytes, as a copied file may be sparse.
            reserved = min(used + _further(used, grows), size)
            disk.allocate(descriptor, reserved)
            mapped = disk.map(descriptor, size)
            return cls(path, base_offset, size, disk, descriptor, mapped, reserved, grows)
        except BaseException:
            disk.close(descriptor)
            raise

    def reserve(self, end: int) -> None:
        """Give the file space up to position ``end``, and further, unless it has that already.

        Raises:
            OSError: the disk has no space for bytes up to ``end``.
        """
        start = self.reserved
        if end <= start:
            return
        ahead = min(end + _further(end, self.grows), self.size)
        try:
            self.disk.allocate(self.descriptor, ahead, start)
        except OSError:
            if ahead == end:
                raise
            ahead = end
            self.disk.allocate(self.descriptor, ahead, start)
        # Another thread may have reserved more meanwhile, or less.
        self.reserved = max(self.reserved, ahead)

    def flush(self) -> None:
        """Return when all bytes written so far are on disk, in a file that still has its name.

        Raises:
            OSError: the file was removed or cut by another process; or see `Disk.flush`.
        """
        self.disk.flush(self.descriptor)
        if not self.disk.is_whole(self.descriptor, self.reserved if self.grows else self.size):
            reason = "the file was removed or cut while it was open"
            raise OSError(errno.EIO, reason, self.path)

    @property
    def least_size(self) -> int:
        """Bytes that the file has at least."""
        return self.reserved if self.grows else self.size

    def fill(self) -> None:
        """Give a file that grows its full size, because another file follows; it is sparse."""
        if self.grows:
            self.disk.truncate(self.descriptor, self.size)

    def close(self) -> None:
        """Unmap and close the file; written bytes stay in the page cache."""
        if not self.map.closed:
            self.map.close()
            self.disk.close(self.descriptor)


def _further(used: int, grows: bool) -> int:
    """Return how much space to reserve beyond ``used`` bytes: little in a file with little."""
    if grows:
        return min(max(used, FIRST_SIZE), _MOST_GROWTH)
    return min(max(used, FIRST_SPACE), _MOST_SPACE)
