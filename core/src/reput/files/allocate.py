"""Makes the next commit-log file before it is needed.

A roll must not wait for a gigabyte to be allocated, so a thread of its own keeps one file ready. It
is made under ``<store>/reput`` and renamed into the log when it is used: the log's directory never
holds a file that is not part of the log, whatever happens.

Source: RocketMQ ``AllocateMappedFileService``, which makes them in place, two at a time.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from reput.files.making import make_aside
from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.files.disk import Disk

logger = logging.getLogger(__name__)

__all__ = ["FileAllocator"]

READY_NAME = "next-file"


class FileAllocator:
    """Keeps one allocated file ready. Thread-safe."""

    def __init__(self, directory: str, file_size: int, disk: Disk, *, ahead: bool) -> None:
        self._directory = directory
        self._file_size = file_size
        self._disk = disk
        self._ahead = ahead
        # Reentrant: a signal handler that closes the store may come while a put makes a file.
        self._lock = new_lock()
        self._ready = False
        self._is_wanted = False
        self._asked = Flag()
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def _path(self) -> str:
        return os.path.join(self._directory, READY_NAME)

    def discard_leftovers(self) -> None:
        """Remove what an earlier process left; call before anything else."""
        if self._disk.exists(self._path):
            self._disk.remove(self._path)

    def start(self) -> None:
        """Start the thread; not in the first `prepare`, which may be that of a put."""
        if self._ahead:
            self._thread = threading.Thread(target=self._run, name="reput-allocate", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no thread can be started
                logger.warning("no file is allocated ahead error=%s", error)
                self._thread = None

    def prepare(self) -> None:
        """Begin to make a file in the background, unless one is ready or coming."""
        if not self._ready:
            self._is_wanted = True
            self._asked.set()

    def take(self) -> str:
        """Path of a file of the full size, for the caller to rename; made now if none is ready.

        Raises:
            OSError: there is no room for it.
        """
        with self._lock:
            if not self._ready:
                self._make()
            # Until it is asked for again, which is after the rename, none is made under this name.
            self._is_wanted = self._ready = False
        return self._path

    def close(self) -> None:
        """Wait for the thread and remove the file that nobody took."""
        self._stopping = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._ready:
                self._ready = False
                self._disk.remove(self._path)

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._stopping:
                return
            # Not waited for: who has the lock makes a file, or takes it and asks for another one.
            if self._lock.acquire(blocking=False):
                try:
                    if self._is_wanted and not self._ready:
                        self._make_quietly()
                finally:
                    self._lock.release()

    def _make_quietly(self) -> None:
        try:
            self._make()
        except OSError as error:
            # Not an error yet: the put that needs the file tries again and reports it.
            logger.warning("could not allocate ahead size=%d error=%s", self._file_size, error)

    def _make(self) -> None:
        # Flushed before it gets its name: a power cut must not leave one without its size in the
        # log, where another file may follow it.
        make_aside(self._disk, self._path, self._file_size, reserve=True, flush=True)
        self._ready = True
