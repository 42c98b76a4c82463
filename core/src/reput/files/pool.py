"""`FilePool`: open descriptors of many files, kept for reuse.

A file is identified by its path or, if a path may pass from one file to another, by a `Handle`. A
thread that has the old file's descriptor continues with it. Any later use of the handle raises
`ReplacedError`.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import attrs

from reput.files.readmap import ReadMaps
from reput.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.files.system.disk import Buffer, Disk

__all__ = ["FilePool", "Handle", "ReplacedError"]


class ReplacedError(Exception):
    """The file was replaced before it was opened; look for the file in its place."""


@attrs.define(eq=False)
class Handle:
    """Identifies one file, while its path may come to name another."""

    path: str
    is_replaced: bool = False
    """Whether `path` names another file by now, so that it is not opened; see `FilePool.forget`."""


class _OpenFile:
    """A descriptor, closed when the last user and the pool let go of this object."""

    __slots__ = ("_close", "descriptor", "was_used")

    def __init__(self, descriptor: int, close: Callable[[int], None]) -> None:
        self.descriptor = descriptor
        self._close = close
        self.was_used = False
        """Whether somebody used it again since the pool last looked for one to close."""

    def __del__(self) -> None:
        self._close(self.descriptor)


class FilePool:
    """Open descriptors of many files, at most ``max_open``; closes files that are seldom used.

    A thread that uses a descriptor holds its object, so the descriptor stays open until the thread
    is done, whatever happens to the pool meanwhile. Each thread may have one open beyond
    ``max_open``. If that is 0, each use opens the file again. Thread-safe.
    """

    def __init__(self, disk: Disk, max_open: int = 256, *, write: bool = False) -> None:
        self._disk = disk
        self._max_open = max_open
        self._write = write
        self._lock = new_lock()  # reentrant: a signal handler may close the store on any thread
        self._files: OrderedDict[str | Handle, _OpenFile] = OrderedDict()
        self._forget_count = 0
        self._keeps = max_open > 0
        self._maps: ReadMaps[str | Handle] = ReadMaps(disk, self.descriptor)
        self.mapped = self._maps.loaded
        """`ReadMaps.loaded`, for files of this pool."""

    @contextlib.contextmanager
    def descriptor(self, file: str | Handle) -> Iterator[int]:
        """Yield the file's descriptor, which stays open during the ``with`` block.

        Raises:
            ReplacedError: the file was replaced, and is not open.
        """
        held = self._held(file)
        try:
            yield held.descriptor
        finally:
            del held  # an error that is kept must not keep the file open

    def read(self, file: str | Handle, size: int, position: int) -> bytes:
        """Call `Disk.read` on a pooled file."""
        held = self._held(file)
        try:
            return self._disk.read(held.descriptor, size, position)
        finally:
            del held

    def read_pieces(self, file: str | Handle, *wanted: Any) -> tuple[list[bytes], int]:
        """Call `Disk.read_pieces` on a pooled file."""
        held = self._held(file)
        try:
            return self._disk.read_pieces(held.descriptor, *wanted)
        finally:
            del held

    def write(self, file: str | Handle, data: Buffer, position: int) -> None:
        """Call `Disk.write` on a pooled file."""
        held = self._held(file)
        try:
            self._disk.write(held.descriptor, data, position)
        finally:
            del held

    def flush(self, file: str | Handle) -> None:
        """Call `Disk.flush` on a pooled file."""
        held = self._held(file)
        try:
            self._disk.flush(held.descriptor)
        finally:
            del held

    def forget(self, file: str | Handle) -> None:
        """Close the file's descriptor after its last use; mark a `Handle` as replaced.

        Call this before the file is removed, or its path given to another file.
        """
        with self._lock:
            if isinstance(file, Handle):
                file.is_replaced = True
            self._forget_count += 1  # a thread that opens it now keeps it for this use only
            held = self._files.pop(file, None)
        self._maps.forget(file)
        del held  # closes it, not under the lock

    def close(self) -> None:
        """Close the descriptors that nobody uses now, and the others after their last use."""
        with self._lock:
            held, self._files = self._files, OrderedDict()
            self._keeps = False
        self._maps.clear()
        del held

    def _held(self, file: str | Handle) -> _OpenFile:
        held = self._files.get(file)  # without the lock: one lookup, and what it returns stays open
        if held is not None:
            held.was_used = True
            return held
        forget_count = self._forget_count
        path = file if isinstance(file, str) else _path_of(file)
        # Not under the lock: one slow open would stop all readers.
        opened = _OpenFile(self._disk.open(path, write=self._write), self._disk.close)
        surplus = None
        with self._lock:
            held = self._files.get(file)
            if held is not None:
                return held  # another thread was faster
            if isinstance(file, Handle) and file.is_replaced:
                surplus = opened  # the path may have named the other file when it was opened
            else:
                # First: a signal handler may close the pool in this call, but not after it.
                if len(self._files) >= self._max_open:
                    surplus = self._take_seldom_used()
                if self._keeps and self._forget_count == forget_count:
                    self._files[file] = opened
        if surplus is opened:
            del surplus, opened
            raise ReplacedError(path)
        del surplus
        return opened

    def _take_seldom_used(self) -> _OpenFile | None:
        """Take out the oldest file that was not used since the last look; None without files."""
        while self._files:
            file, held = self._files.popitem(last=False)
            if not held.was_used:
                return held
            held.was_used = False
            self._files[file] = held
        return None


def _path_of(handle: Handle) -> str:
    if handle.is_replaced:
        raise ReplacedError(handle.path)
    return handle.path
