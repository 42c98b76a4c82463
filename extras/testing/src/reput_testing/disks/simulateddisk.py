"""`SimulatedDisk`: knows at each moment what a power cut would leave.

Files are real ones, in a real directory, so that maps, locks and descriptors are the system's own.
Apart from them the disk records what is *durable*: a file's content when the file was flushed, a
directory's names when the directory was flushed. `reput_testing.disks.crashstates` says what may
happen to the rest.

It is stricter than most file systems, on purpose: a flush of a file does not make its name durable,
a flush of a directory does not keep the sizes of its files, and no order is kept without a flush.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from reput_testing.disks.crashstates import (
    PAGE_SIZE,
    CrashPoint,
    CrashState,
    FileState,
    NameChange,
    changes_needed,
)
from reput_testing.disks.failingdisk import FaultyDisk, QuickDisk

if TYPE_CHECKING:
    from reput.files import Buffer


class SimulatedDisk(QuickDisk):
    """A disk on which the power may fail at any time. Thread-safe.

    Args:
        directory: everything below it is simulated. Existing files are durable.
        note: called at each point; its result becomes `CrashPoint.note`. A useful note is what was
            promised to be durable by then.

    Attributes:
        points: the moments before and after each operation that changed something.
    """

    def __init__(
        self, directory: str | os.PathLike[str], note: Callable[[], Any] | None = None
    ) -> None:
        self.directory = os.path.realpath(directory)
        self.note = note
        self.points: list[CrashPoint] = []
        self._lock = threading.RLock()
        self._moment = 0
        self._version = 0  # counts every change of the possible states
        self._seen: tuple[int, Any] | None = None  # version and note of the last point
        self._next_node = 1
        self._names: dict[int, dict[str, int]] = {0: {}}  # of each directory, now
        self._durable: dict[int, dict[str, int]] = {0: {}}
        self._files: dict[int, FileState] = {}
        self._changes: list[NameChange] = []
        self._open: dict[int, int] = {}  # descriptor -> file
        self._maps: list[tuple[weakref.ref[_Map], int]] = []
        self._load(self.directory, 0)

    @classmethod
    def after_kill(
        cls,
        point: CrashPoint,
        directory: str | os.PathLike[str],
        note: Callable[[], Any] | None = None,
    ) -> Self:
        """Return the disk after the death of the process at ``point``, in a new ``directory``.

        The death loses nothing, and makes nothing durable either.
        """
        point.newest().materialize(directory)
        disk = cls(directory, note)
        disk._files, disk._changes = dict(point.files), list(point.changes)
        disk._durable = {number: dict(names) for number, names in point.durable.items()}
        disk._names = {number: dict(names) for number, names in point.durable.items()}
        for change in point.changes:
            change.apply(disk._names)
        disk._moment = point.moment
        disk._next_node = max({0, *disk._names, *disk._files}) + 1
        return disk

    # ------------------------------------------------------------------ power cuts

    def now(self, operation: str = "now") -> CrashPoint:
        """Return this moment as a point."""
        with self._lock:
            self._look_at_maps()
            return self._point_now(operation)

    def crash_states(self, **options: Any) -> Iterator[CrashState]:
        """Return states that a power cut at this moment may leave; see `CrashPoint.states`."""
        return self.now().states(**options)

    def _point_now(self, operation: str) -> CrashPoint:
        return CrashPoint(
            number=len(self.points),
            operation=operation,
            note=None if self.note is None else self.note(),
            moment=self._moment,
            root=0,
            durable=dict(self._durable),
            files=dict(self._files),
            changes=tuple(self._changes),
        )

    def _take_point(self, operation: str) -> None:
        point = self._point_now(operation)
        if self._seen != (self._version, point.note):
            self._seen = self._version, point.note
            self.points.append(point)

    @contextmanager
    def _operation(self, operation: str) -> Iterator[None]:
        with self._lock:
            self._look_at_maps()
            self._take_point(f"before {operation}")
            yield
            self._take_point(f"after {operation}")

    # ------------------------------------------------------------------ files

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """See `Disk.open`."""
        if not create or self._node(path) is not None:
            return self._opened(super().open(path, write=write, create=create, fresh=fresh), path)
        with self._operation(f"create {self._short(path)}"):
            descriptor = super().open(path, write=write, create=create, fresh=fresh)
            place = self._place(path)
            if place is not None:
                node = self._new_node()
                self._files[node] = FileState()
                self._change(f"create {self._short(path)}", (*place, node))
        return self._opened(descriptor, path)

    def _opened(self, descriptor: int, path: str) -> int:
        node = self._node(path)
        if node is not None:
            with self._lock:
                self._open[descriptor] = node
        return descriptor

    def close(self, descriptor: int) -> None:
        """See `Disk.close`."""
        with self._lock:
            self._open.pop(descriptor, None)
            super().close(descriptor)

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """See `Disk.write_some`."""
        with self._operation(f"write {self._short_of(descriptor)}"):
            count = super().write_some(descriptor, data, position)
            self._look(descriptor, position, position + count)
            node = self._open.get(descriptor)
            if node is not None:
                pages = range(position // PAGE_SIZE, (position + count - 1) // PAGE_SIZE + 1)
                self._files[node] = self._files[node].touched(pages)
        return count

    def allocate(self, descriptor: int, size: int, start: int = 0) -> None:
        """See `Disk.allocate`."""
        with self._operation(f"allocate {self._short_of(descriptor)}"):
            super().allocate(descriptor, size, start)
            self._look(descriptor, 0, 0)

    def truncate(self, descriptor: int, size: int) -> None:
        """See `Disk.truncate`."""
        with self._operation(f"truncate {self._short_of(descriptor)}"):
            super().truncate(descriptor, size)
            self._look(descriptor, size, None)

    def flush(self, descriptor: int) -> None:
        """Make the file's current content durable, but not its name."""
        with self._operation(f"flush {self._short_of(descriptor)}"):
            super().flush(descriptor)
            node = self._open.get(descriptor)
            if node is not None:
                self._files[node] = self._files[node].flushed()
                self._version += 1

    def give_up(self, descriptor: int) -> None:
        """Keep what was not flushed yet in memory, and never write it."""
        with self._operation(f"give up {self._short_of(descriptor)}"):
            node = self._open.get(descriptor)
            if node is not None:
                self._files[node] = self._files[node].given_up()
                self._version += 1

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """See `Disk.map`; a store through ``[]`` of the map is noticed at once."""
        node = self._open.get(descriptor)
        if node is None:
            return super().map(descriptor, size)
        with self._lock:
            made = self.map_as(_Map, descriptor, size)
            made.watch(self)
            self._maps.append((weakref.ref(made), node))
            return made

    # ------------------------------------------------------------------ names

    def rename(self, source: str, target: str) -> None:
        """See `Disk.rename`."""
        operation = f"rename {self._short(source)} to {self._short(target)}"
        with self._operation(operation):
            node, old, new = self._node(source), self._place(source), self._place(target)
            super().rename(source, target)
            if node is not None and old is not None and new is not None:
                self._change(operation, (*old, None), (*new, node))

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        with self._operation(f"remove {self._short(path)}"):
            place = self._place(path)
            super().remove(path)
            if place is not None:
                self._change(f"remove {self._short(path)}", (*place, None))

    def remove_directory(self, path: str) -> None:
        """See `Disk.remove_directory`."""
        with self._operation(f"remove directory {self._short(path)}"):
            place = self._place(path)
            super().remove_directory(path)
            if place is not None:
                self._change(f"remove directory {self._short(path)}", (*place, None))

    def make_one_directory(self, path: str) -> None:
        """See `Disk.make_one_directory`."""
        operation = f"make directory {self._short(path)}"
        with self._operation(operation):
            place = self._place(path)
            super().make_one_directory(path)
            if place is not None and self._node(path) is None:
                node = self._new_node()
                self._names[node], self._durable[node] = {}, {}
                self._change(operation, (*place, node))

    def flush_directory(self, path: str) -> None:
        """Make the directory's names durable, and changes that must have come before them."""
        with self._operation(f"flush directory {self._short(path)}"):
            super().flush_directory(path)
            node = self._node(path)
            if node is not None:
                self._flush_names(node)
                self._version += 1

    def _flush_names(self, directory: int) -> None:
        changes = self._changes
        done = {
            number
            for number, change in enumerate(changes)
            if any(each[0] == directory for each in change.names)
        }
        needed = changes_needed(changes)
        for number in range(len(changes) - 1, -1, -1):
            if number in done:
                done.update(needed[number])
        durable = {number: dict(names) for number, names in self._durable.items()}
        for number in sorted(done):
            changes[number].apply(durable)
        self._durable = durable
        self._changes = [each for number, each in enumerate(changes) if number not in done]

    def _change(self, operation: str, *names: tuple[int, str, int | None]) -> None:
        self._moment += 1
        self._version += 1
        change = NameChange(self._moment, operation, names)
        change.apply(self._names)
        self._changes.append(change)

    # ------------------------------------------------------------------ looking

    def _look(self, descriptor: int, start: int, stop: int | None) -> None:
        """Notice changes of a file's size, and of its bytes from ``start`` to ``stop``."""
        node = self._open.get(descriptor)
        if node is None:
            return
        size = self.size(descriptor)
        end = max(size, self._files[node].size) if stop is None else stop
        first = start - start % PAGE_SIZE
        data = os.pread(descriptor, max(end - first, 0) + PAGE_SIZE, first)
        self._noticed(node, size, first, data, end)

    def _look_at_maps(self) -> None:
        alive = []
        for reference, node in self._maps:
            target = reference()
            if target is not None and not target.closed:
                alive.append((reference, node))
                self._noticed(node, self._files[node].size, 0, bytes(target), len(target))
        self._maps = alive

    def _noticed(self, node: int, size: int, first: int, data: bytes, end: int) -> None:
        file = self._files[node]
        pages = {}
        for position in range(first, end, PAGE_SIZE):
            page = data[position - first : position - first + PAGE_SIZE].ljust(PAGE_SIZE, b"\0")
            if page != file.page(position // PAGE_SIZE):
                pages[position // PAGE_SIZE] = page
        if size == file.size and not pages:
            return
        self._moment += 1
        self._version += 1
        if size != file.size:
            file = file.resized(self._moment, size)
        self._files[node] = file.changed(self._moment, pages) if pages else file

    def noticed_map(self) -> None:
        """Notice writes through maps; called by the maps."""
        with self._lock:
            version = self._version
            self._look_at_maps()
            if self._version != version:
                self._take_point("after a store through a map")

    # ------------------------------------------------------------------ paths

    def _load(self, path: str, directory: int) -> None:
        names = self._names[directory]
        for entry in self.list(path):
            node = names[entry.name] = self._new_node()
            if entry.is_dir(follow_symlinks=False):
                self._names[node] = {}
                self._load(entry.path, node)
            else:
                with open(entry.path, "rb") as file:
                    data = file.read()
                pages = {
                    at // PAGE_SIZE: ((0, data[at : at + PAGE_SIZE].ljust(PAGE_SIZE, b"\0")),)
                    for at in range(0, len(data), PAGE_SIZE)
                }
                self._files[node] = FileState(((0, len(data)),), pages)
        self._durable[directory] = dict(names)

    def _new_node(self) -> int:
        self._next_node += 1
        return self._next_node - 1

    def _inside(self, path: str) -> bool:
        return os.path.abspath(path).startswith(f"{self.directory}/")

    def _node(self, path: str) -> int | None:
        """Return the number of the file or directory; None if missing or not simulated."""
        path = os.path.abspath(path)
        if path == self.directory:
            return 0
        if not self._inside(path):
            return None
        node: int | None = 0
        for name in os.path.relpath(path, self.directory).split(os.sep):
            node = None if node is None else self._names.get(node, {}).get(name)
        return node

    def _place(self, path: str) -> tuple[int, str] | None:
        """Return the number of the directory, and the name in it; None if not simulated."""
        directory, name = os.path.split(os.path.abspath(path))
        node = self._node(directory)
        return None if node is None else (node, name)

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self.directory) if self._inside(path) else path

    def _short_of(self, descriptor: int) -> str:
        try:
            return self._short(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            return f"descriptor {descriptor}"


class _Map(mmap.mmap):
    """A map that tells its disk of each write."""

    _disk: SimulatedDisk | None = None

    def watch(self, disk: SimulatedDisk) -> Self:
        """Tell ``disk`` from now on."""
        self._disk = disk
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self._disk is not None:
            self._disk.noticed_map()

    def close(self) -> None:
        """Unmap; writes are noticed before."""
        if self._disk is not None and not self.closed:
            self._disk.noticed_map()
        super().close()


class FaultySimulatedDisk(FaultyDisk, SimulatedDisk):
    """A disk that fails as `FaultyDisk` does, and whose power may be cut.

    A flush that fails drops the bytes that it could not write, as Linux does: they can still be
    read, the next flush succeeds, and a power cut loses them.

    Args:
        directory: as for `SimulatedDisk`.
        note: as for `SimulatedDisk`.
        fail_at: as for `FaultyDisk`, like all other ``options``.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        note: Callable[[], Any] | None = None,
        fail_at: int | None = None,
        **options: Any,
    ) -> None:
        SimulatedDisk.__init__(self, directory, note)
        self.plan(fail_at, **options)

    def flush(self, descriptor: int) -> None:
        """Make the file's current content durable, or drop it and fail."""
        try:
            super().flush(descriptor)
        except OSError:
            self.give_up(descriptor)
            raise
