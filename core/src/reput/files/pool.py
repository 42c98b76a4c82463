"""`FilePool`: open descriptors of many files, kept for reuse.

A file is identified by its path or, if a path may pass from one file to another, by a `Handle`: a
reader that has begun to read the old file continues with it, and a reader that has not gets a
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
    from collections.abc import Iterator

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


class FilePool:
    """Open descriptors of many files, at most ``max_open``; closes the least recently used.

    A descriptor in use is pinned, so each thread may have one open beyond ``max_open``.
    Thread-safe.
    """

    def __init__(self, disk: Disk, max_open: int = 256, *, write: bool = False) -> None:
        self._disk = disk
        self._max_open = max_open
        self._write = write
        self._lock = new_lock()  # reentrant: a signal handler may close the store on any thread
        self._idle: OrderedDict[str | Handle, int] = OrderedDict()
        self._pinned: dict[str | Handle, tuple[int, int]] = {}  # file -> (descriptor, users)
        self._opening: dict[str | Handle, int] = {}  # file -> number of threads opening it
        self._doomed: set[str | Handle] = set()
        self._is_closed = False
        self._maps: ReadMaps[str | Handle] = ReadMaps(disk, self.descriptor)
        self.mapped = self._maps.loaded
        """`ReadMaps.loaded`, for files of this pool."""

    @contextlib.contextmanager
    def descriptor(self, file: str | Handle) -> Iterator[int]:
        """Yield the file's descriptor, which stays open during the ``with`` block.

        Raises:
            ReplacedError: the file was replaced, and is not open.
        """
        descriptor = self._pin(file)
        try:
            yield descriptor
        finally:
            self._unpin(file)

    def read(self, file: str | Handle, size: int, position: int) -> bytes:
        """Call `Disk.read` on a pooled file."""
        descriptor = self._pin(file)
        try:
            return self._disk.read(descriptor, size, position)
        finally:
            self._unpin(file)

    def read_pieces(self, file: str | Handle, *wanted: Any) -> tuple[list[bytes], int]:
        """Call `Disk.read_pieces` on a pooled file."""
        descriptor = self._pin(file)
        try:
            return self._disk.read_pieces(descriptor, *wanted)
        finally:
            self._unpin(file)

    def write(self, file: str | Handle, data: Buffer, position: int) -> None:
        """Call `Disk.write` on a pooled file."""
        descriptor = self._pin(file)
        try:
            self._disk.write(descriptor, data, position)
        finally:
            self._unpin(file)

    def flush(self, file: str | Handle) -> None:
        """Call `Disk.flush` on a pooled file."""
        descriptor = self._pin(file)
        try:
            self._disk.flush(descriptor)
        finally:
            self._unpin(file)

    def forget(self, file: str | Handle) -> None:
        """Close the file's descriptor after its last use; mark a `Handle` as replaced.

        Call this before the file is removed, or its path given to another file.
        """
        with self._lock:
            if isinstance(file, Handle):
                file.is_replaced = True
            descriptor = self._idle.pop(file, None)
            if file in self._pinned or file in self._opening:
                self._doomed.add(file)
        # After the lock: a thread that maps the file meanwhile is done by now, or forgets its map.
        self._maps.forget(file)
        if descriptor is not None:
            self._disk.close(descriptor)

    def close(self) -> None:
        """Close all idle descriptors now, and those in use after their last use."""
        with self._lock:
            idle, self._idle = list(self._idle.values()), OrderedDict()
            self._is_closed = True
        self._maps.clear()
        for descriptor in idle:
            self._disk.close(descriptor)

    def _pin(self, file: str | Handle) -> int:
        with self._lock:
            held = self._pinned.get(file)
            if held is not None:
                self._pinned[file] = (held[0], held[1] + 1)
                return held[0]
            descriptor = self._idle.pop(file, -1)
            if descriptor >= 0:
                self._pinned[file] = (descriptor, 1)
                return descriptor
            path = file if isinstance(file, str) else _path_of(file)
            self._opening[file] = self._opening.get(file, 0) + 1
        # Not under the lock: one slow open would stop all readers.
        opened = spare = -1
        try:
            opened = self._disk.open(path, write=self._write)
        finally:
            with self._lock:
                self._opening[file] -= 1
                if opened >= 0:
                    descriptor, spare = self._chosen(file, opened)
                if not self._opening[file]:
                    del self._opening[file]
                    if file not in self._pinned:
                        self._doomed.discard(file)
        if spare >= 0:
            self._disk.close(spare)
        if descriptor < 0:
            raise ReplacedError(path)
        return descriptor

    def _chosen(self, file: str | Handle, opened: int) -> tuple[int, int]:
        """Pin the file's descriptor; return the one to use and the one to close, -1 for none."""
        held = self._pinned.get(file)
        idle = self._idle.pop(file, -1)
        if held is not None:
            self._pinned[file] = (held[0], held[1] + 1)
            return held[0], opened
        if idle >= 0:
            self._pinned[file] = (idle, 1)
            return idle, opened
        if isinstance(file, Handle) and file.is_replaced:
            return -1, opened  # the path may have named the other file when it was opened
        self._pinned[file] = (opened, 1)
        return opened, -1

    def _unpin(self, file: str | Handle) -> None:
        surplus = []
        with self._lock:
            descriptor, users = self._pinned.pop(file)
            if users > 1:
                self._pinned[file] = (descriptor, users - 1)
                return
            if self._is_closed or file in self._doomed:
                self._doomed.discard(file)
                self._maps.forget(file)  # which a read may have mapped since
                surplus.append(descriptor)
            else:
                self._idle[file] = descriptor
                while len(self._idle) > self._max_open:
                    surplus.append(self._idle.popitem(last=False)[1])
        for descriptor in surplus:
            self._disk.close(descriptor)


def _path_of(handle: Handle) -> str:
    if handle.is_replaced:
        raise ReplacedError(handle.path)
    return handle.path
