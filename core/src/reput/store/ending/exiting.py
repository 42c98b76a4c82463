"""Closes the stores that are still open when the interpreter ends.

Later, in a ``__del__`` for instance, daemon threads no longer run: closing would wait for the
store's threads until all time limits have passed, and flush no plugin. Functions of `atexit` run
before that. A user's own run before this module's, which is registered when it is imported.
"""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Protocol

from reput.store.ending.forked import is_forked

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
    """Have ``store`` closed when the interpreter ends, if it still exists then."""
    _open_stores.add(store)


def do_not_close_at_exit(store: Closable) -> None:
    """Undo `close_at_exit`, as ``store`` was closed."""
    _open_stores.discard(store)


@atexit.register
def _close_all() -> None:
    for store in list(_open_stores):
        if is_forked(store):
            continue  # the parent's store
        try:
            store.close()
        except Exception:
            # Go on with the other stores. The next opening recovers this one.
            logger.exception("store not closed at exit root=%s", store.root)
