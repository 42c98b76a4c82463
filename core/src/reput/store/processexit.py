"""What becomes of an open store when its process ends, or forks a child.

A store that is still open when the interpreter ends is closed by `atexit`. Later, in a ``__del__``
for instance, daemon threads no longer run: closing would wait for the store's threads until all
time limits have passed, and flush no plugin. A user's own functions of `atexit` run before this
module's, which is registered when it is imported.

A forked child inherits the parent's open files, maps, and locks, perhaps held by threads that do
not exist in the child. A put would write into the parent's log, and a flush would wait without end.
So in the child every use of the store is an error, and closing it does nothing: what it holds is
released with the process. This runs between two byte codes of the code that forked, and so takes no
lock and calls nothing of the store: it gives the object another class.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from reput.errors import ForkedStoreError

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

logger = logging.getLogger(__name__)


class Closable(Protocol):
    """An open store."""

    root: str

    def close(self) -> None:
        """Flush and close it."""
        ...


_HARMLESS: Final = frozenset({"close", "closed", "_forked"})

_guarded: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()
_disks: weakref.WeakSet[Disk] = weakref.WeakSet()
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


def guard(opened: object, root: str) -> None:
    """Make ``opened``, a part of the store in ``root``, unusable in children that are forked.

    Its class must be without slots.
    """
    _guarded[opened] = root, os.getpid()


def guard_disk(disk: Disk) -> None:
    """Have ``disk``, which is bound to one store, refuse changes in children that are forked."""
    _disks.add(disk)


def is_forked(opened: object) -> bool:
    """Whether ``opened`` is guarded, and this process is a forked child of its opener."""
    return isinstance(opened, _Forked)


class _Forked:
    """Base that overrides the class of an object that a parent opened."""

    closed = True
    _forked: tuple[str, int]

    def __getattribute__(self, name: str) -> Any:
        if name in _HARMLESS or (name.startswith("__") and name.endswith("__")):
            return object.__getattribute__(self, name)
        return _Forked._refuse(self)

    def close(self, timeout: float | None = None) -> None:
        """Do nothing: the open store is the parent's."""

    def __enter__(self) -> NoReturn:
        _Forked._refuse(self)

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        root, process = self._forked
        return f"<Store {root!r} of process {process}, of no use in its forked child>"

    def _refuse(self) -> NoReturn:
        root, process = self._forked
        raise ForkedStoreError(root, process, os.getpid())


def _in_child() -> None:
    for opened, about in list(_guarded.items()):
        opened.__dict__["_forked"] = about
        kind = type(opened)
        opened.__class__ = type(f"Forked{kind.__name__}", (_Forked, kind), {})
    _guarded.clear()
    for disk in list(_disks):
        disk.freeze("a parent process opened the store, and this is its forked child")
    _disks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
