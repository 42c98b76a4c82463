"""`GroupCommit` flushes the log: one flush for all puts that wait.

The first waiting thread flushes for all: everything appended until then goes to disk with one
``fdatasync`` per file, and all threads that wait for these bytes go on. There is no flushing thread
between a waiting put and its flush.

A failed flush is final. The system may have dropped the pages that it could not write, and a second
flush would report success without them; so the log refuses further appends, and every waiting
thread gets an error.

Source: RocketMQ ``GroupCommitService``, ``FlushRealTimeService``; the rule for failures is our own.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, Protocol

from reput.errors import (
    OffsetOutOfRangeError,
    PutError,
    ReputError,
    ServiceNotAvailableError,
)
from reput.files.system.flushing import heart
from reput.log.writer.flushleader import FlushLeader, FlushRequests
from reput.signalsafe import PeriodicThread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.files.mappedfile import MappedFile
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.writer.appender import Appender

logger = logging.getLogger(__name__)

WAIT_BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Seconds: a wait is counted at the first bound that is not below it."""


class FlushedLog(Protocol):
    """What `GroupCommit` needs of its log."""

    files: MappedFileQueue
    unflushed: list[MappedFile]

    def release_flushed(self, flushed_offset: int) -> None:
        """Close files that end at or below ``flushed_offset``."""
        ...

    def refuse(self, refusal: PutError) -> None:
        """Refuse all appends from now on."""
        ...


class GroupCommit:
    """Flushes one log. Thread-safe."""

    def __init__(self, log: FlushedLog, appender: Appender) -> None:
        self.waits = WaitCounts()
        """How long callers of `wait` waited for bytes that were not on disk."""
        self.failure: OSError | None = None
        """The error of the flush that failed; None if none has."""
        self._after_flush: Callable[[], None] | None = None
        self._log = log
        self._appender = appender
        self._turns = FlushLeader(appender.end_offset)
        self._reported_offset = appender.end_offset
        """Flushed offset of the last call of `_after_flush`."""
        self._rounds: PeriodicThread | None = None

    def start(self, seconds: float) -> None:
        """Flush every so many seconds, on a thread of its own, until `stop` or a failure."""
        self._rounds = PeriodicThread("reput-flush", seconds, self._flush_round)
        self._rounds.start()

    def stop(self) -> None:
        """End the thread, without flushing."""
        if self._rounds is not None:
            self._rounds.stop()

    def _flush_round(self) -> bool:
        try:
            if self.flushed_offset < self._appender.end_offset:
                self.flush()
        except ReputError as error:
            # The log refuses puts from now on, with the reason; nothing is left to flush.
            logger.error("flush thread stopped error=%s", error)
            return False
        return True

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
            self._turns.use_file(files[0].descriptor, files[0].base_offset, files[0].least_size)
        else:
            self._turns.use_calls()

    def requests(self) -> FlushRequests:
        """See `RequestedFlusher.requests`."""
        return FlushRequests(self._turns, self._flush_now)

    def request(self, requests: FlushRequests, physical_offset: int) -> None:
        """See `RequestedFlusher.request`."""
        if physical_offset > (end := self._appender.end_offset):
            raise self._beyond_end(physical_offset, end)
        requests.ask(physical_offset)

    def end_request(self, seconds: float) -> None:
        """See `RequestedFlusher.end_request`."""
        self.wait(self.flushed_offset, 0)
        self.waits.add(seconds)

    def flush(self) -> None:
        """Bring everything appended so far to disk.

        Raises:
            ServiceNotAvailableError: this or an earlier flush failed.
        """
        self.wait(self._appender.end_offset, None)

    def wait(self, physical_offset: int, timeout: float | None) -> bool:
        """Wait until the log is on disk below ``physical_offset``, flushing if necessary.

        Returns:
            False after ``timeout`` seconds.

        Raises:
            OffsetOutOfRangeError: the log ends below ``physical_offset``; nothing is flushed.
            ServiceNotAvailableError: a flush failed before these bytes were on disk.
        """
        turns = self._turns
        started = 0.0
        if physical_offset > turns.flushed_offset:
            # A flush counts all below the offset: messages put there later would count as on disk.
            end = self._appender.end_offset
            if physical_offset > end:
                raise self._beyond_end(physical_offset, end)
            started = time.perf_counter()
        try:
            is_flushed = turns.wait(physical_offset, timeout, self._flush_now)
        finally:
            # Also after a flush that was not made here, and if a signal handler's exception ended
            # this one.
            heart.beat()
            flushed_offset = turns.flushed_offset
            if flushed_offset > self._reported_offset and self._after_flush is not None:
                self._reported_offset = flushed_offset
                self._after_flush()
        if started:
            self.waits.add(time.perf_counter() - started)
        if not is_flushed and self.failure is not None:
            raise self._refusal()
        return is_flushed

    def _beyond_end(self, physical_offset: int, end: int) -> OffsetOutOfRangeError:
        reason = "nothing is written there that could be flushed"
        return OffsetOutOfRangeError(physical_offset, self._log.files.min_offset, end, reason)

    def _flush_now(self, error: int = 0) -> None:
        """Flush for all threads that wait; called on the thread whose turn it is.

        Args:
            error: number of the system's error, if flushing has failed.
        """
        if self.failure is None:
            try:
                if error:
                    raise OSError(error, os.strerror(error))
                self._flush_files()
            except OSError as failure:
                self.failure = failure
                logger.error("flush failed, the store takes no more puts error=%s", failure)
        if self.failure is not None:  # perhaps of a turn that a signal handler ended before this
            self._log.refuse(self._refusal())
            self._turns.fail()

    def _flush_files(self) -> None:
        # Read the end first: the flush may not cover bytes appended while it runs.
        log, turns, target = self._log, self._turns, self._appender.end_offset
        files = log.unflushed
        if not files and target > turns.flushed_offset:
            # By a close that a signal handler's exception ended. These bytes may never be on disk.
            raise OSError(errno.EBADF, "the log was closed before it was flushed")
        for file in files:
            try:
                file.flush()
            except OSError:
                end = file.base_offset + file.size
                # Else a signal handler came in between, flushed the file and closed it; or the file
                # was trimmed.
                if end > turns.flushed_offset and file.base_offset >= log.files.min_offset:
                    raise
        turns.reached(target)
        if files and files[0].base_offset + files[0].size <= target:
            log.release_flushed(target)

    def _refusal(self) -> PutError:
        refusal = ServiceNotAvailableError(
            "store",
            None,
            None,
            f"flushing the commit log failed: {self.failure}; messages put since offset "
            f"{self.flushed_offset} may be lost. Close the store, look after the disk, and open it",
        )
        refusal.__cause__ = self.failure
        return refusal


class WaitCounts:
    """Counts how long waits for the disk took, since a store was opened.

    Any thread may call it. Counting takes half a microsecond, without a lock, as that would cost as
    much as the rest: of two waits that end in the same moment, one may not be counted.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(WAIT_BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one wait."""
        self._counts[bisect_left(WAIT_BOUNDS, seconds)] += 1
        self._seconds += seconds

    def facts(self) -> dict[str, Any]:
        """Return the number of waits, their seconds in all, and the number by bound.

        Returns:
            ``count``, ``seconds`` and ``by_seconds``: pairs of a bound and the number of waits that
            took no longer than this bound, and longer than the one before it. The last bound is
            None, for all other waits.
        """
        counts, seconds = list(self._counts), self._seconds
        by_seconds = [list(pair) for pair in zip((*WAIT_BOUNDS, None), counts, strict=True)]
        return {"count": sum(counts), "seconds": seconds, "by_seconds": by_seconds}
