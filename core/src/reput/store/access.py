"""`PluginStore`: the store as one of its plugins sees it, under the plugin's own name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput.errors import ServiceNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.log.writing.receipts import BatchReceipt
    from reput.plugin.answers import QueueInfo, ReadResult
    from reput.record.message import Message
    from reput.store.store import Store

__all__ = ["PluginStore", "StoreBinding"]


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
        return self._store.read_for(
            self.plugin, topic, queue_id, queue_offset, max_count, max_bytes
        )

    def queues(self) -> list[QueueInfo]:
        """See `StoreAccess.queues`."""
        return self._store.queues_for(self.plugin)

    def put_many(self, messages: Sequence[Message]) -> BatchReceipt:
        """See `StoreAccess.put_many`."""
        return self._store.put_for(self.plugin, messages)

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
