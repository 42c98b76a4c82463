"""The one door to the operating system's files, for the core and for plugins.

Everything that changes or reads a file of a store goes through a `Disk`. That keeps three promises
in one place: what is created is created at full size, a short write is finished or an error, and
nothing is reported flushed that was not. Tests put a disk of their own in its stead.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview

__all__ = ["Disk", "FilePool"]

_FLOCK: Final = struct.Struct(
    "hhqqi"
)  # struct flock of 64-bit Linux: type, whence, start, len, pid
# Locks of open files where the system has them; asked for so, it also tells of those of processes.
_SET_LOCK: Final[int] = getattr(fcntl, "F_OFD_SETLK", fcntl.F_SETLK)
_GET_LOCK: Final[int] = getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)


class Disk:
    """File operations of a store; every method raises `OSError` when the system does."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int:
        """Open ``path`` and return its descriptor; ``create`` implies ``write``."""
        flags = os.O_RDWR if write or create else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        flags |= getattr(os, "O_NONBLOCK", 0)  # nobody waits for the other end of a foreign pipe
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)

    def close(self, descriptor: int) -> None:
        """Close a descriptor of `open`."""
        os.close(descriptor)

    def is_removed(self, descriptor: int) -> bool:
        """Whether the open file has no name any more, so that nobody will find it again."""
        return os.fstat(descriptor).st_nlink == 0

    def size(self, descriptor: int) -> int:
        """Size of the open file in bytes."""
        return os.fstat(descriptor).st_size

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from file position ``position``; fewer only at the file's end."""
        return os.pread(descriptor, size, position)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fill ``buffer`` from file position ``position``; the number of bytes that were there."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(descriptor, [buffer[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def data_ranges(self, descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
        """Parts of ``[start, end)`` that are not holes of the file.

        A hole reads as zero, and most of a file that was made ahead of need is one. All of them are
        looked up before any is read: what a read brings into memory, and that is more than was
        asked for, is no hole any more. The whole range where the system cannot tell.
        """
        ranges = []
        try:
            while start < end:
                first = os.lseek(descriptor, start, os.SEEK_DATA)
                if first >= end:
                    break
                start = os.lseek(descriptor, first, os.SEEK_HOLE)
                ranges.append((first, min(start, end)))
        except OSError as error:
            if error.errno != errno.ENXIO:  # that one says: nothing but a hole, or the file's end
                return [(start, end)]
        except AttributeError:  # no SEEK_DATA on this system
            return [(start, end)]
        return ranges

    def write(self, descriptor: int, data: Buffer, position: int) -> None:
        """Write all of ``data`` at file position ``position``."""
        written = self.write_some(descriptor, data, position)
        view = memoryview(data)
        while written < len(view):  # a signal or a nearly full disk cut it short
            written += self.write_some(descriptor, view[written:], position + written)

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write a first part of ``data``; the number of bytes written, often all. Use `write`."""
        return os.pwrite(descriptor, data, position)

    def allocate(self, descriptor: int, size: int) -> None:
        """Give the file ``size`` bytes of real space, so that writing it cannot run out of it."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the size of the file; what is added reads as zero and takes no space yet."""
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Return when the file's bytes are on disk, those written through a map included."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map the first ``size`` bytes for writing; only for files that `allocate` made."""
        return mmap.mmap(descriptor, size)

    def rename(self, source: str, target: str) -> None:
        """Put ``source`` in the place of ``target``, at once."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty."""
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        """Whether there is anything under that name."""
        return os.path.lexists(path)

    def leads_nowhere(self, path: str) -> bool:
        """Whether there is a symbolic link of that name, to something that is not there."""
        return os.path.islink(path) and not os.path.exists(path)

    def identity(self, path: str) -> tuple[int, int]:
        """What tells the file or directory from all others, whichever path leads to it."""
        about = os.stat(path)
        return about.st_dev, about.st_ino

    def modified(self, path: str) -> int:
        """When the file's bytes were changed for the last time, ms since the epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def usage(self, path: str) -> tuple[int, int]:
        """Bytes in use, and bytes that we may still use, of the file system that holds ``path``."""
        facts = os.statvfs(path)
        used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
        return used, facts.f_bavail * facts.f_frsize

    def lock(self, descriptor: int) -> bool:
        """Lock the file's first byte for this open file; False where another one has it.

        The lock belongs to the open file and not to the process: it goes with the last descriptor
        that was made of this one (`os.dup`, a forked child), whatever other descriptors of the
        same file are closed. It keeps out the locks of processes, as Java takes them, and they it.
        Where the system has no such lock it is the process's, and goes when the process closes
        any descriptor of the file.
        """
        try:
            try:
                _ask_lock(descriptor, _SET_LOCK)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # Neither the kernel nor the file system is sure to know locks of open files.
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def is_locked(self, descriptor: int) -> bool:
        """Whether another open file, or another process, holds the lock; changes nothing.

        False where the system cannot tell.
        """
        return _lock_owner(descriptor) is not None

    def lock_holder(self, descriptor: int) -> int | None:
        """Process that holds the lock; None where it is free or the system cannot tell.

        The system knows the process only for a lock of a process: not for those of `lock`.
        """
        pid = _lock_owner(descriptor)
        return pid if pid is not None and pid > 0 else None

    def list(self, path: str) -> list[os.DirEntry[str]]:
        """Entries of a directory sorted by name; empty where there is no such directory."""
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str, *, durable: bool = False) -> None:
        """Make a directory and those above it; nothing happens where it is already there.

        With ``durable`` the names of those that were made are on disk when this returns; without,
        flush the directories that hold them.
        """
        missing = []
        while not os.path.isdir(path) and path not in ("", os.sep):
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            self.make_one_directory(each)
            if durable:
                self.flush_directory(os.path.dirname(each) or ".")

    def make_one_directory(self, path: str) -> None:
        """Make a directory in one that is there; use `make_directory`."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):  # else somebody was quicker
                raise

    def flush_directory(self, path: str) -> None:
        """Return when names made, renamed or removed in that directory are on disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file so that a crash leaves the whole old or the whole new one.

        The new bytes are on disk before the name points to them, and the name is on disk before
        this returns.
        """
        fresh = f"{path}.new"
        descriptor = self.open(fresh, create=True)
        try:
            self.truncate(descriptor, 0)
            self.write(descriptor, data, 0)
            self.flush(descriptor)
        finally:
            self.close(descriptor)
        self.rename(fresh, path)
        self.flush_directory(os.path.dirname(path))

    def read_file(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes:
        """All of a small file, at most ``limit`` bytes of it."""
        descriptor = self.open(path)
        try:
            return self.read(descriptor, min(self.size(descriptor), limit), 0)
        finally:
            self.close(descriptor)


class FilePool:
    """Open descriptors of many files, at most ``max_open`` at a time, least recently used out.

    A descriptor that somebody is using is pinned and never closed under them, so the number open
    can pass ``max_open`` by the number of threads. Thread-safe.
    """

    def __init__(self, disk: Disk, max_open: int = 256, *, write: bool = False) -> None:
        self._disk = disk
        self._max_open = max_open
        self._write = write
        self._lock = threading.Lock()
        self._idle: OrderedDict[str, int] = OrderedDict()
        self._pinned: dict[str, tuple[int, int]] = {}  # path -> (descriptor, users)
        self._doomed: set[str] = set()

    @contextlib.contextmanager
    def descriptor(self, path: str) -> Iterator[int]:
        """The file's descriptor, open for the time of the ``with`` block."""
        descriptor = self._pin(path)
        try:
            yield descriptor
        finally:
            self._unpin(path)

    def read(self, path: str, size: int, position: int) -> bytes:
        """`Disk.read` of a pooled file."""
        descriptor = self._pin(path)
        try:
            return self._disk.read(descriptor, size, position)
        finally:
            self._unpin(path)

    def write(self, path: str, data: Buffer, position: int) -> None:
        """`Disk.write` of a pooled file."""
        descriptor = self._pin(path)
        try:
            self._disk.write(descriptor, data, position)
        finally:
            self._unpin(path)

    def flush(self, paths: Sequence[str]) -> None:
        """`Disk.flush` of each path."""
        for path in paths:
            with self.descriptor(path) as descriptor:
                self._disk.flush(descriptor)

    def forget(self, path: str) -> None:
        """Close the file's descriptor as soon as nobody uses it; call before removing the file."""
        with self._lock:
            descriptor = self._idle.pop(path, None)
            if path in self._pinned:
                self._doomed.add(path)
        if descriptor is not None:
            self._disk.close(descriptor)

    def close(self) -> None:
        """Close every idle descriptor; those in use close when their user is done."""
        with self._lock:
            idle, self._idle = list(self._idle.values()), OrderedDict()
            self._doomed.update(self._pinned)
        for descriptor in idle:
            self._disk.close(descriptor)

    def _pin(self, path: str) -> int:
        with self._lock:
            held = self._pinned.get(path)
            if held is not None:
                self._pinned[path] = (held[0], held[1] + 1)
                return held[0]
            descriptor = self._idle.pop(path, -1)
            if descriptor < 0:
                descriptor = self._disk.open(path, write=self._write)
            self._pinned[path] = (descriptor, 1)
            return descriptor

    def _unpin(self, path: str) -> None:
        surplus = []
        with self._lock:
            descriptor, users = self._pinned.pop(path)
            if users > 1:
                self._pinned[path] = (descriptor, users - 1)
                return
            if path in self._doomed:
                self._doomed.discard(path)
                surplus.append(descriptor)
            else:
                self._idle[path] = descriptor
                while len(self._idle) > self._max_open:
                    surplus.append(self._idle.popitem(last=False)[1])
        for descriptor in surplus:
            self._disk.close(descriptor)


def _ask_lock(descriptor: int, command: int) -> tuple[int, int]:
    """Ask for a lock of the first byte, or about it; kind and process of the system's answer."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, command, asked)[: _FLOCK.size])
    return kind, pid


def _lock_owner(descriptor: int) -> int | None:
    """Process that holds the lock, -1 for an open file; None where it is free or unknown."""
    for command in dict.fromkeys((_GET_LOCK, fcntl.F_GETLK)):
        try:
            kind, pid = _ask_lock(descriptor, command)
        except (OSError, struct.error):
            continue
        return pid if kind != fcntl.F_UNLCK else None
    return None
