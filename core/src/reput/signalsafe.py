"""Threads, events and locks that survive what a signal handler raises.

CPython runs signal handlers on the main thread, between two byte codes: when a function begins,
when a loop repeats, and when a call has returned. A handler that raises, as that of Ctrl-C does,
raises there. If it raises in `threading.Condition.__enter__`, after the inner lock was taken, the
next call that sets a `threading.Event` hangs. In a `SafeEvent` every step is one assignment or one
call of C, and between any two steps the flag is in a valid state.

A handler that closes a store may interrupt the main thread while that holds a lock. Closing waits
for the store's threads, which may need that lock. So a store's locks are made by `new_lock`, and
`locks_released` releases them meanwhile.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, cast


class SafeEvent:
    """Like `threading.Event`. Thread-safe, also if a signal handler interrupts one of its calls."""

    def __init__(self) -> None:
        self._is_set = False
        # Free while waiting threads may pass, one after the other. If it is free though the flag is
        # not set, one thread takes and keeps it.
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
            pass  # the gate was free already


class PeriodicThread:
    """A thread that calls a function every so many seconds, until it returns false or `stop`.

    The owner keeps the object before it calls `start`: where a signal handler raises in between,
    the owner can still stop the thread.
    """

    def __init__(self, name: str, seconds: float, function: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._function = function
        self._stop = SafeEvent()
        self._gone = SafeEvent()
        self._process = 0  # in which `_run` has begun
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the round under way; it need not have been started."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            with contextlib.suppress(RuntimeError):  # it does not run: not yet, or never
                self._thread.join()
            # After a `join` that an exception has ended, CPython takes the thread for ended.
            if self._process == os.getpid():
                self._gone.wait()

    def _run(self) -> None:
        self._process = os.getpid()
        try:
            while not self._stop.wait(self._seconds) and self._function():
                pass
        finally:
            self._gone.set()


def start_thread(thread: threading.Thread) -> None:
    """Start ``thread``, which is never joined, safely against exceptions of signal handlers.

    An exception in `threading.Thread.start` can leave the thread never running; this function is
    one call of C.

    Raises:
        RuntimeError: no thread can be started.
    """
    _thread.start_new_thread(_start, (thread,))


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError:
        thread.run()  # the system has one more thread, but not two


_locks: dict[weakref.ref[threading.RLock], None] = {}
"""The locks of `new_lock` that still exist, the oldest first, without those of `_hook_locks`."""
_hook_locks: dict[weakref.ref[threading.RLock], None] = {}
"""Likewise, those under which plugins' hooks are called."""


def new_lock(*, runs_hooks: bool = False) -> threading.RLock:
    """Return a reentrant lock whose holder a signal handler may interrupt to close the store.

    Code under the lock must allow that the handler, on the same thread, runs all of that code once
    more in between. It must not call `Store.wait_dispatched`, unless it is a hook of a plugin,
    which may wait for another store (``runs_hooks``).
    """
    lock = threading.RLock()
    locks = _hook_locks if runs_hooks else _locks
    # The finalizer is a function of C: an exception of a handler in a Python one would be lost.
    locks[weakref.ref(lock, locks.__delitem__)] = None
    return lock


@contextlib.contextmanager
def locks_released() -> Iterator[None]:
    """Release all locks of `new_lock` that this thread holds, during the ``with`` block.

    For code that waits for threads and may run in a signal handler: these threads may need locks of
    the interrupted code. As the locks are reentrant, that code allows the handler between any two
    of its steps, and so also other threads.
    """
    held: list[threading.RLock] = []
    # All in C, for the locks of many stores. A list of the dictionary, as it allocates before it
    # iterates; a tuple allocates meanwhile, which may run finalizers that change the dictionary.
    known = map(operator.call, list(_locks) + list(_hook_locks))
    for lock in filter(is_held_here, filter(None, known)):
        held += [lock] * _release_fully(lock)
    try:
        yield
    finally:
        _take_back(held)


# `threading.Condition` uses this method of locks, too. A call that waits for other threads, on a
# thread that holds a lock which they need, was made by a signal handler.
is_held_here: Final = cast(Any, type(threading.RLock()))._is_owned


def is_any_held_here(*own: threading.RLock) -> bool:
    """Return whether this thread holds one of ``own``, or a lock under which no hooks are called.

    A call that waits for other threads without limit is refused then: these may need the lock.
    """
    known = map(operator.call, list(_locks))
    return any(map(is_held_here, (*own, *filter(None, known))))


def _release_fully(lock: threading.RLock) -> int:
    """Release a lock as often as this thread has acquired it; return how often."""
    depth = 0
    try:
        while True:
            lock.release()
            depth += 1
    except RuntimeError:
        return depth  # this thread does not hold it (any more)


def _take_back(held: list[threading.RLock]) -> None:
    # No lock is kept while waiting for another: the thread that holds the other may need this one.
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
