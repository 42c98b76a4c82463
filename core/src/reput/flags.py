"""`Flag` and `start_thread`: parts of `threading` that survive exceptions of signal handlers.

CPython runs signal handlers on the main thread, between two byte codes: when a function begins,
when a loop repeats, and when a call has returned (``Py_MakePendingCalls`` in its evaluation loop).
A handler that raises, as that of Ctrl-C does, raises there. `threading.Event` takes its inner lock
in `threading.Condition.__enter__`, which is Python: if the exception comes after the lock was taken
and before the ``with`` block has begun, the lock is never released, and the next call that sets the
event hangs. In a `Flag` every step is one assignment or one call of C, and between any two steps
the flag is in a valid state.
"""

from __future__ import annotations

import _thread
import threading
import time

__all__ = ["Flag", "start_thread"]


class Flag:
    """Like `threading.Event`. Thread-safe, also if a signal handler interrupts one of its calls."""

    def __init__(self) -> None:
        self._is_set = False
        # Free while waiting threads may pass, one after the other. It may be free though the flag
        # is not set: then one thread gets it, sees that, and keeps it.
        self._gate = threading.Lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._is_set

    def set(self) -> None:
        """Set the flag: all threads that wait, or will wait, go on."""
        if not self._is_set:
            self._is_set = True
            try:
                self._gate.release()
            except RuntimeError:
                pass  # the gate was free already

    def clear(self) -> None:
        """Clear the flag: threads wait from now on."""
        self._is_set = False
        try:
            self._gate.acquire(blocking=False)
        finally:
            if self._is_set:
                self._open()  # another thread has set it meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, at most ``timeout`` seconds; return whether it is set."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._is_set:
                left = -1.0 if deadline is None else max(deadline - time.monotonic(), 0)
                if not self._gate.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
                    break
        finally:
            # Let the next thread pass; also after an exception since the gate was acquired.
            if self._is_set:
                self._open()
        return self._is_set

    def _open(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:
            pass


def start_thread(thread: threading.Thread) -> None:
    """Start ``thread``, which is never joined, safely against exceptions of signal handlers.

    `threading.Thread.start` waits for the new thread by an event; an exception meanwhile can leave
    the thread never running. This function is one call of C.

    Raises:
        RuntimeError: no thread can be started.
    """
    _thread.start_new_thread(_start, (thread,))


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError:
        thread.run()  # room for one more thread, but not for two: run on this one
