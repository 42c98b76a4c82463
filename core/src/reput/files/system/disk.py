"""`Disk`: the only way by which core and plugins reach the operating system's files.

A short write is completed or raises, and only flushed bytes are reported as flushed. A disk that is
bound to a store by `Disk.at` refuses everything that is not part of the store.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reput.engine import kernel
from reput.errors import NotAFileError, UnsafePathError
from reput.files.system.directorytree import DirectoryTree, is_absence
from reput.files.system.filelock import lock_owner, try_lock
from reput.files.system.flushing import FlushFailedError, heart
from reput.files.system.storeroot import ALLOWED, EXHAUSTED
from reput.files.system.vectoredread import read_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Buffer = bytes | bytearray | memoryview

_Map = TypeVar("_Map", bound=mmap.mmap)

# Opening a foreign pipe must not wait for a peer.
_OPEN: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_READ_AT_ONCE: Final = 1 << 16  # bytes read before the file's size is asked
_CLEAR_SIZE: Final = 1 << 20  # bytes read, and zeroed, at a time
_ZEROS: Final = bytes(_CLEAR_SIZE)


@kernel
def write_pieces(pieces: Sequence[tuple[int, Any, int]]) -> None:
    """Write pieces in their order, each as `Disk.write` does.

    Args:
        pieces: of each the descriptor, the bytes as ``(n,)`` uint8, and the file position.
    """
    for descriptor, data, position in pieces:
        written = 0
        while written < len(data):  # a signal or a nearly full disk cut it short
            written += os.pwrite(descriptor, data[written:], position + written)


class Disk(DirectoryTree):
    """File operations of a store; every method raises `OSError` when the system does.

    A subclass shares its attributes with the disks that `at` makes of it.
    """

    flushes_at_once: int = 8
    """How many files are flushed in parallel, if there are many; 1 flushes them in order."""

    # ------------------------------------------------------------------ open files

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """Open a regular file and return its descriptor.

        Args:
            path: the file.
            write: whether it will be written.
            create: whether it is created if it does not exist; implies ``write``.
            fresh: whether it must not exist yet; together with ``create``.

        Raises:
            FileExistsError: the file exists, and must not.
            NotAFileError: a directory.
            UnsafePathError: a link, a device or a pipe; or a file to be written that has a second
                name, which may be outside of the store.
        """
        root = self._root
        directory, name = root.reach(path)
        flags = _OPEN | (os.O_RDWR if write or create else os.O_RDONLY)
        if directory is not None:
            flags |= os.O_NOFOLLOW
        if (write or create) and root.frozen_reason is not None:
            root.require_open()
        try:
            if create and (fresh or directory is not None):
                try:
                    return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory)
                except FileExistsError:
                    if fresh:
                        raise
            if create:
                flags |= os.O_CREAT
            descriptor = os.open(name, flags, 0o644, dir_fd=directory)
        except OSError as error:
            if error.errno in EXHAUSTED and root.makes_room():
                return self.open(path, write=write, create=create, fresh=fresh)
            if directory is not None and error.errno in (errno.ELOOP, errno.ENXIO):
                # A link; or a pipe or a socket.
                _require_plain(root.status(path), path, flags)
            if error.errno == errno.EISDIR:
                raise NotAFileError(path) from None
            error.filename = path
            raise
        if directory is not None or not flags & os.O_RDWR:
            try:
                found = os.fstat(descriptor)
                is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1
                if not is_plain and (directory is not None or stat.S_ISDIR(found.st_mode)):
                    _require_plain(found, path, flags)
            except BaseException:
                os.close(descriptor)
                raise
        return descriptor

    def create_fresh(self, path: str) -> int:
        """Make an empty temporary file, which is renamed later; return its descriptor.

        A file that a crash left under that name is removed and never opened, as another process may
        have it open.
        """
        try:
            return self.open(path, create=True, fresh=True)
        except FileExistsError:
            self._refuse_link(path)
            self.remove(path)
            return self.open(path, create=True, fresh=True)

    def close(self, descriptor: int) -> None:
        """Close a descriptor of `open`."""
        os.close(descriptor)

    def is_whole(self, descriptor: int, size: int) -> bool:
        """Whether the open file still has a name, without which it is lost, and ``size`` bytes."""
        status = os.fstat(descriptor)  # one call for both, as every group commit makes it
        return status.st_nlink > 0 and status.st_size >= size

    def size(self, descriptor: int) -> int:
        """Size of the open file in bytes."""
        return os.fstat(descriptor).st_size

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from file position ``position``; fewer only at the file's end."""
        return os.pread(descriptor, size, position)

    def read_pieces(self, descriptor: int, *wanted: Any) -> tuple[list[bytes], int]:
        """Read many short pieces of a file; see `reput.files.system.vectoredread.read_pieces`."""
        # A subclass that changes `read` means this, too.
        return read_pieces(
            descriptor if self.reads_plainly else partial(self.read, descriptor), *wanted
        )

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fill ``buffer`` from file position ``position``; return the number of bytes read."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(descriptor, [buffer[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def data_ranges(self, descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of ``[start, end)`` outside of sparse regions, which read as zero.

        All parts are looked up before any is read, as read-ahead makes regions count as data. If
        the system does not know, the whole range is returned.
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
            if error.errno != errno.ENXIO:  # ENXIO: only a sparse region up to the file's end
                return [(start, end)]
        except AttributeError:  # no SEEK_DATA on this system
            return [(start, end)]
        return ranges

    def clear(self, descriptor: int, start: int, end: int) -> int:
        """Zero the bytes in ``[start, end)`` that are not zero; the caller flushes them.

        Returns:
            The number of bytes written; 0 if all were zero already.
        """
        cleared = 0
        for first, stop in self.data_ranges(descriptor, start, end):
            for at in range(first, stop, _CLEAR_SIZE):
                data = self.read(descriptor, min(_CLEAR_SIZE, stop - at), at)
                if not is_zero(data):
                    self.write(descriptor, bytes(len(data)), at)
                    cleared += len(data)
        return cleared

    def write(self, descriptor: int, data: Buffer, position: int) -> None:
        """Write all of ``data`` at file position ``position``."""
        written = self.write_some(descriptor, data, position)
        view = memoryview(data)
        while written < len(view):  # a signal or a nearly full disk cut it short
            written += self.write_some(descriptor, view[written:], position + written)

    def write_pieces(self, pieces: Sequence[tuple[int, Any, int]]) -> None:
        """Write many pieces, also of several files, in their order; see `write_pieces`.

        The interpreter lock is released once. After an error some pieces may have been written.
        """
        mine = type(self)
        if mine.write is Disk.write and mine.write_some is Disk.write_some:
            if self._root.frozen_reason is not None:
                self._root.require_open()
            write_pieces(pieces)
            return
        for descriptor, data, position in pieces:
            self.write(descriptor, data.data, position)

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write a first part of ``data``, often all; return its size. Callers use `write`."""
        if self._root.frozen_reason is not None:
            self._root.require_open()
        return os.pwrite(descriptor, data, position)

    def allocate(self, descriptor: int, size: int, start: int = 0) -> None:
        """Give the file's bytes ``[start, size)`` real space, so that writing them cannot fail.

        The file has at least ``size`` bytes afterwards.
        """
        if self._root.frozen_reason is not None:
            self._root.require_open()
        try:
            os.posix_fallocate(descriptor, start, size - start)
        except OSError as error:  # musl leaves file systems without it, as NFS or ZFS, to callers
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL) or size <= start:
                raise
            self._fill_blocks(descriptor, size, start)

    def _fill_blocks(self, descriptor: int, size: int, start: int) -> None:
        """Write one byte of each block that reads as zero: what glibc does in that case."""
        if self.size(descriptor) < size:
            self.truncate(descriptor, size)
        block = os.fstat(descriptor).st_blksize
        for position in range(start // block * block, size, block):
            place = max(position, start)
            if os.pread(descriptor, 1, place) == b"\0":
                os.pwrite(descriptor, b"\0", place)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the size of the file; added bytes read as zero and take no space yet."""
        if self._root.frozen_reason is not None:
            self._root.require_open()
        os.ftruncate(descriptor, size)

    @property
    def flushes_plainly(self) -> bool:
        """Whether no subclass changes `flush` and `is_whole`, so that a kernel may replace them."""
        mine = type(self)
        return mine.flush is Disk.flush and mine.is_whole is Disk.is_whole

    def flush(self, descriptor: int) -> None:
        """Return when the file's bytes are on disk, also bytes written through a map.

        Raises:
            FlushFailedError: they may be lost, even if another flush succeeds.
        """
        if self._root.frozen_reason is not None:
            self._root.require_open()
        try:
            if hasattr(os, "fdatasync"):
                os.fdatasync(descriptor)
            else:
                os.fsync(descriptor)
        except OSError as error:
            raise FlushFailedError(error.errno, error.strerror) from error
        heart.beat()

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map the first ``size`` bytes for writing, which may be more than the file has.

        Storing to bytes without space (see `allocate`) may end the process.
        """
        self._root.require_open()
        try:
            return mmap.mmap(descriptor, size)
        except ValueError:
            return self.map_as(mmap.mmap, descriptor, size)

    def map_as(self, kind: type[_Map], descriptor: int, size: int) -> _Map:
        """Map for writing with a class of maps, also bytes after the end of the file."""
        # The system maps these as well, but Python asks for them. A kill in between leaves a longer
        # file, which is as good.
        found = os.fstat(descriptor).st_size
        if found >= size:
            return kind(descriptor, size)
        os.ftruncate(descriptor, size)
        try:
            return kind(descriptor, size)
        finally:
            os.ftruncate(descriptor, found)

    @property
    def reads_plainly(self) -> bool:
        """Whether no subclass changes `read`, so that bytes may be read in other ways."""
        return type(self).read is Disk.read

    def map_to_read(self, descriptor: int, size: int) -> mmap.mmap:
        """Map the first ``size`` bytes, read-only.

        Reading a page that is not in the file, or that the device cannot read, ends the process.
        """
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)

    def lock(self, descriptor: int) -> bool:
        """Lock the file's first byte for this open file; False if another open file has the lock.

        The lock is released when the last copy of this descriptor is closed (`os.dup`, a forked
        child). It excludes locks of processes, such as Java's, and they exclude it. On a system
        without such locks it belongs to the process, and is released when the process closes any
        descriptor of the file.
        """
        return try_lock(descriptor)

    def lock_shared(self, descriptor: int) -> bool:
        """Lock the file's first byte as `lock` does, for a file open to read.

        Others may share the lock; it excludes locks of writers, and they exclude it.
        """
        return try_lock(descriptor, shared=True)

    def lock_owner(self, descriptor: int) -> int | None:
        """Return the owner of the lock, as `reput.files.system.filelock.lock_owner` does."""
        return lock_owner(descriptor)

    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the seconds by which a store decides whether a call takes too long."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds by `monotonic`."""
        time.sleep(seconds)

    # ------------------------------------------------------------------ small files

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file so that a crash leaves the whole old or the whole new file.

        The new bytes are on disk before the name points to them, and the name is on disk before
        this returns. After an error the call may be repeated.
        """
        fresh = f"{path}.new"
        descriptor = self.create_fresh(fresh)
        try:
            self.write(descriptor, data, 0)
            self.flush(descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # a nearly full disk needs the space
                self.remove(fresh)
            raise
        finally:
            self.close(descriptor)
        self.rename(fresh, path)
        self.flush_directory(os.path.dirname(path))

    def overwrite(self, path: str, data: bytes, position: int = 0) -> bool:
        """Write to a small file in place; on disk when this returns. False if it is missing."""
        try:
            descriptor = self.open(path, write=True)
        except FileNotFoundError:
            return False
        try:
            self.write(descriptor, data, position)
            self.flush(descriptor)
        finally:
            self.close(descriptor)
        return True

    def finish_replacing(self, directory: str, *names: str, flush: bool = True) -> None:
        """Complete, or undo, calls of `replace` that a kill interrupted.

        Removes temporary files, and flushes the directory: a power cut could undo a rename after
        changes that rest on the new file. The writer of the files calls this before it reads them.

        Args:
            directory: where the files are; may be missing.
            names: names of the files; all files of the directory when left out.
            flush: False if the last writer closed the store (`reput.plugin.StoreContext.clean`):
                every name is on disk then.
        """
        found = self.list_names(directory)
        for name in found:
            if name.endswith(".new") and (not names or name.removesuffix(".new") in names):
                path = os.path.join(directory, name)
                self._refuse_link(path)
                if not self._is_directory(path):
                    self.remove(path)
        if flush and found:  # a file that was replaced is among them
            self.flush_directory(directory)

    def read_file(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes:
        """Return the same as `read_if_exists`.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        data = self.read_if_exists(path, limit)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return data

    def read_if_exists(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes | None:
        """Return at most ``limit`` bytes of a small file; None if it does not exist."""
        try:
            descriptor = self.open(path)
        except FileNotFoundError:  # of a disk of somebody else, without a number
            return None
        except (OSError, ValueError) as error:
            if is_absence(error):
                return None
            raise
        try:
            data = self.read(descriptor, min(limit, _READ_AT_ONCE), 0)
            if len(data) == _READ_AT_ONCE < limit:
                data = self.read(descriptor, min(limit, self.size(descriptor)), 0)
            return data
        finally:
            self.close(descriptor)


def is_zero(data: bytes) -> bool:
    """Whether all bytes of ``data`` are zero; true of none."""
    # A comparison is a hundred times as fast as counting the zeros.
    return data == (_ZEROS if len(data) == len(_ZEROS) else bytes(len(data)))


def system_clock() -> int:
    """Return the time now, ms since the epoch: the clock of a store that is given no other."""
    return time.time_ns() // 1_000_000


def _require_plain(found: os.stat_result, path: str, flags: int) -> None:
    """Refuse what is not a regular file, and to write a file that has a second name."""
    if stat.S_ISDIR(found.st_mode):
        raise NotAFileError(path)
    if not stat.S_ISREG(found.st_mode):
        raise UnsafePathError(
            path, "is a pipe, socket or device", "a regular file is expected; move it away"
        )
    if found.st_nlink > 1 and flags & os.O_ACCMODE != os.O_RDONLY:
        raise UnsafePathError(
            path,
            f"has {found.st_nlink} names (hard links), and one may be outside of the store",
            f"put a copy of the file in its place, or {ALLOWED}",
        )
