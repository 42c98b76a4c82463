"""`FilePool`: open descriptors of many files, kept for reuse.

A file is identified by its path or, if a path may pass from one file to another, by a `Handle`. A
thread that has the old file's descriptor continues with it. Any later use of the handle raises
`ReplacedError`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from reput.files.readmap import ReadMaps
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.files.system.disk import Buffer, Disk

_Answer = TypeVar("_Answer")

_USUAL: Final = 1_024  # descriptors


class ReplacedError(Exception):
    """The file was replaced before it was opened; look for the file in its place."""


@attrs.define(eq=False)
class Handle:
    """Identifies one file, while its path may come to name another."""

    path: str
    is_replaced: bool = False
    """Whether `path` names another file by now, so that it is not opened; see `FilePool.forget`."""


@attrs.define(eq=False, repr=False)
class _OpenFile:
    """A descriptor in use or kept; closed when nobody refers to this object any more."""

    descriptor: int
    was_used: bool = False
    """Whether somebody used it again since the pool last looked for one to close."""


class FilePool:
    """Open descriptors of many files, at most ``max_open``; closes files that are seldom used.

    Fewer are kept if the process may have only few, and all are released when it has no more.

    A thread that uses a descriptor holds its object, so the descriptor stays open until the thread
    is done, whatever happens to the pool meanwhile. Each thread may have one open beyond
    ``max_open``. If that is 0, each use opens the file again. Thread-safe.
    """

    def __init__(self, disk: Disk, max_open: int = 256, *, write: bool = False) -> None:
        self._disk = disk
        self._wanted = max_open
        self._max_open = 1
        """How many it keeps: `_wanted` of them, or fewer, once a second file is opened."""
        self._is_shared = False
        """Whether it gives descriptors back when the process has no more."""
        self._write = write
        self._lock = new_lock()  # reentrant: a signal handler may close the store on any thread
        self._files: OrderedDict[str | Handle, _OpenFile] = OrderedDict()
        self._descriptors: dict[weakref.ref[_OpenFile], int] = {}
        """Each one that is open."""
        self._dropped: deque[weakref.ref[_OpenFile]] = deque()
        """Files to which nobody refers any more, and which are to be closed."""
        self._forget_count = 0
        """Calls of `forget`; a file that was opened meanwhile may be the forgotten one."""
        self._keeps = max_open > 0
        self.maps: ReadMaps[str | Handle] = ReadMaps(disk, self.descriptor)
        """Maps of files of this pool."""

    @contextlib.contextmanager
    def descriptor(self, file: str | Handle) -> Iterator[int]:
        """Yield the file's descriptor, which stays open during the ``with`` block.

        Raises:
            ReplacedError: the file was replaced.
        """
        held = self._held(file)
        try:
            yield held.descriptor
        finally:
            del held  # an error that is kept must not keep the file open
            if self._dropped:
                self._close_dropped()

    def read(self, file: str | Handle, size: int, position: int) -> bytes:
        """Call `Disk.read` on a pooled file."""
        held = self._held(file)
        try:
            return self._disk.read(held.descriptor, size, position)
        finally:
            del held
            if self._dropped:
                self._close_dropped()

    def read_pieces(self, file: str | Handle, *wanted: Any) -> tuple[list[bytes], int]:
        """Call `Disk.read_pieces` on a pooled file."""
        return self.call(file, self._disk.read_pieces, *wanted)

    def call(self, file: str | Handle, use: Callable[..., _Answer], *arguments: Any) -> _Answer:
        """Call ``use`` with the descriptor of a pooled file, and these arguments."""
        held = self._files.get(file)  # as in `_held`, for most calls
        if held is None:
            held = self._held(file)
        else:
            held.was_used = True
        try:
            return use(held.descriptor, *arguments)
        finally:
            del held
            if self._dropped:
                self._close_dropped()

    def write(self, file: str | Handle, data: Buffer, position: int) -> None:
        """Call `Disk.write` on a pooled file."""
        self.call(file, self._disk.write, data, position)

    def write_pieces(self, pieces: Sequence[tuple[str | Handle, Any, int]]) -> None:
        """Call `Disk.write_pieces` on pooled files, a part of the pool's descriptors at a time."""
        step = max(self._max_open // 8, 1)
        for first in range(0, len(pieces), step):
            part = pieces[first : first + step]
            held, opened = [], []
            try:
                for file, data, position in part:
                    held.append(self._held(file))
                    opened.append((held[-1].descriptor, data, position))
                self._disk.write_pieces(opened)
            finally:
                del held
                if self._dropped:
                    self._close_dropped()

    def flush(self, file: str | Handle) -> None:
        """Call `Disk.flush` on a pooled file."""
        self.call(file, self._disk.flush)

    def forget(self, file: str | Handle) -> None:
        """Close the file's descriptor after its last use; mark a `Handle` as replaced.

        Call this before the file is removed, or its path given to another file.
        """
        with self._lock:
            if isinstance(file, Handle):
                file.is_replaced = True
            self._forget_count += 1  # a thread that opens it now keeps it for this use only
            held = self._files.pop(file, None)
        self.maps.forget(file)
        del held
        self._close_dropped()

    def release(self) -> bool:
        """Close the descriptors that nobody uses now, and keep fewer of them from now on.

        Returns:
            Whether there were any.
        """
        with self._lock:
            held, self._files = self._files, OrderedDict()
            self._max_open = min(self._max_open, max(len(held) // 2, 1))
        self.maps.clear()
        were_any = len(held) > 0
        del held
        self._close_dropped()
        return were_any

    def close(self) -> None:
        """Close the descriptors that nobody uses now, and the others after their last use."""
        with self._lock:
            held, self._files = self._files, OrderedDict()
            self._keeps = False
        self.maps.clear()
        del held
        self._close_dropped()

    def _held(self, file: str | Handle) -> _OpenFile:
        held = self._files.get(file)  # without the lock: one lookup, and what it returns stays open
        if held is not None:
            held.was_used = True
            return held
        forget_count = self._forget_count
        path = file if isinstance(file, str) else _path_of(file)
        # Not under the lock: one slow open would stop all readers.
        opened = _OpenFile(self._disk.open(path, write=self._write))
        # The callback is a function of C: in a Python one, a handler's exception would be lost.
        # Nor does it close anything, so a forked process closes no descriptor by accident.
        self._descriptors[weakref.ref(opened, self._dropped.append)] = opened.descriptor
        with self._lock:
            held = self._files.get(file)
            if held is not None:
                return held  # another thread was faster
            # The path may have named the other file when it was opened.
            is_wrong = isinstance(file, Handle) and file.is_replaced
            if not is_wrong:
                # First: a signal handler may close the pool in this call, but not after it.
                if len(self._files) >= self._max_open:
                    self._make_room()
                if self._keeps and self._forget_count == forget_count:
                    self._files[file] = opened
        if is_wrong:
            del opened
            self._close_dropped()
            raise ReplacedError(path)
        return opened

    def _close_dropped(self) -> None:
        while True:
            try:
                dropped = self._dropped.popleft()
            except IndexError:  # another thread may have closed the last one
                return
            self._disk.close(self._descriptors.pop(dropped))

    def _make_room(self) -> None:
        """Drop the oldest file that was not used since the last look, if the pool is full."""
        files = self._files  # the same ones, if a signal handler closes the pool meanwhile
        if not self._is_shared:  # not in an opening: most pools of a small store have one file
            self._is_shared, self._max_open = True, kept_count(self._wanted)
            self._disk.share_descriptors(self)
            if len(files) < self._max_open:
                return
        while files:
            file, held = files.popitem(last=False)
            if not held.was_used:
                return
            held.was_used = False
            files[file] = held


def _path_of(handle: Handle) -> str:
    if handle.is_replaced:
        raise ReplacedError(handle.path)
    return handle.path


def kept_count(wanted: int) -> int:
    """Return how many descriptors a pool may keep open: ``wanted``, or fewer if they are rare.

    The process has a limit (``ulimit -n``).

    A quarter of 1,024, which is the usual limit, and a much smaller part of a lower one: sockets,
    logs and other pools need some, too.
    """
    try:
        import resource
    except ImportError:  # no such limit on this system
        return wanted
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY or limit >= 4 * max(wanted, _USUAL):
        return wanted
    return min(wanted, max(limit * limit // (4 * _USUAL), 1))
