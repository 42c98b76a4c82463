"""`FilePool`: open descriptors of many files, kept for the next one who asks."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.files.disk import Buffer, Disk

__all__ = ["FilePool"]


class FilePool:
    """Open descriptors of many files, at most ``max_open`` at a time, least recently used out.

    A descriptor that somebody is using is pinned and never closed under them, so the number open
    can pass ``max_open`` by the number of threads. Thread-safe.
    """

    def __init__(self, disk: Disk, max_open: int = 256, *, write: bool = False) -> None:
        self._disk = disk
        self._max_open = max_open
        self._write = write
        self._lock = threading.RLock()  # a signal handler may close the store on any thread
        self._idle: OrderedDict[str, int] = OrderedDict()
        self._pinned: dict[str, tuple[int, int]] = {}  # path -> (descriptor, users)
        self._opening: dict[str, int] = {}  # path -> threads that open it
        self._doomed: set[str] = set()

    @contextlib.contextmanager
    def descriptor(self, path: str) -> Iterator[int]:
        """The file's descriptor, open for the time of the ``with`` block."""
        descriptor = self._pin(path)
        try:
            yield descriptor
        finally:
            self._unpin(path)

    def read(self, path: str, size: int, position: int) -> bytes:
        """`Disk.read` of a pooled file."""
        descriptor = self._pin(path)
        try:
            return self._disk.read(descriptor, size, position)
        finally:
            self._unpin(path)

    def write(self, path: str, data: Buffer, position: int) -> None:
        """`Disk.write` of a pooled file."""
        descriptor = self._pin(path)
        try:
            self._disk.write(descriptor, data, position)
        finally:
            self._unpin(path)

    def flush(
        self,
        paths: Sequence[str],
        *,
        missing_ok: bool = False,
        before: Callable[[str], object] | None = None,
    ) -> None:
        """`Disk.flush` of each path, side by side where there are many.

        Args:
            paths: which files.
            missing_ok: pass over files that are not there any more.
            before: called with each path just before that file is flushed, on the same thread: what
                is written from then on may not be part of it.
        """

        def flush_one(path: str) -> None:
            if before is not None:
                before(path)
            try:
                with self.descriptor(path) as descriptor:
                    self._disk.flush(descriptor)
            except FileNotFoundError:
                if not missing_ok:
                    raise

        self._disk.side_by_side(flush_one, paths)

    def forget(self, path: str) -> None:
        """Close the file's descriptor as soon as nobody uses it; call before removing the file."""
        with self._lock:
            descriptor = self._idle.pop(path, None)
            if path in self._pinned or path in self._opening:
                self._doomed.add(path)
        if descriptor is not None:
            self._disk.close(descriptor)

    def close(self) -> None:
        """Close every idle descriptor; those in use close when their user is done."""
        with self._lock:
            idle, self._idle = list(self._idle.values()), OrderedDict()
            self._doomed.update(self._pinned, self._opening)
        for descriptor in idle:
            self._disk.close(descriptor)

    def _pin(self, path: str) -> int:
        with self._lock:
            held = self._pinned.get(path)
            if held is not None:
                self._pinned[path] = (held[0], held[1] + 1)
                return held[0]
            descriptor = self._idle.pop(path, -1)
            if descriptor >= 0:
                self._pinned[path] = (descriptor, 1)
                return descriptor
            self._opening[path] = self._opening.get(path, 0) + 1
        # Not under the lock: one slow open, on a network's disk, would stop all other readers.
        opened = spare = -1
        try:
            opened = self._disk.open(path, write=self._write)
        finally:
            with self._lock:
                self._opening[path] -= 1
                if not self._opening[path]:
                    del self._opening[path]
                    if opened < 0 and path not in self._pinned:
                        self._doomed.discard(path)
                if opened >= 0:
                    descriptor, spare = self._chosen(path, opened)
        if spare >= 0:
            self._disk.close(spare)
        return descriptor

    def _chosen(self, path: str, opened: int) -> tuple[int, int]:
        """Pin the descriptor in use, or ``opened``: the one to use, and one to close or -1."""
        held = self._pinned.get(path)
        idle = self._idle.pop(path, -1)
        if held is not None:
            self._pinned[path] = (held[0], held[1] + 1)
            return held[0], opened
        if idle >= 0:
            self._pinned[path] = (idle, 1)
            return idle, opened
        self._pinned[path] = (opened, 1)
        return opened, -1

    def _unpin(self, path: str) -> None:
        surplus = []
        with self._lock:
            descriptor, users = self._pinned.pop(path)
            if users > 1:
                self._pinned[path] = (descriptor, users - 1)
                return
            if path in self._doomed:
                self._doomed.discard(path)
                surplus.append(descriptor)
            else:
                self._idle[path] = descriptor
                while len(self._idle) > self._max_open:
                    surplus.append(self._idle.popitem(last=False)[1])
        for descriptor in surplus:
            self._disk.close(descriptor)
