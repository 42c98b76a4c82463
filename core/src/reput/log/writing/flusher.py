"""`GroupCommit` flushes the log: one flush for all puts that wait.

The first waiting thread flushes for all: everything appended until then goes to disk with one
``fdatasync`` per file, and all threads that wait for these bytes go on. There is no flushing thread
between a waiting put and its flush.

A failed flush is final. The system may have dropped the pages that it could not write, and a second
flush would report success without them; so the log refuses further appends, and every waiting
thread gets an error.

Source: RocketMQ ``GroupCommitService``, ``FlushRealTimeService``; the rule for failures is reput's.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Protocol

from reput.errors import PutError, ServiceNotAvailableError
from reput.files.system.heartbeat import heart
from reput.log.writing.turns import FlushTurns
from reput.log.writing.waits import WaitCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.files.mapping.mapped import MappedFile, MappedFileQueue

logger = logging.getLogger(__name__)

__all__ = ["GroupCommit"]


class FlushedLog(Protocol):
    """What `GroupCommit` needs of its log."""

    files: MappedFileQueue
    unflushed: list[MappedFile]

    @property
    def max_physical_offset(self) -> int:
        """Physical offset at which the log ends."""
        ...

    def release_flushed(self, flushed_offset: int) -> None:
        """Close files that end at or below ``flushed_offset``."""
        ...

    def refuse(self, refusal: PutError) -> None:
        """Refuse all appends from now on."""
        ...


class GroupCommit:
    """Flushes one log. Thread-safe."""

    def __init__(self, log: FlushedLog, flushed_offset: int) -> None:
        self.waits = WaitCounts()
        """How long callers of `wait` waited for bytes that were not on disk."""
        self._after_flush: Callable[[], None] | None = None
        self._log = log
        self._turns = FlushTurns(flushed_offset)
        self._failure: OSError | None = None
        """Why `_turns` ended."""
        self._told_offset = flushed_offset
        """Flushed offset of the last call of `_after_flush`."""

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        return self._turns.flushed_offset

    def call_after_flush(self, function: Callable[[], None]) -> None:
        """Have ``function`` called whenever `flushed_offset` has grown."""
        self._after_flush = function

    def cover(self, files: Sequence[MappedFile]) -> None:
        """Flush these files from the next flush on.

        Args:
            files: those with bytes that are not on disk.
        """
        if len(files) == 1 and files[0].disk.flushes_plainly:
            self._turns.use_file(files[0].descriptor, files[0].base_offset, files[0].size)
        else:
            self._turns.use_calls()

    @property
    def failure(self) -> OSError | None:
        """The error of the flush that failed; None if none has."""
        return self._failure

    def flush(self) -> None:
        """Bring everything appended so far to disk.

        Raises:
            ServiceNotAvailableError: this or an earlier flush failed.
        """
        self.wait(self._log.max_physical_offset, None)

    def wait(self, physical_offset: int, timeout: float | None) -> bool:
        """Wait until the log is on disk below ``physical_offset``, flushing if necessary.

        Returns:
            False after ``timeout`` seconds.

        Raises:
            ServiceNotAvailableError: a flush failed before these bytes were on disk.
        """
        started = time.perf_counter() if physical_offset > self._turns.flushed_offset else 0.0
        is_flushed = self._turns.wait(physical_offset, timeout, self._flush_now)
        if started:
            self.waits.add(time.perf_counter() - started)
        if is_flushed:
            self._tell()
            return True
        if self._failure is not None:
            raise self._refusal() from self._failure
        return False

    def _flush_now(self, error: int = 0) -> None:
        """Flush for all threads that wait; called on the thread whose turn it is.

        Args:
            error: number of the system's error, if flushing has failed.
        """
        if error and self._failure is None:
            self._fail(OSError(error, os.strerror(error)))
        if self._failure is None:
            self._flush_files()
        if self._failure is not None:  # perhaps of a turn that a signal handler ended before this
            self._log.refuse(self._refusal_with_cause())
            self._turns.fail()

    def _flush_files(self) -> None:
        # Read the end first: the flush may not cover bytes appended while it runs.
        log, turns = self._log, self._turns
        target = log.max_physical_offset
        files = log.unflushed
        for file in files:
            try:
                file.flush()
                if file.base_offset >= log.files.min_offset:  # else it was trimmed
                    file.require_there()
            except OSError as error:
                if file.base_offset + file.size <= turns.flushed_offset:
                    continue  # a signal handler came in between, flushed the file and closed it
                self._fail(error)
                return
        turns.reached(target)
        if files and files[0].base_offset + files[0].size <= target:
            log.release_flushed(target)
        self._tell()

    def _fail(self, error: OSError) -> None:
        self._failure = error
        logger.error("flush failed, the store takes no more puts error=%s", error)

    def _tell(self) -> None:
        """Say that more is on disk, once; also after a flush that was not made here."""
        heart.beat()
        flushed_offset = self._turns.flushed_offset
        if flushed_offset > self._told_offset and self._after_flush is not None:
            self._told_offset = flushed_offset
            self._after_flush()

    def _refusal(self) -> PutError:
        return ServiceNotAvailableError(
            "store",
            None,
            None,
            f"flushing the commit log failed: {self._failure}; what was put since offset "
            f"{self.flushed_offset} may be lost. Close the store, look after the disk, and open it",
        )

    def _refusal_with_cause(self) -> PutError:
        refusal = self._refusal()
        refusal.__cause__ = self._failure
        return refusal
