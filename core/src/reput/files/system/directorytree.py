"""`DirectoryTree`: directories of a store and the names in them; the half of `Disk` with paths.

Each operation reaches its path by `reput.files.system.storeroot.StoreRoot.reach`, and calls the
system with the descriptor of the directory and the name there.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, Protocol, Self

import attrs

from reput.errors import NotAFileError, ReputError, UnsafePathError
from reput.files.system.flushing import FlushFailedError, heart
from reput.files.system.storeroot import ANYWHERE, Keeper, StoreRoot, link_at

_BY_NAME = operator.attrgetter("name")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Entry(Protocol):
    """One name of a directory, as `os.DirEntry` has it."""

    @property
    def name(self) -> str:
        """The name alone."""

    @property
    def path(self) -> str:
        """The directory's path and the name."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Size, times and the like."""


class DirectoryTree:
    """Operations on names; every method raises `OSError` when the system does."""

    # `_root` is the one attribute that a disk and the disks bound from it do not share.
    __slots__ = ("__dict__", "__weakref__", "_root")
    _root: StoreRoot

    def __new__(cls, *args: object, **options: object) -> Self:
        """Make an unbound disk; not in ``__init__``, which subclasses need not call."""
        made = super().__new__(cls)
        made._root = ANYWHERE
        return made

    # ------------------------------------------------------------------ one store's disk

    def at(self, root: str, *, follow_links: bool = False, scratch: str = "") -> Self:
        """Return a disk bound to one store: it refuses every path outside ``root``.

        The bound disk has the class of this disk and shares its attributes. It refuses symbolic
        links below the root, unless ``follow_links``; the root and the directories above it may be
        links. It also refuses pipes and devices, and to write a file with a second name (a hard
        link).

        Args:
            root: absolute path of the store's directory, which need not exist yet.
            follow_links: whether links below the root are followed.
            scratch: absolute path of a directory outside of the store whose files the disk reaches,
                too, for what is made of the store where the store cannot be written.

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
        made._root = StoreRoot(root, follow_links, outer, scratch)
        return made

    @property
    def follows_links(self) -> bool:
        """Whether symbolic links are followed: always true for a disk that is not bound."""
        return self._root.follow_links

    def freeze(self, reason: str) -> None:
        """Refuse every change from now on; reading goes on, and so does writing through a map.

        Concerns this disk only, and no other disk of the same store.

        Args:
            reason: for the error's text.
        """
        if self._root is ANYWHERE:
            raise ValueError("only a disk that is bound to a store can be frozen; see Disk.at")
        self._root.frozen_reason = reason

    @property
    def is_frozen(self) -> bool:
        """Whether `freeze` was called."""
        return self._root.frozen_reason is not None

    def share_descriptors(self, keeper: Keeper) -> None:
        """Have ``keeper`` release descriptors when the process has no more; of a store's disk."""
        if self._root is not ANYWHERE:
            self._root.keepers.add(keeper)

    def release(self) -> None:
        """Close the descriptor of the root; a later operation opens it again."""
        self._root.release()

    # ------------------------------------------------------------------ reading

    def exists(self, path: str) -> bool:
        """Whether a file, directory or link of that name exists.

        Raises:
            OSError: the system does not know, for example in a directory without permission.
        """
        try:
            directory, name = self._root.reach(path)
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            if is_absence(error):
                return False
            if isinstance(error, OSError):
                error.filename = path
            raise
        return True

    def status(self, path: str) -> os.stat_result:
        """Return size, times and the like of the file or directory."""
        return self._root.status(path)

    def identity(self, path: str) -> tuple[int, int]:
        """Return device and inode: equal for all paths that lead to the same file or directory."""
        about = self._root.status(path)
        return about.st_dev, about.st_ino

    def modified_ms(self, path: str) -> int:
        """Return when the file's bytes were last changed, ms since the epoch."""
        return self.status(path).st_mtime_ns // 1_000_000

    def usage(self, path: str) -> tuple[int, int]:
        """Return bytes used and bytes still available to us in the file system of a directory."""
        descriptor = self._root.open_directory(path)
        try:
            facts = os.fstatvfs(descriptor)
        finally:
            os.close(descriptor)
        used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
        return used, facts.f_bavail * facts.f_frsize

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""
        root = self._root
        try:
            if root.follow_links:
                root.reach(path)  # raises for a path outside of the root
                return sorted(os.listdir(path))
            descriptor = root.open_directory(path)
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def list(self, path: str) -> list[Entry]:
        """Return the entries of a directory, sorted by name; none if it does not exist."""
        root = self._root
        try:
            if root.follow_links:
                root.reach(path)  # raises for a path outside of the root
                with os.scandir(path) as found:
                    return sorted(found, key=_BY_NAME)
            descriptor = root.open_directory(path)
        except FileNotFoundError:
            return []
        try:
            entries = []
            with os.scandir(descriptor) as found:
                for each in found:
                    is_link, status = each.is_symlink(), None
                    is_directory = each.is_dir(follow_symlinks=False)
                    is_file = each.is_file(follow_symlinks=False)
                    if is_file:
                        # Now, while the directory is open: later the whole path would be opened.
                        with contextlib.suppress(FileNotFoundError):
                            status = each.stat(follow_symlinks=False)
                    name, place = each.name, os.path.join(path, each.name)
                    kinds = is_link, is_directory, is_file
                    entries.append(_StoreEntry(name, place, root, *kinds, status))
            return sorted(entries, key=_BY_NAME)
        finally:
            os.close(descriptor)

    def look_below(
        self, path: str, names: Sequence[tuple[str, str, int]]
    ) -> Sequence[tuple[int, int, int] | None]:
        """Look at files in the subdirectories of a directory, which is opened once for all.

        Args:
            path: of the directory.
            names: of a subdirectory and of a file in it, each, and a number other than 0 to look at
                the subdirectory's time, too.

        Returns:
            For each its size, and when it and the subdirectory were changed, ns since the epoch (0
            for a subdirectory that is not looked at); None for one that is missing, not a regular
            file, or behind a link. A program that sets a time back changes the file.
        """
        descriptor = self._root.open_directory(path)
        try:
            look = partial(os.stat, dir_fd=descriptor, follow_symlinks=False)
            if all(timed for _, _, timed in names):
                return [_look_below(look, *each) for each in names]
            with os.scandir(descriptor) as found:
                real = {each.name for each in found if each.is_dir(follow_symlinks=False)}
            return [_look_below(look, *each) if each[0] in real else None for each in names]
        finally:
            os.close(descriptor)

    def _refuse_link(self, path: str) -> None:
        if not self.follows_links:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self.status(path)  # raises for a link

    def _is_link(self, path: str) -> bool:
        try:
            return stat.S_ISLNK(self._root.look(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._root.status(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    # ------------------------------------------------------------------ changing

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target``, replacing it atomically."""
        root = self._root
        if root.frozen_reason is not None:
            root.require_open()
        (old, name), (new, fresh) = root.reach(source), root.reach(target)
        for directory, each, path in ((old, name, source), (new, fresh, target)):
            if directory is not None:
                try:
                    found = os.stat(each, dir_fd=directory, follow_symlinks=False)
                except OSError:  # raised below if it matters
                    continue
                if stat.S_ISLNK(found.st_mode):
                    raise link_at(directory, each, path)
        if root.frozen_reason is not None:
            root.require_open()
        try:
            os.replace(name, fresh, src_dir_fd=old, dst_dir_fd=new)
        except IsADirectoryError:
            raise NotAFileError(target) from None
        except OSError as error:
            error.filename, error.filename2 = source, target
            raise

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself, never what the link leads to."""
        self._root.change(os.unlink, path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty."""
        self._root.require_open()
        self._refuse_link(path)
        self._root.change(os.rmdir, path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it, if it exists; no link in it is followed."""
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

    def make_directory(self, path: str, *, durable: bool = False) -> None:
        """Make a directory, and its parents, if missing.

        With ``durable`` the names of new directories are on disk when this returns.
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
        except FileExistsError:
            if not self._is_directory(path):  # otherwise another process was quicker
                raise

    def flush_directory(self, path: str) -> None:
        """Return when the directory's names (made, renamed, removed) are on disk.

        Raises:
            FlushFailedError: the names may be lost, even if another flush succeeds.
        """
        if self._root.frozen_reason is not None:
            self._root.require_open()
        descriptor = self._root.open_directory(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise FlushFailedError(error.errno, error.strerror, path) from error
        finally:
            os.close(descriptor)
        heart.beat()


@attrs.define(eq=False, repr=False)
class _StoreEntry:
    """An `Entry` that keeps no descriptor and refuses to follow a link."""

    name: str
    path: str
    _root: StoreRoot = attrs.field(repr=False)
    _is_link: bool
    _is_directory: bool
    _is_file: bool
    _status: os.stat_result | None

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
        return self._root.look(self.path) if self._status is None else self._status

    def _refuse(self) -> NoReturn:
        raise link_at(*self._root.reach(self.path), self.path)


def _look_below(
    look: Callable[[str], os.stat_result], above: str, name: str, timed: int
) -> tuple[int, int, int] | None:
    try:
        outer = look(above) if timed else None
        found = look(f"{above}{os.sep}{name}")
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        return None
    # `st_ctime` alone is the time of creation in some file systems.
    changed_ns = max(found.st_mtime_ns, found.st_ctime_ns)
    if outer is None:
        return found.st_size, changed_ns, 0
    if not stat.S_ISDIR(outer.st_mode):
        return None
    return found.st_size, changed_ns, max(outer.st_mtime_ns, outer.st_ctime_ns)


def is_absence(error: OSError | ValueError) -> bool:
    """Whether the cause of ``error`` is a name that does not exist."""
    if isinstance(error, OSError):
        return error.errno in _ABSENT and not isinstance(error, UnsafePathError)
    return True  # a name with a byte 0


def is_read_only(error: OSError) -> bool:
    """Whether the cause of ``error`` is a file system, or a permission, that allows no change."""
    return error.errno in _READ_ONLY and not isinstance(error, ReputError)
