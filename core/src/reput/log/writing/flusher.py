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
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from reput.errors import PutError, ServiceNotAvailableError
from reput.flags import Flag
from reput.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files.mapping.mapped import MappedFile, MappedFileQueue

logger = logging.getLogger(__name__)

__all__ = ["GroupCommit"]


_LONGEST_WAIT: Final = 1.0  # seconds; then a waiting thread checks again


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
        self.flushed_offset = flushed_offset
        """Physical offset below which everything is on disk."""
        self._after_flush: Callable[[], None] | None = None
        self._log = log
        self._lock = new_lock()
        self._turn: tuple[int, Flag] | None = None
        """The thread that flushes now, and the flag that it sets at the end."""
        self._failure: OSError | None = None

    def call_after_flush(self, function: Callable[[], None]) -> None:
        """Have ``function`` called whenever `flushed_offset` has grown."""
        self._after_flush = function

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
        if self.flushed_offset >= physical_offset:
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.flushed_offset < physical_offset:
            if self._failure is not None:
                raise self._refusal() from self._failure
            turn = self._flush_in_turn()
            if turn is not None and self.flushed_offset < physical_offset:
                left = _LONGEST_WAIT if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return False
                turn.wait(min(left, _LONGEST_WAIT))
        return True

    def _flush_in_turn(self) -> Flag | None:
        """Flush, unless another thread does; then return a flag that it sets when it is done."""
        me, mine, before, turn = threading.get_ident(), False, None, Flag()
        try:
            with self._lock:
                current = self._turn
                # A signal handler that interrupted a flush on its thread cannot wait for it.
                if current is None or current[0] == me:
                    before, self._turn, mine = current, (me, turn), True
            if not mine:
                return None if current is None else current[1]
            self._flush_now()
            return None
        finally:
            if mine:
                self._turn = before
                turn.set()

    def _flush_now(self) -> None:
        # Read the end first: the flush may not cover bytes appended while it runs.
        target = self._log.max_physical_offset
        files = self._log.unflushed
        try:
            for file in files:
                file.flush()
                if file.base_offset >= self._log.files.min_offset:  # else it was trimmed
                    file.require_there()
        except OSError as error:
            self._failure = error
            logger.error("flush failed, the store takes no more puts error=%s", error)
            self._log.refuse(self._refusal_with_cause())
            return
        if target > self.flushed_offset:  # a signal handler may have flushed further meanwhile
            self.flushed_offset = target
        self._log.release_flushed(target)
        if self._after_flush is not None:
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
