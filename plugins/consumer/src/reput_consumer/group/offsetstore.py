"""Where a member keeps its offsets: at the port for a group, in a file of its own if broadcasting.

Source: RocketMQ ``RemoteBrokerOffsetStore`` and ``LocalFileOffsetStore``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.metadata.localoffsets import LocalOffsets


class OffsetStore(Protocol):
    """Reads and keeps a member's offsets."""

    def read(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue; None if it has none."""
        ...

    def save(self, offsets: Mapping[MessageQueue, int], *, durable: bool) -> None:
        """Keep offsets; with ``durable``, return when they survive a power cut."""
        ...


@attrs.frozen(eq=False)
class GroupStore:
    """Offsets that all members of a group share."""

    port: ConsumerBackend
    group: str

    def read(self, queue: MessageQueue) -> int | None:
        """See `OffsetStore.read`."""
        return self.port.committed(self.group, queue)

    def save(self, offsets: Mapping[MessageQueue, int], *, durable: bool) -> None:
        """See `OffsetStore.save`."""
        self.port.commit(self.group, offsets, durable=durable)


@attrs.define(eq=False, repr=False)
class LocalStore:
    """Offsets of one broadcasting member; each save is durable."""

    file: LocalOffsets
    _offsets: dict[MessageQueue, int] | None = None

    def read(self, queue: MessageQueue) -> int | None:
        """See `OffsetStore.read`."""
        if self._offsets is None:
            self._offsets = self.file.load()
        return self._offsets.get(queue)

    def save(self, offsets: Mapping[MessageQueue, int], *, durable: bool) -> None:
        """See `OffsetStore.save`."""
        self._offsets = {**(self._offsets or {}), **offsets}
        self.file.save(offsets)
