"""What `threading` has and a signal handler can break: `Flag`, `new_lock`, `start_thread`.

`Flag` is a `threading.Event` that an exception from a handler cannot leave unusable. A lock of
`new_lock` is a `threading.RLock` that a handler which closes the store can let go.

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
import contextlib
import operator
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Final, cast

__all__ = ["Flag", "locks_let_go", "new_lock", "start_thread"]

_locks: dict[weakref.ref[threading.RLock], None] = {}
"""All that `new_lock` made and somebody still has, the oldest first."""


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


def new_lock() -> threading.RLock:
    """A lock whose holder a signal handler may interrupt anywhere, to close the store.

    What is done under it must be such that the handler, on the thread that holds the lock, may do
    all of it once more in between.
    """
    lock = threading.RLock()
    # Forgotten by a call of C, as what a handler raises in a finalizer is lost.
    _locks[weakref.ref(lock, _locks.__delitem__)] = None
    return lock


@contextlib.contextmanager
def locks_let_go() -> Iterator[None]:
    """Let other threads have what this one holds of the locks of `new_lock`, for a time.

    For who waits for threads and may be a signal handler: the code that it interrupted holds locks
    that those threads may want, and goes on only when the handler has returned. Between any two
    steps of that code the handler itself could come in, as the locks are reentrant; so may others,
    if they are out again before the ``with`` block ends.
    """
    held: list[threading.RLock] = []
    # All in C, as there may be the locks of many stores, hardly any of which is this thread's; a
    # list, which has its room before it looks at the dictionary: a tuple takes it in between, and
    # the garbage collector, which that may call, forgets locks.
    for lock in filter(_is_held_here, filter(None, map(operator.call, list(_locks)))):
        while _release(lock):
            held.append(lock)
    try:
        yield
    finally:
        _take_back(held)


# Also what `threading.Condition` asks a lock.
_is_held_here: Final = cast(Any, type(threading.RLock()))._is_owned


def _release(lock: threading.RLock) -> bool:
    try:
        lock.release()
    except RuntimeError:
        return False  # it is not, or no longer, this thread's
    return True


def _take_back(held: list[threading.RLock]) -> None:
    # None is kept while another one is waited for: a thread that has that one may want this one.
    waited_for = 0
    while held:
        held[waited_for].acquire()
        taken = [waited_for]
        for at, lock in enumerate(held):
            if at == waited_for:
                continue
            if not lock.acquire(blocking=False):
                break
            taken.append(at)
        else:
            return
        for one in taken:
            held[one].release()
        waited_for = at


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
