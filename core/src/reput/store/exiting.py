"""Closes the stores that are still open when the interpreter ends.

What closes a store later, a ``__del__`` for one, comes when daemon threads do not run any more: it
would wait for the threads of the store until every time limit is over, and flush no plugin. The
functions of `atexit` come before that. A user's own run earlier than this one, which is registered
when `reput` is imported.
"""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Protocol

from reput.store.forked import is_forked

logger = logging.getLogger(__name__)

__all__ = ["close_at_exit", "do_not_close_at_exit"]


class Closable(Protocol):
    """An open store."""

    root: str

    def close(self) -> None:
        """Flush and close it."""
        ...


_open_stores: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(store: Closable) -> None:
    """Close ``store`` when the interpreter ends, if it is there by then."""
    _open_stores.add(store)


def do_not_close_at_exit(store: Closable) -> None:
    """It was closed."""
    _open_stores.discard(store)


@atexit.register
def _close_all() -> None:
    for store in list(_open_stores):
        if is_forked(store):
            continue  # it is the parent's
        try:
            store.close()
        except Exception:
            # The others are to be closed all the same. The next opening recovers this one.
            logger.exception("store not closed at exit root=%s", store.root)
