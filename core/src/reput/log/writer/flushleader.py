"""`FlushLeader`: threads that wait for the disk, one of which flushes for all.

A waiting thread either flushes itself or sleeps while another thread does. It sleeps until its
bytes are on disk, or until it is its turn to flush, or until it has waited long enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from reput.engine import compiled
from reput.signalsafe import SafeEvent, new_lock

__all__ = ["FlushLeader"]

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
