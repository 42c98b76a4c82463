"""Gives a mapped file space, and makes its pages present, before they are written.

The first store to a page of a file costs microseconds inside the kernel, which has to find the
block on disk; in Python all threads wait meanwhile, as the interpreter lock is held. A thread
requests the pages ahead of the writer, in a call that releases the lock. Measured with records of
280 bytes: 0.42 microseconds a record become 0.20.

Needs Linux 5.14 (``MADV_POPULATE_WRITE``); elsewhere pages become present when they are touched.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.files.mapping.mapped import MappedFile

logger = logging.getLogger(__name__)

__all__ = ["PREFAULT_STEP", "Prefaulter"]

PREFAULT_STEP: Final = 8 << 20
"""Bytes that a writer requests at a time, at most."""
_CALL_SIZE: Final = 4 << 20
_POPULATE_WRITE: Final = 23  # <linux/mman.h>; the mmap module has no name for it


@cache
def _madvise() -> Any:
    """Return the system's ``madvise``, which releases the interpreter lock; None if missing."""
    try:
        function = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function


class Prefaulter:
    """Keeps space and pages ahead of one writer present, on a thread of its own."""

    def __init__(self) -> None:
        self._lock = new_lock()  # reentrant, for signal handlers
        """Held while a map is used."""
        self._asked = Flag()
        self._wish: tuple[MappedFile, int, int] | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._works = True

    def start(self) -> None:
        """Start the thread; not done by the first `ask`, which may be a put's."""
        self._thread = threading.Thread(target=self._run, name="reput-pages", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread can be started
            logger.warning("pages come when they are touched error=%s", error)
            self._works, self._thread = False, None

    def ask(self, file: MappedFile, start: int, end: int) -> None:
        """Make bytes ``[start, end)`` of ``file`` present soon; replaces the request before."""
        if self._works:
            self._wish = file, start, end
            self._asked.set()

    def forget(self, file: MappedFile) -> None:
        """Drop a request for ``file``; when this returns, it can be closed."""
        with self._lock:
            if self._wish is not None and self._wish[0] is file:
                self._wish = None

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
            while self._step():
                pass
            if self._stopping or not self._works:
                return

    def _step(self) -> bool:
        """Make one part present; return whether more parts remain."""
        with self._lock:
            wish = self._wish
            if wish is None or self._stopping:
                return False
            file, start, end = wish
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
            if self._wish is wish:
                self._wish = (file, step_end, end) if step_end < end else None
            return self._works


def _populate(target: mmap.mmap, start: int, end: int) -> bool:
    madvise = _madvise()
    if madvise is None or target.closed:
        return False
    start -= start % mmap.PAGESIZE
    # The object keeps the map from being closed, so it must be gone when this returns.
    anchor = ctypes.c_char.from_buffer(target)
    try:
        failed = madvise(ctypes.addressof(anchor) + start, end - start, _POPULATE_WRITE)
        if failed:
            logger.debug("no populate errno=%d", ctypes.get_errno())
        return not failed
    finally:
        del anchor
