"""`HandlePool`: open descriptors of files whose names pass from one file to another.

A compaction puts a new file under the name of an old one. So a file is known here by an object and
not by its name: who has begun to read the old one goes on with it, and who has not is told that it
was replaced.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["Handle", "HandlePool", "ReplacedError"]


class ReplacedError(Exception):
    """The file was replaced before it was opened; look at the queue's files anew."""


@attrs.define(eq=False)
class Handle:
    """One file, whatever it is called."""

    path: str
    is_replaced: bool = False
    """Whether the name leads elsewhere by now."""


class HandlePool:
    """Descriptors of handles, at most ``max_open`` of them idle, least recently used out.

    Thread-safe. A descriptor in use is never closed.
    """

    def __init__(self, disk: Disk, max_open: int, *, write: bool) -> None:
        self._disk = disk
        self._max_open = max_open
        self._write = write
        self._lock = threading.Lock()
        self._idle: OrderedDict[Handle, int] = OrderedDict()
        self._used: dict[Handle, tuple[int, int]] = {}  # (descriptor, users)
        self._is_closed = False

    @contextlib.contextmanager
    def descriptor(self, handle: Handle) -> Iterator[int]:
        """The file's descriptor for the time of the ``with`` block.

        Raises:
            ReplacedError: the file was replaced, and is not open any more.
        """
        descriptor = self._take(handle)
        try:
            yield descriptor
        finally:
            self._give_back(handle)

    def read(self, handle: Handle, size: int, position: int) -> bytes:
        """`Disk.read` of a file."""
        with self.descriptor(handle) as descriptor:
            return self._disk.read(descriptor, size, position)

    def write(self, handle: Handle, data: bytes | bytearray | memoryview, position: int) -> None:
        """`Disk.write` to a file."""
        with self.descriptor(handle) as descriptor:
            self._disk.write(descriptor, data, position)

    def flush(self, handle: Handle) -> None:
        """`Disk.flush` of a file."""
        with self.descriptor(handle) as descriptor:
            self._disk.flush(descriptor)

    def size(self, handle: Handle) -> int:
        """Bytes of a file."""
        with self.descriptor(handle) as descriptor:
            return self._disk.size(descriptor)

    def cut(self, handle: Handle, position: int, full_size: int) -> None:
        """Make everything from ``position`` on zero, in a file of ``full_size`` bytes."""
        with self.descriptor(handle) as descriptor:
            self._disk.truncate(descriptor, position)
            self._disk.truncate(descriptor, full_size)

    def replace(self, handle: Handle) -> None:
        """Open the file for nobody any more; call before its name is given away."""
        with self._lock:
            handle.is_replaced = True
            descriptor = self._idle.pop(handle, None)
        if descriptor is not None:
            self._disk.close(descriptor)

    def close(self) -> None:
        """Close everything that is idle; what is in use closes when its user is done."""
        with self._lock:
            idle, self._idle = list(self._idle.values()), OrderedDict()
            self._is_closed = True
        for descriptor in idle:
            self._disk.close(descriptor)

    def _take(self, handle: Handle) -> int:
        with self._lock:
            held = self._used.get(handle)
            if held is not None:
                self._used[handle] = (held[0], held[1] + 1)
                return held[0]
            descriptor = self._idle.pop(handle, -1)
            if descriptor < 0:
                if handle.is_replaced:
                    raise ReplacedError(handle.path)
                descriptor = self._disk.open(handle.path, write=self._write)
            self._used[handle] = (descriptor, 1)
            return descriptor

    def _give_back(self, handle: Handle) -> None:
        surplus = []
        with self._lock:
            descriptor, users = self._used.pop(handle)
            if users > 1:
                self._used[handle] = (descriptor, users - 1)
                return
            if handle.is_replaced or self._is_closed:
                surplus.append(descriptor)
            else:
                self._idle[handle] = descriptor
                while len(self._idle) > self._max_open:
                    surplus.append(self._idle.popitem(last=False)[1])
        for descriptor in surplus:
            self._disk.close(descriptor)
