"""Locks that a signal handler which closes the store can let go: `new_lock`, `locks_let_go`.

A handler runs on the main thread, between two byte codes of whatever that is doing (see
`reput.flags`), so under any lock too. Closing waits for the store's threads, which may want that
lock, and the code that holds it goes on only when the handler has returned.
"""

from __future__ import annotations

import contextlib
import operator
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Final, cast

__all__ = ["let_go_wholly", "locks_let_go", "new_lock"]

_locks: dict[weakref.ref[threading.RLock], None] = {}
"""All that `new_lock` made and somebody still has, the oldest first."""


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
        held += [lock] * let_go_wholly(lock)
    try:
        yield
    finally:
        _take_back(held)


# Also what `threading.Condition` asks a lock.
_is_held_here: Final = cast(Any, type(threading.RLock()))._is_owned


def let_go_wholly(lock: threading.RLock) -> int:
    """Release a lock as often as this thread has acquired it; how often that was."""
    depth = 0
    try:
        while True:
            lock.release()
            depth += 1
    except RuntimeError:
        return depth  # it is not, or no longer, this thread's


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
