"""`StoreRoot`: which paths a disk may touch, and how it reaches them without following a link.

A store may come from a stranger, as an archive or a directory on a share; then everything below its
root is the stranger's, names included. If a writer followed a symbolic link there, it would
overwrite, empty or remove files outside of the store. So a path is split, each step is opened
relative to the descriptor of the step before, never over a link, and the last name is used relative
to the descriptor of its directory. What was checked is then what is used. The root is opened once,
and so are directories that a writer holds, as nobody else renames them: most paths need no step.

The root itself and the directories above it are the user's own: they may be links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from typing import Final, NoReturn, Protocol, TypeVar

from reput.errors import DiskShutError, UnsafePathError
from reput.locks import new_lock

__all__ = ["ANYWHERE", "Entry", "StoreRoot"]

Result = TypeVar("Result")

_STEP: Final = (
    getattr(os, "O_PATH", os.O_RDONLY)  # passing through a directory needs no right to list it
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
)
_NO_NAMES: Final = ("", ".", "..")
_ALLOWED: Final = (
    "where links are meant to be, allow them: follow_links=True of reput.open, --follow-links of "
    "the command line"
)


class Entry(Protocol):
    """One name of a directory, as `os.DirEntry` has it."""

    @property
    def name(self) -> str:
        """The name alone."""
        ...

    @property
    def path(self) -> str:
        """The directory's path and the name."""
        ...

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        ...

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""
        ...

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        ...

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Size, times and the like."""
        ...


class Descriptor(int):
    """A descriptor that is closed when its last reference is gone."""

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self)


class StoreRoot:
    """The directory that a disk is bound to. Thread-safe.

    Args:
        path: its absolute path.
        follow_links: whether links below it are followed; they may lead out of it then.
        outer: the root that contains this one, for a directory of a store that has its own root.
    """

    def __init__(
        self, path: str, *, follow_links: bool = False, outer: StoreRoot | None = None
    ) -> None:
        self.path = path
        self.follow_links = follow_links
        self.shut_reason: str | None = None
        self._outer = outer
        self._prefix = path if path.endswith(os.sep) else path + os.sep
        self._held: dict[str, Descriptor] = {}  # the root, once it was used, and those of `hold`
        self._lock = new_lock()  # reentrant, for signal handlers

    def __reduce__(self) -> tuple[object, ...]:
        return _root_of, (self.path, self.follow_links, self._outer)

    def let_go(self) -> None:
        """Close the descriptors of the root and of directories that are held.

        The next operation that needs the root opens it again. An operation under way keeps its
        descriptor until it has ended, be it on another thread or on this one, interrupted by a
        signal handler that closes the store. Otherwise the number of the descriptor could belong to
        another file by then.
        """
        self._held = {}

    def require_open(self, path: str | int) -> None:
        """Raise if the disk was shut: nothing may be changed any more."""
        if self.shut_reason is not None:
            raise DiskShutError(self.path, self.shut_reason)

    # ------------------------------------------------------------------ ways

    def names(self, path: str) -> list[str]:
        """Return the steps from the root to ``path``; none for the root itself.

        Raises:
            UnsafePathError: ``path`` is not below the root.
        """
        if path == self.path:
            return []
        if not path.startswith(self._prefix):
            path = os.path.abspath(path)
            if path == self.path:
                return []
            if not path.startswith(self._prefix):
                raise UnsafePathError(path, f"is outside of the store {self.path}", "")
        names = path[len(self._prefix) :].split(os.sep)
        if "" in names or "." in names:
            names = [name for name in names if name not in ("", ".")]
        if ".." in names:
            raise UnsafePathError(path, 'has a step ".."', "name the file without it")
        return names

    def hold(self, paths: Sequence[str]) -> None:
        """Open directories for all that is reached through them from now on; see `Disk.hold`."""
        for path in paths:
            if path in self._held:
                self.drop(path)
            if not self.follow_links:
                with contextlib.suppress(FileNotFoundError):
                    self._held[path] = Descriptor(self.open_directory(path, _STEP))

    def drop(self, path: str) -> None:
        """Hold nothing at or below ``path`` any more, as the name goes to something else."""
        below = path + os.sep
        for each in list(self._held):
            if each == path or each.startswith(below):
                self._held.pop(each, None)

    def reach(self, path: str) -> tuple[Descriptor | None, str]:
        """Return the open directory that has ``path``, and the name there.

        Returns:
            None and the whole path for the root itself, and if links are followed. The descriptor
            is open as long as the caller keeps it.

        Raises:
            UnsafePathError: a step on the way is a link, or the path is not below the root.
        """
        above, _, name = path.rpartition(os.sep)
        directory = self._held.get(above)
        if directory is not None and name not in _NO_NAMES:
            return directory, name
        names = self.names(path)
        if self.follow_links or not names:
            return None, path
        above, directory = self.path, self._opened()
        for name in names[:-1]:
            above = f"{above}{os.sep}{name}"
            held = self._held.get(above)
            directory = self._step(directory, name, above) if held is None else held
        return directory, names[-1]

    def _step(self, directory: Descriptor, name: str, path: str) -> Descriptor:
        try:
            return Descriptor(os.open(name, _STEP, dir_fd=directory))
        except OSError as error:
            self._refuse_link_at(error, directory, name, path)
            error.filename = path
            raise

    def _opened(self) -> Descriptor:
        held = self._held.get(self.path)
        if held is None:
            with self._lock:
                held = self._held.get(self.path)
                if held is None:
                    if self._outer is None:
                        held = Descriptor(os.open(self.path, _STEP & ~os.O_NOFOLLOW))
                    else:
                        held = Descriptor(self._outer.open_directory(self.path, _STEP))
                    self._held[self.path] = held
        return held

    def look(self, call: Callable[..., Result], path: str, **options: object) -> Result:
        """Call one of the system's functions that take a name and ``dir_fd``.

        Raises:
            OSError: of the call; with the whole path.
        """
        directory, name = self.reach(path)
        try:
            return call(name, dir_fd=directory, **options)
        except OSError as error:
            error.filename = path
            raise

    def change(self, call: Callable[..., Result], path: str) -> Result:
        """Call one of the system's functions that change a directory; see `look`.

        Raises:
            DiskShutError: the disk was shut.
        """
        self.require_open(path)
        directory, name = self.reach(path)
        # Checked again, with no call in between: a signal handler may have closed the store.
        if self.shut_reason is not None:
            self.require_open(path)
        try:
            return call(name, dir_fd=directory)
        except OSError as error:
            error.filename = path
            raise

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory, replacing ``target``; see `change`."""
        if self.shut_reason is not None:
            self.require_open(source)
        old, name = self.reach(source)
        new, fresh = self.reach(target)
        for directory, each, path in ((old, name, source), (new, fresh, target)):
            if directory is not None:
                with contextlib.suppress(FileNotFoundError):  # of a source it is raised below
                    self._status(directory, each, path)
            if path in self._held:
                self.drop(path)
        if self.shut_reason is not None:  # as in `change`: no call in between
            self.require_open(source)
        try:
            os.replace(name, fresh, src_dir_fd=old, dst_dir_fd=new)
        except OSError as error:
            error.filename, error.filename2 = source, target
            raise

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty, and no link to one; see `change`."""
        self.require_open(path)
        directory, name = self.reach(path)
        if directory is not None:
            self._status(directory, name, path)
        self.drop(path)
        self.change(os.rmdir, path)

    # ------------------------------------------------------------------ what is there

    def status(self, path: str) -> os.stat_result:
        """Return size, times and the like of a file or directory.

        Raises:
            UnsafePathError: it is a link.
        """
        directory, name = self.reach(path)
        if directory is None:
            return os.stat(path)
        return self._status(directory, name, path)

    def _status(self, directory: Descriptor, name: str, path: str) -> os.stat_result:
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            error.filename = path
            raise
        if stat.S_ISLNK(found.st_mode):
            raise _link_at(path, directory, name)
        return found

    def open_directory(self, path: str, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> int:
        """Open a directory, to list or to flush it; return the descriptor."""
        directory, name = self.reach(path)
        if directory is None:
            return os.open(path, flags & ~os.O_NOFOLLOW)
        try:
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
        except OSError as error:
            self._refuse_link_at(error, directory, name, path)
            error.filename = path
            raise

    def _refuse_link_at(self, error: OSError, directory: Descriptor, name: str, path: str) -> None:
        """Raise if ``error`` is there because a link is where a directory is expected."""
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            self._status(directory, name, path)

    def open_file(self, path: str, flags: int) -> int:
        """Open a regular file of the store; return the descriptor.

        Raises:
            UnsafePathError: a link, a device or a pipe; or a file to be written that has a second
                name, which may be outside of the store.
        """
        directory, name = self.reach(path)
        if directory is None:
            return os.open(path, flags, 0o644)
        try:
            if flags & os.O_CREAT:
                with contextlib.suppress(FileExistsError):
                    if self.shut_reason is not None:  # as in `change`: no call in between
                        self.require_open(path)
                    fresh = flags | os.O_NOFOLLOW | os.O_EXCL
                    return os.open(name, fresh, 0o644, dir_fd=directory)
            descriptor = os.open(name, flags | os.O_NOFOLLOW, 0o644, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a pipe or a socket
                self._require_plain(self._status(directory, name, path), path, flags)
            error.filename = path
            raise
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                self._require_plain(found, path, flags)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _require_plain(self, found: os.stat_result, path: str, flags: int) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafePathError(
                path, "is a pipe, socket or device", "a regular file is expected; move it away"
            )
        if found.st_nlink > 1 and flags & os.O_ACCMODE != os.O_RDONLY:
            raise UnsafePathError(
                path,
                f"has {found.st_nlink} names (hard links), and one may be outside of the store",
                f"put a copy of the file in its place, or {_ALLOWED}",
            )

    def file_system(self, path: str) -> os.statvfs_result:
        """Return facts about the file system of a directory."""
        if self.follow_links:
            self.names(path)  # raises for a path outside of the root
            return os.statvfs(path)
        descriptor = self.open_directory(path)
        try:
            return os.fstatvfs(descriptor)
        finally:
            os.close(descriptor)

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, in no order.

        Raises:
            FileNotFoundError: there is no such directory.
        """
        if self.follow_links:
            self.names(path)  # raises for a path outside of the root
            with os.scandir(path) as entries:
                return list(entries)
        descriptor = self.open_directory(path)
        try:
            with os.scandir(descriptor) as entries:
                return [_StoreEntry(self, path, each) for each in entries]
        finally:
            os.close(descriptor)


class _Anywhere(StoreRoot):
    """No root: the system resolves every path."""

    def __reduce__(self) -> tuple[object, ...]:
        return _anywhere, ()

    def names(self, path: str) -> list[str]:
        """Return nothing: no path is refused."""
        return []


ANYWHERE: Final = _Anywhere(os.sep, follow_links=True)
"""The root of a disk that is bound to no store."""


def _link_at(path: str, directory: int | None, name: str) -> UnsafePathError:
    """Return the error that says that ``path`` is a link."""
    found = "is a symbolic link"
    with contextlib.suppress(OSError):
        found += f" to {os.readlink(name, dir_fd=directory)}"
    advice = f"a file or directory of the store is expected; remove the link, or {_ALLOWED}"
    return UnsafePathError(path, found, advice)


class _StoreEntry:
    """An `Entry` that keeps no descriptor and refuses to follow a link."""

    __slots__ = ("_is_directory", "_is_file", "_is_link", "_root", "_status", "name", "path")

    def __init__(self, root: StoreRoot, directory: str, entry: os.DirEntry[str]) -> None:
        self.name = entry.name
        self.path = os.path.join(directory, entry.name)
        self._root = root
        self._is_link = entry.is_symlink()
        self._is_directory = entry.is_dir(follow_symlinks=False)
        self._is_file = entry.is_file(follow_symlinks=False)
        self._status: os.stat_result | None = None
        if self._is_file:
            # Now, while the directory is open: later the whole path would be opened again.
            with contextlib.suppress(FileNotFoundError):
                self._status = entry.stat(follow_symlinks=False)

    def __repr__(self) -> str:
        return f"<Entry {self.path!r}>"

    def is_symlink(self) -> bool:
        return self._is_link

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        if self._is_link and follow_symlinks:
            self._refuse()
        return self._is_directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        if self._is_link and follow_symlinks:
            self._refuse()
        return self._is_file

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        if self._is_link and follow_symlinks:
            self._refuse()
        if self._status is not None:
            return self._status
        return self._root.look(os.stat, self.path, follow_symlinks=False)

    def _refuse(self) -> NoReturn:
        directory, name = self._root.reach(self.path)
        raise _link_at(self.path, directory, name)


def _anywhere() -> StoreRoot:
    return ANYWHERE


def _root_of(path: str, follow_links: bool, outer: StoreRoot | None) -> StoreRoot:
    return StoreRoot(path, follow_links=follow_links, outer=outer)
