"""`StoreRoot`: which paths a disk may touch, and how it reaches them without following a link.

A store may come from a stranger, as an archive or a directory on a share; then everything below its
root is the stranger's, names included. If a writer followed a symbolic link there, it would
overwrite, empty or remove files outside of the store. So a path is split, each step is opened
relative to the descriptor of the step before, never over a link, and the last name is used relative
to the descriptor of its directory. What was checked is then what is used.

The root itself and the directories above it are the user's own: they may be links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from reput.errors import DiskShutError, UnsafePathError
from reput.locks import new_lock

__all__ = ["ANYWHERE", "Entry", "StoreRoot"]

_STEP: Final = (
    getattr(os, "O_PATH", os.O_RDONLY)  # passing through a directory needs no right to list it
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
)
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
        self._kept: _Kept | None = None
        self._lock = new_lock()  # reentrant, for signal handlers

    def __reduce__(self) -> tuple[object, ...]:
        return _root_of, (self.path, self.follow_links, self._outer)

    def let_go(self) -> None:
        """Close the root's descriptor; the next operation that needs it opens the root again.

        An operation under way keeps the descriptor until it has ended, be it on another thread or
        on this one, interrupted by a signal handler that closes the store. Otherwise the number of
        the descriptor could belong to another file by then.
        """
        self._kept = None

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
        names = [name for name in path[len(self._prefix) :].split(os.sep) if name not in ("", ".")]
        if ".." in names:
            raise UnsafePathError(path, 'has a step ".."', "name the file without it")
        return names

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Yield the descriptor of the directory that holds ``path``, and the name in it.

        Yields None and the whole path for the root itself, and if links are followed. An error that
        leaves the block names the whole path.

        Raises:
            UnsafePathError: a step on the way is a link, or the path is not below the root.
        """
        names = self.names(path)
        if self.follow_links or not names:
            yield None, path
            return
        held = -1
        kept = self._directory()
        try:
            directory = kept.descriptor
            for number, name in enumerate(names[:-1], 1):
                below = self._step(directory, name, names[:number])
                # Assigned before closing: if Ctrl-C came in between, the descriptor would be closed
                # twice, and its number might belong to another file by then.
                directory, held, above = below, below, held
                if above >= 0:
                    os.close(above)
            try:
                yield directory, names[-1]
            except OSError as error:
                if error.filename == names[-1]:
                    error.filename = path
                raise
        finally:
            if held >= 0:
                os.close(held)

    def _directory(self) -> _Kept:
        kept = self._kept
        if kept is None:
            with self._lock:
                kept = self._kept
                if kept is None:
                    kept = self._kept = _Kept(self._opened())
        return kept

    def _opened(self) -> int:
        if self._outer is not None:
            return self._outer.open_directory(self.path, _STEP)
        return os.open(self.path, _STEP & ~os.O_NOFOLLOW)

    def _step(self, directory: int, name: str, names: list[str]) -> int:
        try:
            return os.open(name, _STEP, dir_fd=directory)
        except OSError as error:
            shown = os.path.join(self.path, *names)
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                self.status(directory, name, shown)
            error.filename = shown
            raise

    # ------------------------------------------------------------------ what is there

    def status(self, directory: int, name: str, path: str) -> os.stat_result:
        """Return size, times and the like of the file or directory of that name.

        Raises:
            UnsafePathError: it is a link.
        """
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise self.link_at(path, directory, name)
        return found

    def link_at(self, path: str, directory: int | None = None, name: str = "") -> UnsafePathError:
        """Return the error that says that ``path`` is a link."""
        found = "is a symbolic link"
        with contextlib.suppress(OSError):
            found += f" to {os.readlink(name or path, dir_fd=directory)}"
        advice = f"a file or directory of the store is expected; remove the link, or {_ALLOWED}"
        return UnsafePathError(path, found, advice)

    def open_directory(self, path: str, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> int:
        """Open a directory, to list or to flush it; return the descriptor."""
        with self.parent(path) as (directory, name):
            if directory is None:
                return os.open(path, flags & ~os.O_NOFOLLOW)
            try:
                return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    self.status(directory, name, path)
                raise

    def open_file(self, directory: int, name: str, path: str, flags: int) -> int:
        """Open a regular file of the store; return the descriptor.

        Raises:
            UnsafePathError: a link, a device or a pipe; or a file to be written that has a second
                name, which may be outside of the store.
        """
        if flags & os.O_CREAT:
            with contextlib.suppress(FileExistsError):
                if self.shut_reason is not None:  # no call in between, as in `Disk.rename`
                    self.require_open(path)
                return os.open(name, flags | os.O_NOFOLLOW | os.O_EXCL, 0o644, dir_fd=directory)
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW, 0o644, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a pipe or a socket
                self._require_plain(self.status(directory, name, path), path, flags)
            raise
        try:
            self._require_plain(os.fstat(descriptor), path, flags)
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

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, in no order.

        Raises:
            FileNotFoundError: there is no such directory.
        """
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

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Yield None and the path."""
        yield None, path


ANYWHERE: Final = _Anywhere(os.sep, follow_links=True)
"""The root of a disk that is bound to no store."""


class _Kept:
    """An open descriptor, closed when its last reference is gone."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


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
        self._refuse_link(follow_symlinks)
        return self._is_directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        self._refuse_link(follow_symlinks)
        return self._is_file

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        self._refuse_link(follow_symlinks)
        if self._status is not None:
            return self._status
        with self._root.parent(self.path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def _refuse_link(self, follow_symlinks: bool) -> None:
        if self._is_link and follow_symlinks:
            with self._root.parent(self.path) as (directory, name):
                raise self._root.link_at(self.path, directory, name)


def _anywhere() -> StoreRoot:
    return ANYWHERE


def _root_of(path: str, follow_links: bool, outer: StoreRoot | None) -> StoreRoot:
    return StoreRoot(path, follow_links=follow_links, outer=outer)
