"""`StoreAccess`: what a plugin may do with its store beside answering hooks.

Delivering a delayed message, finishing a transaction: such plugins read queues and put messages as
a user of the store would. What each of them gets is a view of the store with the plugin's own name
on it, so that it is not asked about the messages that it puts itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from reput.errors import ServiceNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.message import Message
    from reput.results import BatchReceipt, QueueInfo, ReadResult
    from reput.store import Store

__all__ = ["NoStore", "PluginStore", "StoreAccess", "StoreBinding"]


class StoreAccess(Protocol):
    """The store as a plugin may use it. Thread-safe.

    Not there yet in `reput_open` and `reput_recover`, and not to be used in `reput_dispatch` or
    `reput_flush`, which would wait for themselves.
    """

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
    ) -> ReadResult:
        """Read messages of one queue; see `reput.Store.read`. The plugin itself is not asked.

        Raises:
            NoReaderError: no other plugin reads queues.
            ServiceNotAvailableError: the store is not open yet.
            StoreClosedError: it is closed.
        """
        ...

    def queues(self) -> list[QueueInfo]:
        """Every queue that the other plugins can read, by topic and queue id.

        Raises:
            NoReaderError: no other plugin reads queues.
        """
        ...

    def put_many(self, messages: Sequence[Message]) -> BatchReceipt:
        """Store messages in their order, as the `reput_put` of the other plugins makes them.

        Does not wait for the disk, whatever the store's durability; `flushed_offset` tells when
        they are there.

        Raises:
            PutError: as for `reput.Store.put_many`; nothing was stored.
        """
        ...

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which the log is on disk."""
        ...

    @property
    def dispatched_to(self) -> int:
        """Physical offset below which nothing comes to the plugin any more.

        Not only batches move it: damage and dead letters are passed over without a call.
        """
        ...

    def wait_flushed(self, physical_offset: int, seconds: float) -> bool:
        """Return whether everything below ``physical_offset`` is on disk, waiting for it."""
        ...


class NoStore:
    """Stands for the store where there is none: everything is refused."""

    def __getattr__(self, name: str) -> object:
        raise ServiceNotAvailableError("store", None, None, f"it is not open yet, for {name!r}")


@attrs.define(eq=False)
class StoreBinding:
    """Where the plugins' views find their store, which is made after the plugins are opened."""

    store: Store | None = None


@attrs.define(eq=False)
class PluginStore:
    """One plugin's view of the store; the `StoreAccess` of its context."""

    plugin: str
    _binding: StoreBinding = attrs.field(alias="binding")

    @property
    def _store(self) -> Store:
        store = self._binding.store
        if store is None:
            raise ServiceNotAvailableError("store", None, None, "it is not open yet")
        return store

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
    ) -> ReadResult:
        """See `StoreAccess.read`."""
        return self._store.read_beside(
            self.plugin, topic, queue_id, queue_offset, max_count, max_bytes
        )

    def queues(self) -> list[QueueInfo]:
        """See `StoreAccess.queues`."""
        return self._store.queues_beside(self.plugin)

    def put_many(self, messages: Sequence[Message]) -> BatchReceipt:
        """See `StoreAccess.put_many`."""
        return self._store.put_beside(self.plugin, messages)

    @property
    def flushed_offset(self) -> int:
        """See `StoreAccess.flushed_offset`."""
        return self._store.log.flushed_offset

    @property
    def dispatched_to(self) -> int:
        """See `StoreAccess.dispatched_to`."""
        return self._store.dispatched_beside(self.plugin)

    def wait_flushed(self, physical_offset: int, seconds: float) -> bool:
        """See `StoreAccess.wait_flushed`."""
        return self._store.log.wait_flushed(physical_offset, seconds)
