"""`FlushLeader`: threads that wait for the disk, one of which flushes for all.

A waiting thread either flushes itself or sleeps while another thread does. It sleeps until its
bytes are on disk, or until it is its turn to flush, or until it has waited long enough.

`FlushRequests` are for an event loop, which asks for a flush and goes on. A thread serves them: it
flushes, or lets its caller flush, and reports.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from reput.engine import compiled
from reput.signalsafe import SafeEvent, new_lock

_LONGEST_WAIT: Final = 1.0  # seconds; then a waiting thread checks again


@compiled
class FlushLeader:
    """Knows below which offset the log is on disk, who flushes now, and whether a flush failed.

    Thread-safe, also if a signal handler interrupts one of its calls and makes another one. The
    compiled class does the same, and its threads sleep and wake without the interpreter lock.
    """

    __slots__ = ("_has_failed", "_lock", "_turn", "flushed_offset")

    def __init__(self, flushed_offset: int) -> None:
        self.flushed_offset = flushed_offset
        """Physical offset below which everything is on disk."""
        self._has_failed = False
        self._lock = new_lock()
        self._turn: tuple[int, SafeEvent] | None = None
        """The thread that flushes now, and the flag that it sets at the end."""

    def use_file(self, descriptor: int, base_offset: int, size: int) -> None:
        """Allow that this file is flushed here; the Python class always calls its caller's flush.

        Args:
            descriptor: of the only file with bytes that are not on disk, and whose disk is plain.
            base_offset: physical offset at which the file begins.
            size: bytes of the file.
        """

    def use_calls(self) -> None:
        """Flush no file here, from the next flush on."""

    def reached(self, flushed_offset: int) -> None:
        """Let all threads go on that wait for nothing at or above ``flushed_offset``.

        Does nothing if a signal handler has flushed further meanwhile. Called by the thread whose
        turn it is, and by no other.
        """
        if flushed_offset > self.flushed_offset:
            self.flushed_offset = flushed_offset

    def fail(self) -> None:
        """Let all threads go on, now and from now on: there are no more turns."""
        self._has_failed = True

    def wait(
        self, physical_offset: int, timeout: float | None, flush: Callable[..., object]
    ) -> bool:
        """Wait until the log is on disk below ``physical_offset``.

        Args:
            physical_offset: at most where the log ends.
            timeout: longest wait for other threads, seconds; None for any.
            flush: called if it is this thread's turn. Brings to disk what was appended before the
                call, and calls `reached` or `fail`. What it raises ends the turn and the wait. If
                flushing failed here, it is given the number of the system's error, and calls
                `fail`.

        Returns:
            False after ``timeout`` seconds, or if a flush failed before these bytes were on disk.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.flushed_offset < physical_offset:
            if self._has_failed:
                return False
            turn = self._flush_in_turn(flush)
            if self.flushed_offset >= physical_offset or self._has_failed:
                continue
            left = _LONGEST_WAIT if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            if turn is not None:
                turn.wait(min(left, _LONGEST_WAIT))
        return True

    def _flush_in_turn(self, flush: Callable[..., object]) -> SafeEvent | None:
        """Flush, unless another thread does; then return a flag that it sets when it is done."""
        me, mine, before, turn = threading.get_ident(), False, None, SafeEvent()
        try:
            with self._lock:
                current = self._turn
                # A signal handler that interrupted a flush on its thread cannot wait for it.
                if current is None or current[0] == me:
                    before, self._turn, mine = current, (me, turn), True
            if not mine:
                return None if current is None else current[1]
            flush()
            return None
        finally:
            if mine:
                self._turn = before
                turn.set()


@compiled
class FlushRequests:
    """Requests of one event loop for one log. Thread-safe; one thread serves them.

    The compiled class flushes plain files itself. Its thread needs the interpreter lock neither for
    a flush nor to report it, so the disk works while the loop appends.
    """

    __slots__ = ("_asked", "_offset")

    def __init__(self, leader: FlushLeader, flush: Callable[..., object]) -> None:
        """Take requests.

        Args:
            leader: of the log.
            flush: as for `FlushLeader.wait`. Called only with the error of a flush that failed.
        """
        self._asked = SafeEvent()
        self._offset = 0

    @property
    def is_asked(self) -> bool:
        """Whether a request waits for the thread."""
        return self._asked.is_set()

    def ask(self, physical_offset: int) -> None:
        """Ask for a flush.

        Args:
            physical_offset: below it everything is to be on disk; at most where the log ends.
        """
        self._offset = max(self._offset, physical_offset)
        self._asked.set()

    def serve(self, descriptor: int, seconds: float) -> int | None:
        """Serve requests until the caller has to flush.

        Args:
            descriptor: open, of an event counter. Each flush that is made here adds 1 to it. -1 if
                the caller makes all flushes.
            seconds: how long to wait for a request.

        Returns:
            A physical offset below which the caller has to wait for the disk; None if nothing was
            asked for in time.
        """
        if not self._asked.wait(seconds):
            return None
        self._asked.clear()
        return self._offset


class RequestedFlusher(Protocol):
    """What an event loop needs of the `GroupCommit` of a log."""

    def requests(self) -> FlushRequests:
        """Return requests for flushes, for an event loop."""
        ...

    def request(self, requests: FlushRequests, physical_offset: int) -> None:
        """Ask for a flush of everything below ``physical_offset``.

        Raises:
            OffsetOutOfRangeError: the log ends below ``physical_offset``; nothing is asked for.
        """
        ...

    def end_request(self, seconds: float) -> None:
        """Do what follows a flush that a thread of `requests` has made.

        Args:
            seconds: how long the event loop has waited for it.
        """
        ...
