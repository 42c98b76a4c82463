"""`SelfKillingDisk`: kills its own process at the n-th operation that changes something.

A kill from outside hits a moment between two steps of opening, rolling or closing only by luck;
this disk hits it surely, and also in the middle of a write.
"""

from __future__ import annotations

import errno
import mmap
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from reput.files import Disk
from reput_testing.disks.failingdisk import QuickDisk

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files import Buffer

_PAGE_SIZE = mmap.PAGESIZE
_WORD_SIZE = 8  # written by one instruction


class SelfKillingDisk(QuickDisk):
    """A disk that kills its process at a chosen operation.

    Args:
        flushes: whether flushes are real; if not, they are those of `QuickDisk`.
        maps: whether writes through a map count, and can be the last operation.
    """

    def __init__(self, *, flushes: bool = False, maps: bool = True) -> None:
        self._flushes = flushes
        self._maps = maps
        self._left = -1
        self._full = range(0)
        self._writes = 0
        self._lock = threading.Lock()
        self.before_death: Callable[[], object] = lambda: None
        """Called by the thread that is about to kill its process."""

    def die_at(self, operation: int) -> None:
        """Kill the process before the n-th operation from now on."""
        self._left = operation

    def be_full(self, write: int, count: int) -> None:
        """Refuse ``count`` operations that need space, from the given one on."""
        self._writes, self._full = 0, range(write, write + count)

    def _take_space(self, path: str) -> None:
        if self._full:
            with self._lock:
                self._writes += 1
                is_full = self._writes in self._full
            if is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def is_last(self) -> bool:
        """Count one operation; return whether it is the chosen one."""
        if self._left < 0:
            return False
        with self._lock:
            self._left -= 1
            return self._left == 0

    def _pass(self) -> None:
        if self.is_last():
            self.die()

    def die(self) -> NoReturn:
        """Kill this process as ``kill -9`` does."""
        self.before_death()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError  # never

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """Create a file, or open it."""
        if create:
            self._pass()
            self._take_space(path)
        return super().open(path, write=write, create=create, fresh=fresh)

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write; the last write ends at a page's end, where the system is interrupted."""
        self._take_space(f"descriptor {descriptor}")
        if self.is_last():
            first = -position % _PAGE_SIZE
            if 0 < first < len(data):
                super().write_some(descriptor, memoryview(data)[:first], position)
            self.die()
        return super().write_some(descriptor, data, position)

    def allocate(self, descriptor: int, size: int, start: int = 0) -> None:
        """Allocate space."""
        self._pass()
        self._take_space(f"descriptor {descriptor}")
        super().allocate(descriptor, size, start)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the size."""
        self._pass()
        super().truncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Flush, if flushes are real."""
        self._pass()
        if self._flushes:
            Disk.flush(self, descriptor)

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map; writes through the map are operations, too."""
        self._pass()
        if not self._maps:
            return super().map(descriptor, size)
        mapped = self.map_as(_MortalMap, descriptor, size)
        mapped.disk = self
        return mapped

    def rename(self, source: str, target: str) -> None:
        """Rename."""
        self._pass()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        """Remove."""
        self._pass()
        super().remove(path)

    def make_one_directory(self, path: str) -> None:
        """Make a directory."""
        self._pass()
        self._take_space(path)
        super().make_one_directory(path)

    def flush_directory(self, path: str) -> None:
        """Flush, if flushes are real."""
        self._pass()
        if self._flushes:
            Disk.flush_directory(self, path)


class _MortalMap(mmap.mmap):
    """A map whose last write stops half-way: bytes are copied in order."""

    disk: SelfKillingDisk

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.disk.is_last():
            start, size = key.start, key.stop - key.start
            middle = size * (start % 5) // 4  # nothing, a part or all, by position
            if size > _WORD_SIZE and middle:
                super().__setitem__(slice(start, start + middle), value[:middle])
            self.disk.die()
        super().__setitem__(key, value)
