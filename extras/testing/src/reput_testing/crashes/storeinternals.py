"""The parts of an open store, for tests of the core itself, and a kill without a process.

Names in this module follow the core's modules; tests that use it need not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import StoreClosedError

if TYPE_CHECKING:
    from reput import Store


@attrs.frozen(eq=False)
class StoreInternals:
    """The parts of one store that is open for writing; any of them may change in a release."""

    loop: Any
    workers: Any
    plugin_flusher: Any
    members: Any
    trimming: Any


def store_internals(store: Store) -> StoreInternals:
    """Return the parts of ``store``, which is open for writing."""
    writer = store._parts.writing()
    members, trimming = writer.members, writer.trimming
    return StoreInternals(members.loop, members.workers, members.plugin_flusher, members, trimming)


def kill(store: Store) -> None:
    """Leave ``store`` in the state of a killed process; this process goes on.

    Nothing more is dispatched, flushed or written, no plugin is closed; files, threads and the lock
    are released, so that the store can be opened again. Written bytes stay written: for what a
    power cut takes see `PowerCuts`, for a process that really dies `KillContract`.
    """
    closer, parts = store._closer, store._parts
    closer.is_closed = True
    if parts.writer is not None:
        parts.writer.log.refuse(StoreClosedError(parts.root))
        members = parts.writer.members
        members.workers.stop()
        members.loop.stop()
        members.plugin_flusher.stop()
        members.plugin_flusher.end()
    closer.release()
