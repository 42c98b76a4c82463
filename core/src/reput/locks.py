"""Locks that a signal handler can release while it closes a store: `new_lock`, `locks_released`.

A signal handler interrupts the main thread between any two byte codes (see `reput.flags`), so
perhaps while that thread holds a lock. Closing a store waits for the store's threads, which may
need that lock, while the interrupted code can go on, and release it, only after the handler.
"""

from __future__ import annotations

import contextlib
import operator
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Final, cast

__all__ = ["locks_released", "new_lock"]

_locks: dict[weakref.ref[threading.RLock], None] = {}
"""All locks of `new_lock` that still exist, the oldest first."""


def new_lock() -> threading.RLock:
    """Return a reentrant lock whose holder a signal handler may interrupt to close the store.

    Code under the lock must allow that the handler, on the same thread, runs all of that code once
    more in between.
    """
    lock = threading.RLock()
    # The finalizer is a function of C: an exception of a handler in a Python one would be lost.
    _locks[weakref.ref(lock, _locks.__delitem__)] = None
    return lock


@contextlib.contextmanager
def locks_released() -> Iterator[None]:
    """Release all locks of `new_lock` that this thread holds, during the ``with`` block.

    For code that waits for threads and may run in a signal handler: the interrupted code holds
    locks that these threads may need. As the locks are reentrant, that code allows the handler in
    between any two of its steps; so it also allows other threads, if they have released the locks
    when the ``with`` block ends.
    """
    held: list[threading.RLock] = []
    # All in C, as there may be the locks of many stores, few of them held by this thread. A list of
    # the dictionary, as it allocates before it iterates; a tuple allocates meanwhile, which may run
    # the garbage collector, whose finalizers change the dictionary.
    for lock in filter(_is_held_here, filter(None, map(operator.call, list(_locks)))):
        held += [lock] * _release_fully(lock)
    try:
        yield
    finally:
        _take_back(held)


# `threading.Condition` uses this method of locks, too.
_is_held_here: Final = cast(Any, type(threading.RLock()))._is_owned


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
