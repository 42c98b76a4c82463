"""Makes the next commit-log file before it is needed.

A roll must not wait until a new file is on disk, so a thread keeps one file ready, with space for
its first bytes. The file is made under ``<store>/reput`` and renamed into the log when it is used:
at no moment does the log's directory hold a file that is not part of the log.

Source: RocketMQ ``AllocateMappedFileService``, which makes files in place, two at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING

from reput.errors import DiskShutError
from reput.files.making import make_aside
from reput.files.mapping.mapped import FIRST_SPACE
from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

logger = logging.getLogger(__name__)

__all__ = ["FileAllocator"]

READY_NAME = "next-file"


class FileAllocator:
    """Keeps one new file ready. Thread-safe."""

    def __init__(self, directory: str, file_size: int, disk: Disk, *, ahead: bool) -> None:
        self._directory = directory
        self._file_size = file_size
        self._disk = disk
        self._ahead = ahead
        # Reentrant: a signal handler may close the store while a put makes a file.
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
        """Remove the file that an earlier process left; call this first."""
        if self._disk.exists(self._path):
            self._disk.remove(self._path)

    def start(self) -> None:
        """Start the thread; not done by the first `prepare`, which may be a put's."""
        if self._ahead:
            self._thread = threading.Thread(target=self._run, name="reput-allocate", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no thread can be started
                logger.warning("no file is made ahead error=%s", error)
                self._thread = None

    def prepare(self) -> None:
        """Begin to make a file in the background, unless one is ready or being made."""
        if not self._ready:
            self._is_wanted = True
            self._asked.set()

    def take(self) -> str:
        """Return the path of a file of full size, made now if none is ready; the caller renames it.

        Raises:
            OSError: there is no room for the file.
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
        self._stopping = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._ready:
                self._ready = False
                # Where a close was interrupted the disk may be shut: the next opening removes it.
                with contextlib.suppress(DiskShutError):
                    self._disk.remove(self._path)

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._stopping:
                return
            # No waiting: the holder of the lock makes a file, or takes it and asks for another.
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
            logger.warning("could not make the next file size=%d error=%s", self._file_size, error)

    def _make(self) -> None:
        # Flushed before it gets its name: after a power cut a file of the log must have its size,
        # as another file may follow it.
        make_aside(self._disk, self._path, self._file_size, reserve=FIRST_SPACE, flush=True)
        self._ready = True
