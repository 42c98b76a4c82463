"""`StoreRoot`: which paths a disk may touch, and how it reaches them without following a link.

Another user may have chosen everything below a store's root, names included, for example in an
archive. A writer that follows a symbolic link there could change files outside of the store. So
each step of a path is opened relative to the descriptor of the step before, never over a link. The
root is opened once, and so are directories that a writer holds: most paths need no step.

The root itself and the directories above it are the user's own: they may be links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from reput.errors import DiskFrozenError, UnsafePathError
from reput.signalsafe import new_lock

__all__ = ["ALLOWED", "ANYWHERE", "EXHAUSTED", "Descriptor", "StoreRoot", "link_at"]

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, or a system, that has no descriptor left."""
_STEP: Final = (
    getattr(os, "O_PATH", os.O_RDONLY)  # passing through a directory needs no right to list it
    | os.O_DIRECTORY
    | os.O_NOFOLLOW
)
NO_NAMES: Final = ("", ".", "..")
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
        held: open directories by path: the root, once it was used, and directories of `hold`.
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
        self.held: dict[str, Descriptor] = {}
        self.keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._lock = new_lock()  # reentrant, for signal handlers

    def __reduce__(self) -> str | tuple[object, ...]:
        scratch = "" if self._scratch is None else self._scratch.path
        return StoreRoot, (self.path, self.follow_links, self._outer, scratch)

    def require_open(self) -> None:
        """Raise if the disk was frozen: nothing may be changed any more."""
        if self.frozen_reason is not None:
            raise DiskFrozenError(self.path, self.frozen_reason)

    # ------------------------------------------------------------------ held directories

    def hold(self, paths: Sequence[str]) -> None:
        """Open directories for all later operations below them; see `Disk.hold`."""
        for path in paths:
            if path in self.held:
                self.drop(path)
            if not self.follow_links:
                with contextlib.suppress(FileNotFoundError):
                    self.held[path] = Descriptor(self.open_directory(path))

    def drop(self, path: str) -> None:
        """Hold nothing at or below ``path`` any more, as the name goes to something else."""
        below = path + os.sep
        for each in list(self.held):
            if each == path or each.startswith(below):
                self.held.pop(each, None)

    def release(self) -> None:
        """Close the descriptors of the root and of directories that are held.

        An operation under way keeps its descriptor until it has ended, also on this thread, where a
        signal handler may have interrupted it.
        """
        self.held = {}
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
        """Return the open directory that has ``path``, and the name there.

        Returns:
            None and the whole path for the root itself, and if links are followed.

        Raises:
            UnsafePathError: a step on the way is a link, or the path is not below the root.
        """
        above, _, name = path.rpartition(os.sep)
        directory = self.held.get(above)
        if directory is not None and name not in NO_NAMES:
            return directory, name
        if self._scratch is not None and self._scratch.has(path):
            return self._scratch.reach(path)
        names = self.names(path)
        if self.follow_links or not names:
            return None, path
        above, directory = self.path, self.held.get(self.path)
        if directory is None:
            directory = self._opened()
        for name in names[:-1]:
            above = f"{above}{os.sep}{name}"
            held = self.held.get(above)
            directory = self._step(directory, name, above) if held is None else held
        return directory, names[-1]

    def _step(self, directory: Descriptor, name: str, path: str) -> Descriptor:
        try:
            return Descriptor(os.open(name, _STEP, dir_fd=directory))
        except OSError as error:
            if error.errno in EXHAUSTED and self.makes_room():
                return self._step(directory, name, path)
            self._refuse_link(error, path)
            error.filename = path
            raise

    def _opened(self) -> Descriptor:
        with self._lock:  # so that threads that start together open it once
            found = self.held.get(self.path)
            if found is None:
                if self._outer is None:
                    found = Descriptor(os.open(self.path, _STEP & ~os.O_NOFOLLOW))
                else:
                    found = Descriptor(self._outer.open_directory(self.path, _STEP))
                self.held[self.path] = found
            return found

    def open_directory(self, path: str, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> int:
        """Open a directory, to list or to flush it; return the descriptor.

        Raises:
            UnsafePathError: it is a link.
        """
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
            self._refuse_link(error, path)
            error.filename = path
            raise

    def _refuse_link(self, error: OSError, path: str) -> None:
        """Raise if ``error`` comes from a link in the place of a directory."""
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            self.status(path)

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
        """
        self.require_open()
        directory, name = self.reach(path)
        if self.frozen_reason is not None:
            self.require_open()
        try:
            call(name, dir_fd=directory)
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
