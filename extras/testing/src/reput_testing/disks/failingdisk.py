"""Disks for tests: quick, read-only, full and failing ones, and one that holds up a flush."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from reput.files import Disk, FlushFailedError

if TYPE_CHECKING:
    import mmap

    from reput.files import Buffer

CHANGING = frozenset(
    {
        "create",
        "write",
        "allocate",
        "truncate",
        "flush",
        "map",
        "rename",
        "remove",
        "make_directory",
        "flush_directory",
    }
)
"""Operations that change something, or promise to keep it; ``create`` is an `open` that may
write."""


_FLUSHES = frozenset({"flush", "flush_directory"})
_LIMIT = 0.25  # seconds that one operation waits for a dispatch
_UNANSWERED = 2  # a plugin that keeps its lock during an operation costs this many limits


class QuickDisk(Disk):
    """A disk whose flushes return at once: a test that cuts no power need not wait for them.

    Attributes:
        capacity: size for `usage`, bytes; None for the system's. It only reports how full the disk
            is, and no write is refused.
        capacity_below: the directory whose files are on the disk.
        others: bytes on the disk that are used by files outside of that directory.
    """

    flushes_at_once = 1  # parallel flushes gain nothing, and operations must keep their numbers
    capacity: int | None = None
    capacity_below: str = ""
    others: int = 0

    @property
    def flushes_nothing(self) -> bool:
        """Whether code that writes past the disk, as SQLite does, need not flush either."""
        return type(self) is QuickDisk  # others show what a flush is worth

    def usage(self, path: str) -> tuple[int, int]:
        """Return bytes in use and bytes free: of the system's disk, or of `capacity`."""
        if self.capacity is None:
            return super().usage(path)
        used = self.others + sum(
            os.path.getsize(os.path.join(directory, name))
            for directory, _, names in os.walk(self.capacity_below or path)
            for name in names
        )
        return used, max(self.capacity - used, 0)

    def flush(self, descriptor: int) -> None:
        """Do nothing; the descriptor must be open."""
        os.fstat(descriptor)

    def flush_directory(self, path: str) -> None:
        """Do nothing; the directory must exist."""
        os.stat(path)


class _WatchedDisk(QuickDisk):
    """Calls `_before` before every operation of `CHANGING`."""

    def _before(self, operation: str, path: str) -> None:
        raise NotImplementedError

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        if write or create:
            self._before("create", path)
        return super().open(path, write=write, create=create, fresh=fresh)

    def write(self, descriptor: int, data: Buffer, position: int) -> None:
        self._before("write", _path_of(descriptor))
        super().write(descriptor, data, position)

    def allocate(self, descriptor: int, size: int, start: int = 0) -> None:
        self._before("allocate", _path_of(descriptor))
        super().allocate(descriptor, size, start)

    def truncate(self, descriptor: int, size: int) -> None:
        self._before("truncate", _path_of(descriptor))
        super().truncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        self._before("flush", _path_of(descriptor))
        super().flush(descriptor)

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        self._before("map", _path_of(descriptor))
        return super().map(descriptor, size)

    def rename(self, source: str, target: str) -> None:
        self._before("rename", target)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._before("remove", path)
        super().remove(path)

    def make_directory(self, path: str, *, durable: bool = False) -> None:
        self._before("make_directory", path)
        super().make_directory(path, durable=durable)

    def flush_directory(self, path: str) -> None:
        self._before("flush_directory", path)
        super().flush_directory(path)


class ReadOnlyDisk(_WatchedDisk):
    """A disk on which nothing can be changed: every attempt is an `OSError` (``EROFS``)."""

    def _before(self, operation: str, path: str) -> None:
        raise OSError(errno.EROFS, f"{operation} on a store that is open for reading only", path)


class OverlapDisk(_WatchedDisk):
    """A disk whose operations of one thread each wait until another thread has dispatched a batch.

    Without it both threads have to run at once, and a loaded machine may run them in turn.
    """

    flushes_nothing = True

    def __init__(self) -> None:
        self._flushing: threading.Thread | None = None
        self._reached = threading.Event()
        self._dispatched = threading.Event()
        self._unanswered = 0

    def hold_up(self, thread: threading.Thread | None) -> None:
        """Let the operations of ``thread`` wait from now on; of None, no operation waits."""
        self._flushing = thread

    def reach(self) -> None:
        """Say that a flush is at an operation, or has ended."""
        self._reached.set()

    def await_flush(self) -> None:
        """Wait until a flush is at an operation, or has ended since the last call."""
        self._reached.wait()
        self._reached.clear()

    def dispatched(self) -> None:
        """Let the flush go on: a batch was dispatched."""
        self._dispatched.set()

    def _before(self, operation: str, path: str) -> None:
        if threading.current_thread() is not self._flushing or self._unanswered >= _UNANSWERED:
            return
        self._dispatched.clear()
        self.reach()
        self._unanswered += not self._dispatched.wait(_LIMIT)


class FaultyDisk(_WatchedDisk):
    """A disk on which the n-th changing operation fails, or several, or all from the n-th on.

    A write that fails has written the first half of its bytes, as on a full disk.

    Args:
        fail_at: number of the operation that fails, counted from 1; None to count without failing.
        error: the `errno` with which it fails.
        lasting: whether every operation after the n-th fails as well.
        count: how many operations fail in a row, as on a disk that is full for a while.
        operations: names out of `CHANGING` that count and can fail.
        below: part of a path; operations on other paths do not count. By default all count.
        short_writes: whether each write stores only a part of its bytes at a time, as the system
            may do.
    """

    def __init__(
        self,
        fail_at: int | None = None,
        *,
        error: int = errno.ENOSPC,
        lasting: bool = False,
        count: int = 1,
        operations: Collection[str] = CHANGING,
        below: str = "",
        short_writes: bool = False,
    ) -> None:
        self.plan(
            fail_at,
            error=error,
            lasting=lasting,
            count=count,
            operations=operations,
            below=below,
            short_writes=short_writes,
        )

    def plan(
        self,
        fail_at: int | None,
        *,
        error: int = errno.ENOSPC,
        lasting: bool = False,
        count: int = 1,
        operations: Collection[str] = CHANGING,
        below: str = "",
        short_writes: bool = False,
    ) -> None:
        """Count from 1 again, with other faults."""
        self.fail_at = fail_at
        self.error = error
        self.lasting = lasting
        self.count = count
        self.operations = frozenset(operations)
        self.below = below
        self.short_writes = short_writes
        self.calls: list[tuple[str, str]] = []
        """Operation and path of each counted operation, the failed ones included."""

    @property
    def failed(self) -> bool:
        """Whether an operation has failed so far."""
        return self.fail_at is not None and len(self.calls) >= self.fail_at

    def mend(self) -> None:
        """Let nothing fail any more: there is space again."""
        self.fail_at = None

    def write(self, descriptor: int, data: Buffer, position: int) -> None:
        """Write all of ``data``, or write half of it and fail."""
        try:
            super().write(descriptor, data, position)
        except _Refused:
            view = memoryview(data).cast("B")
            self.write_some(descriptor, view[: len(view) // 2], position)
            raise

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write a part of ``data``: about half of it with ``short_writes``."""
        view = memoryview(data).cast("B")
        if self.short_writes:
            view = view[: (len(view) + 1) // 2]
        return super().write_some(descriptor, view, position)

    def _before(self, operation: str, path: str) -> None:
        if operation not in self.operations or self.below not in path:
            return
        self.calls.append((operation, path))
        if self.fail_at is None or len(self.calls) < self.fail_at:
            return
        if self.lasting or len(self.calls) < self.fail_at + self.count:
            kind = _FlushRefused if operation in _FLUSHES else _Refused
            raise kind(self.error, f"{os.strerror(self.error)} (call {len(self.calls)})", path)


class _Refused(OSError):
    """An error of `FaultyDisk`, as opposed to the system's."""


class _FlushRefused(_Refused, FlushFailedError):
    """The same of a flush."""


def _path_of(descriptor: int) -> str:
    """Return the path of the descriptor's file, for error texts; else the descriptor's number."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return f"descriptor {descriptor}"
