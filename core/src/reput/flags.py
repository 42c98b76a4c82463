"""What `threading` has and an exception from a signal handler can break: `Flag`, `start_thread`.

`Flag` is a `threading.Event` that such an exception cannot leave unusable.

CPython runs signal handlers on the main thread, between two byte codes: when a function begins,
when a loop goes round, and when a call has returned (``Py_MakePendingCalls`` in its evaluation
loop). A handler that raises, as that of Ctrl-C does, raises there. `threading.Event` takes its
inner lock by way of `threading.Condition.__enter__`, which is Python: where the exception comes
after the lock was taken and before the ``with`` block has begun, the lock stays taken for ever, and
so hangs whoever sets the event next. Here every step is one assignment or one call of C, and
between any two of them the flag is as good as before the first or after the last.
"""

from __future__ import annotations

import _thread
import threading
import time

__all__ = ["Flag", "start_thread"]


class Flag:
    """Set or not; threads wait for it. Thread-safe, also for handlers on a thread that is in it."""

    def __init__(self) -> None:
        self._is_set = False
        # Free while those who wait may go through, one after the other. It may be free though the
        # flag is not set: then one comes through, sees that, and keeps it closed.
        self._gate = threading.Lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Let all go on who wait, and who will."""
        if not self._is_set:
            self._is_set = True
            try:
                self._gate.release()
            except RuntimeError:
                pass  # it was free already

    def clear(self) -> None:
        """Have those wait who come from now on."""
        self._is_set = False
        try:
            self._gate.acquire(blocking=False)
        finally:
            if self._is_set:
                self._open()  # somebody has set it in between

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it is set, at the latest after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._is_set:
                left = -1.0 if deadline is None else max(deadline - time.monotonic(), 0)
                if not self._gate.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
                    break
        finally:
            # The next one's turn; also where an exception came between the two.
            if self._is_set:
                self._open()
        return self._is_set

    def _open(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:
            pass


def start_thread(thread: threading.Thread) -> None:
    """Start ``thread``, which nobody joins, where a signal handler may come at any moment.

    `threading.Thread.start` waits for the new thread by an event, and so can be left in the middle:
    then the thread never runs. This is one call of C.

    Raises:
        RuntimeError: no thread can be started.
    """
    _thread.start_new_thread(_start, (thread,))


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError:
        thread.run()  # there was room for one more thread and not for two: this one does it
