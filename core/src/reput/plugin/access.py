"""`StoreAccess`: what a plugin may do with its store beside answering hooks.

Delivering a delayed message, finishing a transaction: such plugins read queues and put messages as
a user of the store would. What each of them gets is a view of the store with the plugin's own name
on it, so that it is not asked about the messages that it puts itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from reput.errors import ServiceNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.log.writing.receipts import BatchReceipt
    from reput.plugin.answers import QueueInfo, ReadResult
    from reput.record.message import Message

__all__ = ["NoStore", "StoreAccess"]


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
