"""The one door to the operating system's files, for the core and for plugins.

Everything that changes or reads a file of a store goes through a `Disk`. That keeps three promises
in one place: what is created is created at full size, a short write is finished or an error, and
nothing is reported flushed that was not. Tests put a disk of their own in its stead.

A disk that is bound to a store by `Disk.at` also leaves everything alone that is not part of the
store; see `reput.files.root`.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import time
from typing import TYPE_CHECKING, Self, TypeVar

from reput.errors import UnsafePathError
from reput.files.heartbeat import beat
from reput.files.locking import lock_owner, take_lock
from reput.files.root import ANYWHERE, Entry, StoreRoot
from reput.files.sidebyside import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Buffer", "Disk"]

Buffer = bytes | bytearray | memoryview

Item = TypeVar("Item")

_CLEAR_SIZE = 1 << 20  # bytes looked at, and zeroed, at a time


class Disk:
    """File operations of a store; every method raises `OSError` when the system does.

    A subclass keeps what it knows in ordinary attributes: `at` gives them to the bound disk, too.
    """

    flushes_at_once: int = 8
    """How many files are flushed side by side, where many are; 1 keeps them in order."""

    # The one thing that a disk and those bound from it do not share.
    __slots__ = ("__dict__", "__weakref__", "_root")
    _root: StoreRoot

    def __new__(cls, *args: object, **options: object) -> Self:
        """Bound to nothing; here, as subclasses need not call ``__init__`` of this class."""
        made = super().__new__(cls)
        made._root = ANYWHERE
        return made

    # ------------------------------------------------------------------ one store's disk

    def at(self, root: str, *, follow_links: bool = False) -> Self:
        """This disk for one store only.

        What it returns is of the same class and shares all attributes with this one, so that what a
        subclass counts, plans or refuses goes on. It refuses every path outside of ``root``
        and, unless told otherwise, every symbolic link below it: the root itself and what is
        above it may be links. It also opens no pipes and devices, and writes no file that has a
        second name (a hard link).

        Args:
            root: absolute path of the store's directory; it need not be there yet.
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
        """Whether symbolic links are followed: always but for a disk of `at`."""
        return self._root.follow_links

    def shut(self, reason: str) -> None:
        """Refuse every operation that changes something from now on; reading goes on.

        Only this disk's operations: others of the same store, or of other stores, are not
        concerned. A map that was made before can still be written through.

        Args:
            reason: why, for the error's text.
        """
        if self._root is ANYWHERE:
            raise ValueError("only a disk that is bound to a store can be shut; see Disk.at")
        self._root.shut_reason = reason

    @property
    def is_shut(self) -> bool:
        """Whether `shut` was called."""
        return self._root.shut_reason is not None

    def let_go(self) -> None:
        """Close the descriptor of the store's root; what comes later opens it again."""
        self._root.let_go()

    # ------------------------------------------------------------------ open files

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int:
        """Open ``path`` and return its descriptor; ``create`` implies ``write``."""
        flags = os.O_RDWR if write or create else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        if write or create:
            self._root.require_open(path)
        flags |= getattr(os, "O_NONBLOCK", 0)  # nobody waits for the other end of a foreign pipe
        flags |= getattr(os, "O_CLOEXEC", 0)
        with self._root.parent(path) as (directory, name):
            if directory is None:
                return os.open(path, flags, 0o644)
            return self._root.open_file(directory, name, path, flags)

    def create_fresh(self, path: str) -> int:
        """Make an empty file for writing, for what is under way and gets another name later.

        What a crash left under that name is removed first and never opened: nobody else can hold
        the new file, and no bytes of the old one can be taken for its own.
        """
        if self.exists(path):
            if not self.follows_links:
                self.status(path)  # which refuses a link
            self.remove(path)
        return self.open(path, create=True)

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

    def clear(self, descriptor: int, start: int, end: int) -> int:
        """Zero what is not zero in ``[start, end)``.

        Returns:
            How many bytes were written, for the caller to flush; 0 where all were zero already.
        """
        cleared = 0
        for first, stop in self.data_ranges(descriptor, start, end):
            for at in range(first, stop, _CLEAR_SIZE):
                data = self.read(descriptor, min(_CLEAR_SIZE, stop - at), at)
                if data.count(0) != len(data):
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
        """Write a first part of ``data``; the number of bytes written, often all. Use `write`."""
        if self._root.shut_reason is not None:  # as in `rename`: no call in between
            self._root.require_open(descriptor)
        return os.pwrite(descriptor, data, position)

    def allocate(self, descriptor: int, size: int) -> None:
        """Give the file ``size`` bytes of real space, so that writing it cannot run out of it."""
        has_fallocate = hasattr(os, "posix_fallocate")
        if self._root.shut_reason is not None:  # as in `rename`: no call in between
            self._root.require_open(descriptor)
        if has_fallocate:
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the size of the file; what is added reads as zero and takes no space yet."""
        if self._root.shut_reason is not None:  # as in `rename`: no call in between
            self._root.require_open(descriptor)
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Return when the file's bytes are on disk, those written through a map included."""
        self._root.require_open(descriptor)
        if hasattr(os, "fdatasync"):
            os.fdatasync(descriptor)
        else:
            os.fsync(descriptor)
        beat()

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map the first ``size`` bytes for writing; only for files that `allocate` made."""
        self._root.require_open(descriptor)
        return mmap.mmap(descriptor, size)

    # ------------------------------------------------------------------ names

    def rename(self, source: str, target: str) -> None:
        """Put ``source`` in the place of ``target``, at once."""
        self._root.require_open(source)
        with self._root.parent(source) as (old, name), self._root.parent(target) as (new, fresh):
            self._refuse_link(old, name, source)
            self._refuse_link(new, fresh, target)
            # Once more, with no call in between: a signal handler may have closed the store.
            if self._root.shut_reason is not None:
                self._root.require_open(source)
            os.replace(name, fresh, src_dir_fd=old, dst_dir_fd=new)

    def remove(self, path: str) -> None:
        """Remove a file; of a link the link itself, and never what it leads to."""
        self._root.require_open(path)
        with self._root.parent(path) as (directory, name):
            if self._root.shut_reason is not None:  # as in `rename`: no call in between
                self._root.require_open(path)
            os.unlink(name, dir_fd=directory)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty."""
        self._root.require_open(path)
        with self._root.parent(path) as (directory, name):
            self._refuse_link(directory, name, path)
            if self._root.shut_reason is not None:  # as in `rename`: no call in between
                self._root.require_open(path)
            os.rmdir(name, dir_fd=directory)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it; nothing where there is none.

        Links in it are removed, and never what they lead to, also where links are followed.
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
        """Whether there is anything under that name.

        Raises:
            OSError: the system does not tell, as in a directory that may not be looked into. To
                take that for "no" would be to make a store's notes anew that are there.
        """
        try:
            with self._root.parent(path) as (directory, name):
                os.stat(name, dir_fd=directory, follow_symlinks=False)
        except UnsafePathError:
            raise
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return False  # nothing can have such a name
            raise
        return True

    def is_dangling_link(self, path: str) -> bool:
        """Whether there is a symbolic link of that name, to something that is not there."""
        if self.follows_links:
            return self._is_link(path) and not os.path.exists(path)
        if self.exists(path):
            self.status(path)
        return False

    def status(self, path: str) -> os.stat_result:
        """Size, times and the like of the file or directory."""
        with self._root.parent(path) as (directory, name):
            if directory is None:
                return os.stat(path)
            return self._root.status(directory, name, path)

    def identity(self, path: str) -> tuple[int, int]:
        """What tells the file or directory from all others, whichever path leads to it."""
        about = self.status(path)
        return about.st_dev, about.st_ino

    def modified_ms(self, path: str) -> int:
        """When the file's bytes were changed for the last time, ms since the epoch."""
        return self.status(path).st_mtime_ns // 1_000_000

    def usage(self, path: str) -> tuple[int, int]:
        """Bytes in use, and bytes that we may still use, of the file system that holds ``path``."""
        if self.follows_links:
            with self._root.parent(path):
                facts = os.statvfs(path)
        else:
            descriptor = self._root.open_directory(path)
            try:
                facts = os.fstatvfs(descriptor)
            finally:
                os.close(descriptor)
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
        return take_lock(descriptor)

    def is_locked(self, descriptor: int) -> bool:
        """Whether another open file, or another process, holds the lock; changes nothing.

        False where the system cannot tell.
        """
        return lock_owner(descriptor) is not None

    def lock_holder(self, descriptor: int) -> int | None:
        """Process that holds the lock; None where it is free or the system cannot tell.

        The system knows the process only for a lock of a process: not for those of `lock`.
        """
        pid = lock_owner(descriptor)
        return pid if pid is not None and pid > 0 else None

    def list(self, path: str) -> list[Entry]:
        """Entries of a directory sorted by name; empty where there is no such directory."""
        try:
            if self.follows_links:
                with self._root.parent(path), os.scandir(path) as entries:
                    return sorted(entries, key=lambda entry: entry.name)
            return sorted(self._root.list(path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str, *, durable: bool = False) -> None:
        """Make a directory and those above it; nothing happens where it is already there.

        With ``durable`` the names of those that were made are on disk when this returns; without,
        flush the directories that hold them.
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
        """Make a directory in one that is there; use `make_directory`."""
        self._root.require_open(path)
        try:
            with self._root.parent(path) as (directory, name):
                if self._root.shut_reason is not None:  # as in `rename`: no call in between
                    self._root.require_open(path)
                os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            if not self._is_directory(path):  # else somebody was quicker
                raise

    def flush_directory(self, path: str) -> None:
        """Return when names made, renamed or removed in that directory are on disk."""
        self._root.require_open(path)
        descriptor = self._root.open_directory(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beat()

    def side_by_side(self, work: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call ``work`` for each of ``items``, `flushes_at_once` at a time where there are many.

        Raises:
            OSError: what the first call raised that failed; then no other is begun any more.
        """
        side_by_side(work, items, self.flushes_at_once)

    def monotonic(self) -> float:
        """Seconds that pass, by which is judged whether somebody hangs: `time.monotonic`."""
        return time.monotonic()

    def _is_link(self, path: str) -> bool:
        with self._root.parent(path) as (directory, name):
            try:
                return stat.S_ISLNK(os.lstat(name, dir_fd=directory).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def _is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self.status(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _refuse_link(self, directory: int | None, name: str, path: str) -> None:
        if directory is not None:
            try:
                self._root.status(directory, name, path)
            except FileNotFoundError:
                return  # for the operation to say, where it matters

    # ------------------------------------------------------------------ small files

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file so that a crash leaves the whole old or the whole new one.

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

    def finish_replacing(self, directory: str, *names: str) -> None:
        """Finish, or take back, what a `replace` that a kill has interrupted left in a directory.

        What has not got its name is removed. Names that were given are brought to disk: what is
        done by a file that was read must not be there after a power cut that takes the file back.
        To be called by whoever writes the files, before they are read, when no process writes them.

        Args:
            directory: may be missing.
            names: of the files that are replaced; all that are there when left out.
        """
        fresh = {f"{name}.new" for name in names}
        for entry in self.list(directory):
            if entry.name in fresh or (not names and entry.name.endswith(".new")):
                if not self.follows_links:
                    self.status(entry.path)  # which refuses a link
                if entry.is_file():
                    self.remove(entry.path)
        if self.exists(directory):
            self.flush_directory(directory)

    def read_file(self, path: str, limit: int = 64 * 1024 * 1024) -> bytes:
        """All of a small file, at most ``limit`` bytes of it."""
        descriptor = self.open(path)
        try:
            return self.read(descriptor, min(self.size(descriptor), limit), 0)
        finally:
            self.close(descriptor)
