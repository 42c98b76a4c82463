"""`KillPoints`: a disk that keeps what a kill would leave between every two of its operations.

    disk = KillPoints(tmp_path / "store", tmp_path / "killed")
    store = reput.open(disk.root, disk=disk, threads=False, …)
    store.put(message)
    with disk.watching():
        store.flush()
    disk.check_each(lambda root, point: reopened(root) …)

A kill loses nothing that was written, so it leaves a copy of the store's directory at that moment.
For any two notes that one process writes, some of these copies have the first note without the
second.

A reader may open the directory itself between the operations (``beside``), as another process
would. A failure names the operation, and the command that tries only that moment again, by the
environment variable ``REPUT_KILL_POINT``.
"""

from __future__ import annotations

import mmap
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from reput.files import Disk
from reput_testing.casebudget import is_soak, part
from reput_testing.contract.basecontract import spread
from reput_testing.crashes.powercuts import command_for
from reput_testing.disks.failingdisk import QuickDisk

if TYPE_CHECKING:
    from reput.files import Buffer

POINT_VARIABLE = "REPUT_KILL_POINT"

_PAGE_SIZE = 4096  # an interrupted write ends between two pages
_COPY_SIZE = 1 << 20


@attrs.frozen
class KillPoint:
    """One moment at which the process could have been killed."""

    number: int
    operation: str
    """The operation that was about to begin; ``end`` after the last operation."""
    root: Path
    """A copy of the store's directory."""
    note: Any = None
    """Result of `KillPoints.note` at that moment."""


class KillPoints(QuickDisk):
    """A disk that copies a directory before each operation that changes it. Thread-safe.

    While it watches, operations run one at a time, so that a copy is of one moment; only what
    another thread writes through a map may be torn in a copy.

    Args:
        root: the store's directory.
        copies: the copies are made below it.
        note: called at each point; a useful note is what was acknowledged by then.
        every: copy only before every so many-th operation, to save time; before each with
            ``REPUT_SOAK=1``, and if one point is asked for.
        beside: called at each point with the operation that is about to begin; what ``beside``
            raises is raised by `watching`, not by the operation.

    Attributes:
        points: the moments, in order.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        copies: str | os.PathLike[str],
        note: Callable[[], Any] | None = None,
        beside: Callable[[str], object] | None = None,
        every: int = 1,
    ) -> None:
        self.root = Path(root)
        self.points: list[KillPoint] = []
        self._copies = Path(copies)
        self._note = note
        self._beside = beside
        self._every = 1 if is_soak() or POINT_VARIABLE in os.environ else every
        self._number = 0
        self._beside_error: BaseException | None = None
        self._is_watching = False
        self._is_changed = False  # since the last point
        self._lock = threading.RLock()

    # ------------------------------------------------------------------ points

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take a point before every operation in this block, and one at its end."""
        with self._lock:
            self._is_watching = self._is_changed = True
        try:
            yield
        finally:
            with self._lock:
                self._is_changed = True
                self._take("end")
                self._is_watching = False
                error, self._beside_error = self._beside_error, None
            if error is not None:
                raise error

    def check_each(
        self, check: Callable[[Path, KillPoint], object], most: int | None = None
    ) -> int:
        """Call ``check`` with the copy of each point, then remove the copy.

        Args:
            check: takes the copy and the point.
            most: about how many points to try, evenly spread; all by default, and with
                ``REPUT_SOAK=1``.

        Returns:
            The number of points to try, those in other parts of the proof included.

        Raises:
            AssertionError: ``check`` has failed; the text names the point.
        """
        chosen = {point.number for point in self.points}
        if most is not None and not is_soak():
            chosen = {self.points[at].number for at in spread(len(self.points) - 1, most)}
        count = len(chosen)
        chosen = set(part(sorted(chosen)))
        wanted = os.environ.get(POINT_VARIABLE)
        if wanted is not None:
            chosen, count = {int(wanted)}, 1
        for point in self.points:
            if point.number in chosen:
                try:
                    check(point.root, point)
                except Exception as error:
                    raise AssertionError(
                        f"{type(error).__name__}: {error}\nkilled at point {point.number} of "
                        f"{self._number}, before: {point.operation}; to see it again:\n  "
                        f"{command_for(POINT_VARIABLE, str(point.number))}"
                    ) from error
            shutil.rmtree(point.root, ignore_errors=True)
        return count

    def _take(self, operation: str) -> None:
        if not self._is_changed:
            return
        self._is_changed = False
        number, self._number = self._number, self._number + 1
        if number % self._every and operation != "end":
            return
        target = self._copies / f"{number}"
        copy_store(self.root, target)
        note = None if self._note is None else self._note()
        self.points.append(KillPoint(number, operation, target, note))
        if self._beside is not None and self._beside_error is None:
            try:
                self._beside(operation)
            except Exception as error:
                error.add_note(f"beside a process that was going to {operation}")
                self._beside_error = error

    @contextmanager
    def _operation(self, name: str, path: str, *, changes: bool = True) -> Iterator[None]:
        with self._lock:
            if not self._is_watching:
                yield
                return
            short = os.path.relpath(path, self.root)
            self._take(f"{name} {short}")
            yield
            self._is_changed |= changes

    # ------------------------------------------------------------------ operations

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """Open a file; creating one is an operation."""
        if not create or os.path.lexists(path):
            return super().open(path, write=write, create=create, fresh=fresh)
        with self._operation("create", path):
            return super().open(path, write=write, create=create, fresh=fresh)

    def write_some(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write; a write over the end of a page is two operations."""
        first = -position % _PAGE_SIZE or _PAGE_SIZE
        if not self._is_watching or len(data) <= first:
            with self._operation("write", _path_of(descriptor)):
                return super().write_some(descriptor, data, position)
        with self._operation("write", _path_of(descriptor)):
            count = super().write_some(descriptor, memoryview(data)[:first], position)
        if count < first:
            return count
        with self._operation("write the rest of", _path_of(descriptor)):
            rest = memoryview(data)[first:]
            return count + super().write_some(descriptor, rest, position + first)

    def allocate(self, descriptor: int, size: int, start: int = 0) -> None:
        """Allocate space."""
        with self._operation("allocate", _path_of(descriptor)):
            super().allocate(descriptor, size, start)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the size."""
        with self._operation("truncate", _path_of(descriptor)):
            super().truncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        """Flush; no kill shows it, but stores through a map before it are noticed here."""
        with self._operation("flush", _path_of(descriptor), changes=False):
            super().flush(descriptor)

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map; each store through ``[]`` of the map is an operation."""
        made = self.map_as(_Map, descriptor, size)
        made.disk, made.path = self, _path_of(descriptor)
        return made

    def rename(self, source: str, target: str) -> None:
        """Rename."""
        with self._operation("rename", source):
            super().rename(source, target)

    def remove(self, path: str) -> None:
        """Remove."""
        with self._operation("remove", path):
            super().remove(path)

    def remove_directory(self, path: str) -> None:
        """Remove."""
        with self._operation("remove directory", path):
            super().remove_directory(path)

    def make_one_directory(self, path: str) -> None:
        """Make a directory."""
        with self._operation("make directory", path):
            super().make_one_directory(path)


class _Map(mmap.mmap):
    """A map that tells its disk before each change."""

    disk: KillPoints
    path: str

    def __setitem__(self, key: Any, value: Any) -> None:
        with self.disk._operation("store into", self.path):
            super().__setitem__(key, value)


def copy_store(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a directory as it is now; zeros in a file take no room in the copy.

    The copy of a directory that does not exist is empty. The store's ``lock`` is left empty:
    closing a descriptor of ``lock`` in the process that holds the lock could release it.
    """
    lock = os.path.join(source, "lock")

    def copy(path: str, there: str) -> None:
        if path == lock:
            Path(there).touch()
        else:
            _copy_file(path, there)

    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=copy)
    else:
        os.makedirs(target)


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb", buffering=0) as old, open(target, "wb", buffering=0) as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        for start, end in Disk().data_ranges(old.fileno(), 0, size):
            for position in range(start, end, _COPY_SIZE):
                data = os.pread(old.fileno(), min(_COPY_SIZE, end - position), position)
                if data.strip(b"\0"):
                    os.pwrite(new.fileno(), data, position)


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")
