"""`PendingResets`: offsets that an operator has set, until the group's next pull takes notice.

A client knows where it reads better than its broker, and says so with every commit. So between the
operator's request and the client's next pull, what the client commits counts for nothing, and that
pull is answered with the new offset.

Source: RocketMQ 5.x ``ConsumerOffsetManager#assignResetOffset`` and ``PullMessageProcessor``.
Different on purpose: a pull at just this offset is answered with messages, as the client already
knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_consumer import MessageQueue

__all__ = ["PendingResets"]


@attrs.define(eq=False, repr=False)
class PendingResets:
    """Offsets by group and queue, in memory. Used on the event loop."""

    _marks: dict[tuple[str, str, int], int] = attrs.field(init=False, factory=dict)
    """By group, topic and queue id."""

    def put(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Remember the offsets from which a group is to read queues."""
        for queue, offset in offsets.items():
            self._marks[group, queue.topic, queue.queue_id] = offset

    def drop(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """Forget the offsets of queues."""
        for queue in queues:
            self._marks.pop((group, queue.topic, queue.queue_id), None)

    def drop_topic(self, topic: str) -> None:
        """Forget the offsets in a topic that was deleted."""
        self._marks = {key: offset for key, offset in self._marks.items() if key[1] != topic}

    def drop_group(self, group: str) -> None:
        """Forget the offsets of a group that was deleted."""
        self._marks = {key: offset for key, offset in self._marks.items() if key[0] != group}

    def has(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether the group has not taken notice yet."""
        return (group, topic, queue_id) in self._marks

    def take(self, group: str, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """Return where a pull is to go on instead of ``queue_offset``, once; None if there."""
        found = self._marks.pop((group, topic, queue_id), None)
        return None if found == queue_offset else found
