"""Makes files and pages: `create_file`; ahead of need, `FileAllocator` and `Prefaulter`.

A file of a fixed size is made under a temporary name, and renamed when it is complete: a crash must
not leave a file of a wrong size, which RocketMQ refuses to open. A new file is all zeros by
contract: decoding, recovery and `MappedFileQueue` take zeros for unwritten space.

A roll must not wait until a new file is on disk, so one file is kept ready. It is made under
``<store>/reput`` and renamed into the log when it is used: the log's directory never has a file
that is not part of the log.

The first store to a page costs microseconds inside the kernel, with the interpreter lock held. So
pages are requested ahead of the writer, in a call that releases the lock: 0.20 instead of 0.42
microseconds for a record of 280 bytes. A flush of pages that were on disk before, as zeros, is
faster, too. Needs Linux 5.14 (``MADV_POPULATE_WRITE``).

Source: RocketMQ ``AllocateMappedFileService``, which makes files in place, two at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import mmap
import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from reput.errors import DiskFrozenError
from reput.files.mappedfile import FIRST_SPACE
from reput.files.system.flushing import heart
from reput.signalsafe import SafeEvent, new_lock

if TYPE_CHECKING:
    from reput.files.mappedfile import MappedFile
    from reput.files.system.disk import Disk

logger = logging.getLogger(__name__)

# <linux/mman.h>, since Linux 5.14; the mmap module has no names for them.
POPULATE_READ: Final = 22
POPULATE_WRITE: Final = 23
READY_NAME: Final = "next-file"
PREFAULT_STEP: Final = 8 << 20
"""Bytes that a writer requests at a time, at most."""
_CALL_SIZE: Final = 4 << 20


class _BackgroundThread:
    """A thread that works each time it is asked to; without one the writer works itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = new_lock()  # reentrant: a signal handler may close the store during a put
        self._asked = SafeEvent()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. The first request does not, as a put may make it."""
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread can be started
            logger.warning("nothing is made ahead thread=%s error=%s", self._name, error)
        else:
            self._thread = thread

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._stopping or not self._work():
                return

    def _work(self) -> bool:
        """Do the requested work; return whether more work can be requested."""
        raise NotImplementedError


class FileAllocator(_BackgroundThread):
    """Keeps one new file ready. Thread-safe."""

    def __init__(self, directory: str, file_size: int, disk: Disk, *, ahead: bool) -> None:
        """Make files of ``file_size`` bytes in ``directory``; ``ahead``: on a thread."""
        super().__init__("reput-allocate")
        self._path = os.path.join(directory, READY_NAME)
        self._file_size = file_size
        self._disk = disk
        self._ahead = ahead
        self._ready = False
        self._is_wanted = False

    def discard_leftovers(self) -> None:
        """Remove the file that an earlier process left; call this first."""
        if self._disk.exists(self._path):
            self._disk.remove(self._path)

    def start(self) -> None:
        """Start the thread, unless files are so small that they are made when they are needed."""
        if self._ahead:
            super().start()

    def prepare(self) -> None:
        """Begin to make a file in the background, unless one is ready or being made."""
        if not self._ready:
            self._is_wanted = True
            self._asked.set()

    def take(self) -> str:
        """Return the path of a new file, made now if none is ready; the caller renames it.

        Raises:
            OSError: the disk has no space for the file.
        """
        with self._lock:
            if not self._ready:
                self._make()
            # The thread makes no other file under this name before the next `prepare`, which
            # follows the caller's rename.
            self._is_wanted = self._ready = False
        return self._path

    def close(self) -> None:
        """Wait for the thread to end, and remove a file that was not taken."""
        self.stop()
        with self._lock:
            if self._ready:
                self._ready = False
                # A frozen disk keeps the file until the next opening.
                with contextlib.suppress(DiskFrozenError):
                    self._disk.remove(self._path)

    def _work(self) -> bool:
        # The holder of the lock makes a file, or takes it and asks for another.
        if self._lock.acquire(blocking=False):
            try:
                if self._is_wanted and not self._ready:
                    self._make()
            except OSError as error:
                # Not an error yet: the put that needs the file tries again and reports it.
                logger.warning(
                    "could not make the next file size=%d error=%s", self._file_size, error
                )
            finally:
                self._lock.release()
        return True

    def _make(self) -> None:
        # Flushed before it gets its name: after a power cut a file of the log must have its size.
        create_temporary_file(
            self._disk, self._path, self._file_size, reserve=FIRST_SPACE, flush=True
        )
        self._ready = True


class Prefaulter(_BackgroundThread):
    """Gives a mapped file space ahead of its one writer, and makes the pages present."""

    def __init__(self) -> None:
        super().__init__("reput-pages")
        # The lock is held while a map is used.
        self._wish: tuple[MappedFile, int, int] | None = None
        self._done: tuple[MappedFile | None, int] = None, 0
        """The file of the last request, and the position below which its pages were present."""
        self._works = True

    def ask(self, file: MappedFile, start: int, end: int) -> None:
        """Make bytes ``[start, end)`` of ``file`` present soon; replaces the request before.

        Pages that were made present are left as they are: they may be on disk by now, and would be
        written again.
        """
        start = self._beyond_done(file, start)
        if self._works and start < end:
            self._wish = file, start, end
            self._asked.set()

    def forget(self, file: MappedFile) -> None:
        """Drop a request for ``file``; when this returns, it can be closed."""
        with self._lock:
            if self._wish is not None and self._wish[0] is file:
                self._wish = None
            self._done = None, 0

    def _beyond_done(self, file: MappedFile, start: int) -> int:
        done_file, done_end = self._done
        return max(start, done_end) if file is done_file else start

    def _work(self) -> bool:
        while self._step():
            pass
        return self._works

    def _step(self) -> bool:
        """Make one part present; return whether more parts remain."""
        with self._lock:
            wish = self._wish
            if wish is None or self._stopping:
                return False
            file, start, end = wish
            start = self._beyond_done(file, start)  # the request may be older than the last step
            if start >= end:
                if self._wish is wish:
                    self._wish = None
                return self._works
            step_end = min(end, start + _CALL_SIZE)
            try:
                file.reserve(end)
            except OSError as error:
                # Not an error yet: the put that needs the space tries again and reports it.
                logger.warning("no space ahead file=%s error=%s", file.path, error)
                if self._wish is wish:
                    self._wish = None
                return False
            self._works = _populate(file.map, start, step_end)
            self._done = file, step_end
            if self._wish is wish:
                self._wish = (file, step_end, end) if step_end < end else None
            return self._works


def _populate(target: mmap.mmap, start: int, end: int) -> bool:
    if target.closed:
        return False
    start -= start % mmap.PAGESIZE
    # The object keeps the map from being closed, so it must be gone when this returns.
    anchor = ctypes.c_char.from_buffer(target)
    try:
        return populate(ctypes.addressof(anchor) + start, end - start, POPULATE_WRITE)
    finally:
        del anchor


def populate(address: int, size: int, kind: int) -> bool:
    """Load the pages of a map; a page that cannot be loaded does not raise a signal here.

    Args:
        address: where a page of the map begins.
        size: bytes.
        kind: `POPULATE_READ`, or `POPULATE_WRITE` for pages that will be written.

    Returns:
        Whether all pages are there; false also where the system does not know such a call.
    """
    madvise = _madvise()
    if madvise is None:
        return False
    failed = madvise(address, size, kind)
    if failed:
        logger.debug("no populate errno=%d", ctypes.get_errno())
    return not failed


@cache
def _madvise() -> Any:
    """Return the system's ``madvise``, which releases the interpreter lock; None if missing.

    It is tried once: a system that does not know the call would be asked again with each read.
    """
    try:
        function = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        held = ctypes.c_char.from_buffer(page)
        failed = function(ctypes.addressof(held), mmap.PAGESIZE, POPULATE_READ)
        del held
    return None if failed else function


def create_file(disk: Disk, path: str, size: int, *, aside: str = "") -> None:
    """Make a file of zeros, which takes no space yet. The caller flushes its bytes and its name.

    Args:
        disk: the store's.
        path: the file, in a directory that exists.
        size: bytes.
        aside: temporary path, in the same file system; next to ``path`` when left out.

    Raises:
        OSError: the file cannot be made. A full disk fails the later write that needs space.
    """
    aside = aside or f"{path}.new"
    create_temporary_file(disk, aside, size)
    disk.rename(aside, path)


def create_temporary_file(
    disk: Disk, path: str, size: int, *, reserve: int = 0, flush: bool = False
) -> None:
    """Make a temporary file of zeros, which the caller renames; remove it on failure.

    Args:
        disk: the store's.
        path: the temporary path; its directory is created if it does not exist. A file that a power
            cut left there is removed and never opened: it may also have its final name already.
        size: bytes.
        reserve: bytes from the start that get space at once, so that writing them cannot fail.
        flush: whether the file is on disk when this returns.
    """
    disk.make_directory(os.path.dirname(path))
    descriptor = disk.create_fresh(path)
    try:
        if reserve < size:
            disk.truncate(descriptor, size)
        if reserve:
            disk.allocate(descriptor, min(reserve, size))
        if flush:
            disk.flush(descriptor)
    except OSError:
        with contextlib.suppress(OSError):  # the next call removes it otherwise
            disk.remove(path)
        raise
    finally:
        disk.close(descriptor)
    heart.beat()  # a dispatch that makes ten thousand files does not hang
