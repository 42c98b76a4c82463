"""`StoreRoot`: which paths a disk may touch, and how it reaches them without following a link.

Another user may have chosen everything below a store's root, names included, for example in an
archive. A writer that follows a symbolic link there could change files outside of the store. So
each directory of a path is looked at before the disk goes through it for the first time, and no
link is followed at the last step. The root is opened once; paths are relative to it.

A program that puts a link in the place of a directory while the store is open could as well write
into the store; the disk notices that only if it has not gone through the directory before.

The root itself and the directories above it are the user's own: they may be links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Callable
from typing import Final, Protocol

from reput.errors import DiskFrozenError, NotAFileError, UnsafePathError
from reput.signalsafe import new_lock

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, or a system, that has no descriptor left."""
_STEP: Final = (
    getattr(os, "O_PATH", os.O_RDONLY)  # passing through a directory needs no right to list it
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
)
_NO_NAMES: Final = ("", ".", "..")
_KNOWN_MAX: Final = 1 << 14  # directories; after so many, all are looked at again
ALLOWED: Final = (
    "where links are meant to be, allow them: follow_links=True of reput.open, --follow-links of "
    "the command line"
)
"""What to do about a link that the user has made; the end of an error's text."""


class Descriptor(int):
    """A descriptor that is closed when its last reference is gone."""

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self)


class Keeper(Protocol):
    """Something that keeps descriptors which it can do without."""

    def release(self) -> bool:
        """Close the descriptors that nobody uses now; return whether there were any."""
        ...


class StoreRoot:
    """The directory that a disk is bound to. Thread-safe.

    Args:
        path: its absolute path.
        follow_links: whether links below it are followed; they may lead out of it then.
        outer: the root that contains this one, for a directory of a store that has its own root.
        scratch: path of another directory, below which paths are reached in the same way; none if
            empty.

    Attributes:
        frozen_reason: why nothing may be changed any more; None while changes are allowed. Code
            reads it right before a change, as a signal handler may close the store at any call.
        keepers: what releases descriptors if the process has no more.
    """

    def __init__(
        self,
        path: str,
        follow_links: bool,
        outer: StoreRoot | None = None,
        scratch: str = "",
    ) -> None:
        self.path = path
        self.follow_links = follow_links
        self.frozen_reason: str | None = None
        self._outer = outer
        self._scratch = StoreRoot(scratch, follow_links) if scratch else None
        self._prefix = path if path.endswith(os.sep) else path + os.sep
        self._opened: Descriptor | None = None
        self._known = {path}
        """The root, and directories below it that are no links, as it was seen."""
        self.keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._lock = new_lock()  # reentrant, for signal handlers

    def __reduce__(self) -> str | tuple[object, ...]:
        scratch = "" if self._scratch is None else self._scratch.path
        return StoreRoot, (self.path, self.follow_links, self._outer, scratch)

    def require_open(self) -> None:
        """Raise if the disk was frozen: nothing may be changed any more."""
        if self.frozen_reason is not None:
            raise DiskFrozenError(self.path, self.frozen_reason)

    # ------------------------------------------------------------------ directories

    def release(self) -> None:
        """Close the descriptor of the root; an operation under way keeps it until it has ended."""
        self._opened, self._known = None, {self.path}
        if self._scratch is not None:
            self._scratch.release()

    def makes_room(self) -> bool:
        """Have all keepers release descriptors; return whether there were any."""
        return sum([each.release() for each in list(self.keepers)]) > 0

    # ------------------------------------------------------------------ from a path to a name

    def names(self, path: str) -> list[str]:
        """Return the steps from the root to ``path``; none for the root itself.

        Raises:
            UnsafePathError: ``path`` is not below the root.
        """
        if not path.startswith(self._prefix) and path != self.path:
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

    def has(self, path: str) -> bool:
        """Whether ``path`` is this directory, or begins with its path."""
        return path == self.path or path.startswith(self._prefix)

    def reach(self, path: str) -> tuple[Descriptor | None, str]:
        """Return the open root, and ``path`` relative to it; no directory on the way is a link.

        Returns:
            None and the whole path for the root itself, and if links are followed.

        Raises:
            UnsafePathError: a step on the way is a link, or the path is not below the root.
        """
        above, _, name = path.rpartition(os.sep)
        directory = self._opened
        if directory is not None and above in self._known and name not in _NO_NAMES:
            return directory, path[len(self._prefix) :]
        if path == self.path:
            return None, path
        if self._scratch is not None and self._scratch.has(path):
            return self._scratch.reach(path)
        names = self.names(path)
        if self.follow_links or not names:
            return None, path
        below = ""
        if directory is None:
            directory = self._open()
        for name in names[:-1]:
            below = f"{below}{os.sep}{name}" if below else name
            if self._prefix + below not in self._known:
                self._look_at(directory, below)
        return directory, f"{below}{os.sep}{names[-1]}" if below else names[-1]

    def _look_at(self, directory: Descriptor, below: str) -> None:
        """Refuse what is not a directory; ``below`` is relative to the root."""
        path = self._prefix + below
        try:
            found = os.stat(below, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                raise link_at(directory, below, path)
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError as error:
            error.filename = path
            raise
        if len(self._known) >= _KNOWN_MAX:
            self._known = {self.path}
        self._known.add(path)

    def _open(self) -> Descriptor:
        with self._lock:  # so that threads that start together open it once
            found = self._opened
            if found is None:
                if self._outer is None:
                    found = Descriptor(os.open(self.path, _STEP & ~os.O_NOFOLLOW))
                else:
                    found = Descriptor(self._outer.open_directory(self.path, _STEP))
                self._opened = found
            return found

    def open_directory(self, path: str, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> int:
        """Open a directory, to list or to flush it; return the descriptor.

        Raises:
            UnsafePathError: it is a link.
        """
        directory = self._opened
        if directory is not None and path in self._known:
            name = path[len(self._prefix) :] or os.curdir
        else:
            directory, name = self.reach(path)
        try:
            if directory is None:
                return os.open(path, flags & ~os.O_NOFOLLOW)
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
        except OSError as error:
            if error.errno in EXHAUSTED and self.makes_room():
                return self.open_directory(path, flags)
            if directory is None:
                raise
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                self.status(path)  # raises for a link
            error.filename = path
            raise

    def look(self, path: str) -> os.stat_result:
        """Return size, times and the like; of a link, those of the link itself."""
        directory, name = self.reach(path)
        try:
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            error.filename = path
            raise

    def change(self, call: Callable[..., None], path: str) -> None:
        """Call one of the system's functions that change a name and take ``dir_fd``.

        Raises:
            DiskFrozenError: the disk was frozen.
            NotAFileError: a file was to be removed, and the path is a directory.
        """
        directory, name = self.reach(path)
        if self.frozen_reason is not None:
            self.require_open()
        try:
            call(name, dir_fd=directory)
        except IsADirectoryError:
            raise NotAFileError(path) from None
        except OSError as error:
            error.filename = path
            raise

    def status(self, path: str) -> os.stat_result:
        """Return size, times and the like.

        Raises:
            UnsafePathError: it is a link, and links are not followed.
        """
        directory, name = self.reach(path)
        if directory is None:
            return os.stat(path)
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            error.filename = path
            raise
        if stat.S_ISLNK(found.st_mode):
            raise link_at(directory, name, path)
        return found


class _Anywhere(StoreRoot):
    """No root: the system resolves every path."""

    def __reduce__(self) -> str:
        return "ANYWHERE"

    def names(self, path: str) -> list[str]:
        """Return nothing: no path is refused."""
        return []


ANYWHERE: Final = _Anywhere(os.sep, True)
"""The root of a disk that is bound to no store."""


def link_at(directory: Descriptor | None, name: str, path: str) -> UnsafePathError:
    """Return the error for ``path``, which `StoreRoot.reach` has found, and which is a link."""
    found = "is a symbolic link"
    with contextlib.suppress(OSError):
        found += f" to {os.readlink(name, dir_fd=directory)}"
    advice = f"a file or directory of the store is expected; remove the link, or {ALLOWED}"
    return UnsafePathError(path, found, advice)
