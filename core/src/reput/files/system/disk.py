"""`Disk`: the only way by which core and plugins reach the operating system's files.

Every read and every change of a store's file goes through a `Disk`, which keeps three promises: a
file is created at full size, a short write is completed or raises, and only flushed bytes are
reported as flushed. Tests replace it by a disk of their own.

A disk that is bound to a store by `Disk.at` also refuses everything that is not part of the store;
see `reput.files.system.root`.
"""

from __future__ import annotations

import errno
import mmap
import operator
import os
import stat
import time
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from reput.errors import UnsafePathError
from reput.files.system.heartbeat import beat
from reput.files.system.locking import lock_owner, take_lock
from reput.files.system.pieces import pieces_by, read_pieces
from reput.files.system.root import ANYWHERE, Entry, StoreRoot
from reput.files.system.sidebyside import side_by_side
from reput.files.system.zeros import is_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Buffer", "Disk"]

Buffer = bytes | bytearray | memoryview

Item = TypeVar("Item")

_BY_NAME = operator.attrgetter("name")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_READ_AT_ONCE = 1 << 16  # bytes that are asked for without a look at the size of the file
_CLEAR_SIZE = 1 << 20  # bytes read, and zeroed, at a time


class Disk:
    """File operations of a store; every method raises `OSError` when the system does.

    A subclass keeps its state in ordinary attributes, which it shares with the disks that `at`
    makes of it.
    """

    flushes_at_once: int = 8
    """How many files are flushed in parallel, if there are many; 1 flushes them in order."""

    # `_root` is the one attribute that a disk and the disks bound from it do not share.
    __slots__ = ("__dict__", "__weakref__", "_root")
    _root: StoreRoot

    def __new__(cls, *args: object, **options: object) -> Self:
        """Make a disk bound to no root; not in ``__init__``, which subclasses need not call."""
        made = super().__new__(cls)
        made._root = ANYWHERE
        return made

    # ------------------------------------------------------------------ one store's disk

    def at(self, root: str, *, follow_links: bool = False) -> Self:
        """Return a disk bound to one store: it refuses every path outside ``root``.

        The bound disk is of the same class and shares all attributes with this disk, so that what a
        subclass counts, plans or refuses goes on. It refuses symbolic links below the root, unless
        ``follow_links``; the root and the directories above it may be links. It also refuses to
        open pipes and devices, and to write a file that has a second name (a hard link).

        Args:
            root: absolute path of the store's directory, which need not exist yet.
            follow_links: whether links below the root are followed.

        Raises:
            UnsafePathError: this disk is bound already, and ``root`` is outside of its root.
        """
        outer = None if self._root is ANYWHERE else self._root
        if outer is not None:
            outer.names(root)
            if outer.follow_links:
                follow_links, outer = True, None
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__
        made._root = StoreRoot(root, follow_links=follow_links, outer=outer)
        return made

    @property
    def follows_links(self) -> bool:
        """Whether symbolic links are followed: always true for a disk that is not bound."""
        return self._root.follow_links

    def shut(self, reason: str) -> None:
        """Refuse every change from now on; reading goes on.

        Concerns this disk only, and no other disk of the same store. A map that was made before can
        still be written through.

        Args:
            reason: for the error's text.
        """
        if self._root is ANYWHERE:
            raise ValueError("only a disk that is bound to a store can be shut; see Disk.at")
        self._root.shut_reason = reason

    @property
    def is_shut(self) -> bool:
        """Whether `shut` was called."""
        return self._root.shut_reason is not None

    def hold(self, *paths: str) -> None:
        """Keep directories of the store open, so that files in them are reached in one step.

        Nothing is held if links are followed, or for a directory that is missing. A directory that
        this disk renames, removes or makes again is no longer held. So a writer calls this for
        directories that no other process renames while the writer has the store's lock; a plugin
        calls it in `reput_open`, and so again when it is resumed.

        Args:
            paths: absolute, as they begin the paths of files; a directory before those in it.

        Raises:
            UnsafePathError: a path is not below the root, or a step on the way is a link.
        """
        self._root.hold(paths)

    def let_go(self) -> None:
        """Close the descriptors of directories; a later operation opens the root again."""
        self._root.let_go()

    # ------------------------------------------------------------------ open files

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int:
        """Open ``path`` and return its descriptor; ``create`` implies ``write``."""
        flags = os.O_RDWR if write or create else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        if (write or create) and self._root.shut_reason is not None:
            self._root.require_open(path)
        flags |= getattr(os, "O_NONBLOCK", 0)  # opening a foreign pipe must not wait for a peer
        flags |= getattr(os, "O_CLOEXEC", 0)
        return self._root.open_file(path, flags)

    def create_fresh(self, path: str) -> int:
        """Make an empty temporary file, which is renamed later; return its descriptor.

        A file that a crash left under that name is removed first and never opened: so no other
        process has the new file open, and it contains no bytes of the old file.
        """
        if self.exists(path):
            if not self.follows_links:
                self.status(path)  # raises for a link
            self.remove(path)
        return self.open(path, create=True)

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

    def read_pieces(
        self,
        descriptor: int,
        base: int,
        limit: int,
        places: bytes | memoryview,
        stride: int,
        max_size: int,
        max_count: int,
        max_bytes: int,
    ) -> list[bytes]:
        """Read many short pieces of a file; see `reput.files.system.pieces.read_pieces`."""
        if type(self).read is not Disk.read:  # whoever changes what a read does means this, too
            read = partial(self.read, descriptor)
            return pieces_by(read, base, limit, places, stride, max_size, max_count, max_bytes)
        return read_pieces(descriptor, base, limit, places, stride, max_size, max_count, max_bytes)

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
        """Return the parts of ``[start, end)`` that are no sparse regions of the file.

        A sparse region reads as zero; most of a preallocated file is one. All parts are looked up
        before any is read: reading brings more than was asked for into memory, and what is in
        memory is not reported as sparse. If the system cannot tell, the whole range is returned.
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
            How many bytes were written; 0 if all were zero already.
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

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write a first part of ``data``, often all; return its size. Callers use `write`."""
        if self._root.shut_reason is not None:  # as in `StoreRoot.change`: no call in between
            self._root.require_open(descriptor)
        return os.pwrite(descriptor, data, position)

    def allocate(self, descriptor: int, size: int, start: int = 0) -> None:
        """Give the file's bytes ``[start, size)`` real space, so that writing them cannot fail.

        The file has at least ``size`` bytes afterwards.
        """
        has_fallocate = hasattr(os, "posix_fallocate")
        if self._root.shut_reason is not None:  # as in `StoreRoot.change`: no call in between
            self._root.require_open(descriptor)
        if has_fallocate:
            os.posix_fallocate(descriptor, start, size - start)
        elif os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the size of the file; added bytes read as zero and take no space yet."""
        if self._root.shut_reason is not None:  # as in `StoreRoot.change`: no call in between
            self._root.require_open(descriptor)
        os.ftruncate(descriptor, size)

    @property
    def flushes_plainly(self) -> bool:
        """Whether `flush` and `is_whole` do what they do here, so that others may do it."""
        mine = type(self)
        return mine.flush is Disk.flush and mine.is_whole is Disk.is_whole

    def flush(self, descriptor: int) -> None:
        """Return when the file's bytes are on disk, those written through a map included."""
        if self._root.shut_reason is not None:
            self._root.require_open(descriptor)
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)
        beat()

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map the first ``size`` bytes for writing.

        Storing to bytes that `allocate` gave no space ends the process where the disk is full.
        """
        self._root.require_open(descriptor)
        return mmap.mmap(descriptor, size)

    # ------------------------------------------------------------------ names

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target``, replacing it atomically."""
        self._root.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself, never what the link leads to."""
        self._root.change(os.unlink, path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty."""
        self._root.remove_directory(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it; do nothing if there is none.

        Links are removed themselves, never what they lead to, even if this disk follows links.
        """
        if self.follows_links and self._is_link(path):
            self.remove(path)
            return
        for entry in self.list(path):
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                self.remove(entry.path)
        if self.exists(path):
            self.remove_directory(path)

    def exists(self, path: str) -> bool:
        """Whether a file, directory or link of that name exists.

        Raises:
            OSError: the system cannot tell, for example in a directory without permission. Taking
                this for "no" would overwrite a store's files that exist.
        """
        try:
            self._root.look(os.stat, path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            if _is_absence(error):
                return False
            raise
        return True

    def is_dangling_link(self, path: str) -> bool:
        """Whether ``path`` is a symbolic link to something that does not exist."""
        if self.follows_links:
            return self._is_link(path) and not os.path.exists(path)
        if self.exists(path):
            self.status(path)
        return False

    def status(self, path: str) -> os.stat_result:
        """Return size, times and the like of the file or directory."""
        return self._root.status(path)

    def identity(self, path: str) -> tuple[int, int]:
        """Return device and inode: equal for all paths that lead to the same file or directory."""
        about = self.status(path)
        return about.st_dev, about.st_ino

    def modified_ms(self, path: str) -> int:
        """Return when the file's bytes were last changed, ms since the epoch."""
        return self.status(path).st_mtime_ns // 1_000_000

    def usage(self, path: str) -> tuple[int, int]:
        """Return bytes used and bytes still available to us in the file system of ``path``."""
        facts = self._root.file_system(path)
        used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
        return used, facts.f_bavail * facts.f_frsize

    def lock(self, descriptor: int) -> bool:
        """Lock the file's first byte for this open file; False if another open file has the lock.

        The lock belongs to the open file and not to the process: it is released when the last copy
        of this descriptor is closed (`os.dup`, a forked child), whatever other descriptors of the
        file are closed. It excludes locks of processes, such as Java's, and they exclude it. On a
        system without such locks it belongs to the process, and is released when the process
        closes any descriptor of the file.
        """
        return take_lock(descriptor)

    def is_locked(self, descriptor: int) -> bool:
        """Whether another open file or process holds the lock; False if the system cannot tell."""
        return lock_owner(descriptor) is not None

    def lock_owner(self, descriptor: int) -> int | None:
        """Return the owner of the lock, as `reput.files.system.locking.lock_owner` does."""
        return lock_owner(descriptor)

    def lock_holder(self, descriptor: int) -> int | None:
        """Return the process that holds the lock; None if it is free or the system cannot tell.

        The system can tell only for a lock that belongs to a process, unlike those of `lock`.
        """
        pid = lock_owner(descriptor)
        return pid if pid is not None and pid > 0 else None

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name; none if there is no directory."""
        try:
            return sorted(self._root.list(path), key=_BY_NAME)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str, *, durable: bool = False) -> None:
        """Make a directory, and its parents, if missing.

        With ``durable`` the names of new directories are on disk when this returns; without it, the
        caller flushes the directories that hold these names.
        """
        missing = []
        while not self._is_directory(path) and path not in ("", os.sep):
            missing.append(path)
            if path == self._root.path:
                break
            path = os.path.dirname(path)
        for each in reversed(missing):
            self.make_one_directory(each)
            if durable:
                self.flush_directory(os.path.dirname(each) or ".")

    def make_one_directory(self, path: str) -> None:
        """Make a directory whose parent exists. Callers use `make_directory`."""
        try:
            self._root.change(os.mkdir, path)
            self._root.drop(path)  # if it is held, another process has removed it
        except FileExistsError:
            if not self._is_directory(path):  # else another process was quicker
                raise

    def flush_directory(self, path: str) -> None:
        """Return when the directory's names (made, renamed, removed) are on disk."""
        if self._root.shut_reason is not None:
            self._root.require_open(path)
        descriptor = self._root.open_directory(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beat()

    def side_by_side(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call ``work`` for each of ``items``, up to `flushes_at_once` in parallel if many.

        Raises:
            OSError: the exception of the first call that failed; no other call is begun after it.
        """
        side_by_side(work, items, self.flushes_at_once)

    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    """Returns the seconds by which a store judges whether something takes too long."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds by `monotonic`."""
        time.sleep(seconds)

    def _is_link(self, path: str) -> bool:
        try:
            return stat.S_ISLNK(self._root.look(os.lstat, path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self.status(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    # ------------------------------------------------------------------ small files

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file so that a crash leaves the whole old or the whole new file.

        The new bytes are on disk before the name points to them, and the name is on disk before
        this returns.
        """
        fresh = f"{path}.new"
        descriptor = self.create_fresh(fresh)
        try:
            self.write(descriptor, data, 0)
            self.flush(descriptor)
        finally:
            self.close(descriptor)
        self.rename(fresh, path)
        self.flush_directory(os.path.dirname(path))

    def finish_replacing(self, directory: str, *names: str, flush: bool = True) -> None:
        """Complete, or undo, calls of `replace` that a kill interrupted.

        Removes temporary files, and flushes the directory: a rename that is not on disk could be
        lost in a power cut, after changes that rest on the new file. The writer of the files calls
        this before it reads them, while no other process writes them.

        Args:
            directory: where the files are; may be missing.
            names: names of the files; all files of the directory when left out.
            flush: False if the last writer closed the store (`reput.plugin.StoreContext.clean`):
                every name is on disk then, and a flush of nothing takes as long as another one.
        """
        entries = self.list(directory)
        for entry in entries:
            name = entry.name
            if name.endswith(".new") and (not names or name.removesuffix(".new") in names):
                if not self.follows_links:
                    self.status(entry.path)  # raises for a link
                if entry.is_file():
                    self.remove(entry.path)
        if flush and entries:  # a file that was replaced is among them
            self.flush_directory(directory)

    def read_if_exists(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes | None:
        """Return the same as `read_file`; None if there is no such file, as `exists` decides."""
        try:
            return self.read_file(path, limit)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if _is_absence(error):
                return None
            raise

    def read_file(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes:
        """Return the bytes of a small file, at most ``limit``."""
        descriptor = self.open(path)
        try:
            size = limit if limit <= _READ_AT_ONCE else min(self.size(descriptor), limit)
            return self.read(descriptor, size, 0)
        finally:
            self.close(descriptor)


def _is_absence(error: OSError | ValueError) -> bool:
    """Whether ``error`` says that there is nothing of a name."""
    if isinstance(error, OSError):
        return error.errno in _ABSENT and not isinstance(error, UnsafePathError)
    return True  # a name with a byte 0, which nothing can have
