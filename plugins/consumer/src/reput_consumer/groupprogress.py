"""`GroupProgress`: how far a group is, for people and programs.

Source: RocketMQ ``ConsumerProgressSubCommand`` and ``ConsumeStats``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput_consumer.names import is_retry_topic, retry_topic
from reput_consumer.selectors import are_mixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.memberlist.snapshot import GroupMember
    from reput_consumer.pop.receipthandles import UnackedMessage


@attrs.frozen
class QueueProgress:
    """How far a group is in one queue."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    """First queue offset that has no message yet (``brokerOffset``)."""
    offset: int
    """Of the next message that the group needs (``consumerOffset``)."""
    oldest_timestamp: int | None
    """Store time of that message, ms; None if there is none."""
    out_count: int = 0
    """Messages that a group that pops was handed and has not acknowledged."""
    out_since: int | None = None
    """When the one of them was handed out that is out for the longest, ms."""

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed (``diff``)."""
        return max(self.max_offset - max(self.offset, self.min_offset), 0)


@attrs.frozen
class GroupProgress:
    """How far a group is in all of its queues."""

    group: str
    members: tuple[GroupMember, ...]
    """By client id, as far as they are known; see `ConsumerPlugin.roster`."""
    queues: tuple[QueueProgress, ...]
    """Of the topics of which the group has offsets, and of its retry topic."""
    dead_letter_count: int
    ignored_offsets: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    """Negative offsets by topic and queue id: the group begins there like a new one."""

    @property
    def is_mixed(self) -> bool:
        """Whether members select different messages, so that messages are left out."""
        return are_mixed(self.members)

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed, retries included."""
        return sum(queue.lag for queue in self.queues)

    @property
    def retry_lag(self) -> int:
        """Of these, messages that wait in the retry topics."""
        return sum(queue.lag for queue in self.queues if is_retry_topic(queue.topic))

    @property
    def out_count(self) -> int:
        """Messages that the group was handed and has not acknowledged, if it pops."""
        return sum(queue.out_count for queue in self.queues)

    @property
    def out_since(self) -> int | None:
        """When the one of them was handed out that is out for the longest, ms."""
        return min((each.out_since for each in self.queues if each.out_since), default=None)

    @property
    def oldest_timestamp(self) -> int | None:
        """Store time of the oldest message that is not consumed, ms; None if all are."""
        found = [each.oldest_timestamp for each in self.queues]
        return min((each for each in found if each is not None), default=None)


def progress_of(
    port: EmbeddedBackend,
    group: str,
    members: tuple[GroupMember, ...],
    out: Iterable[UnackedMessage] = (),
) -> GroupProgress:
    """Return how far a group is, by the offsets that are committed."""
    found = []
    lent = {(each.topic, each.queue_id): each for each in out}
    offsets = port.offsets.of_group(group)
    for topic in {*(topic for topic, _ in offsets), retry_topic(group)}:
        for queue in port.queues(topic):
            offsets.setdefault((topic, queue.queue_id), 0)  # where the group will begin
    for (topic, queue_id), offset in sorted(offsets.items()):
        first = port.read(topic, queue_id, offset, 1)
        low, high = first.min_queue_offset, first.max_queue_offset
        if offset < low < high:
            first = port.read(topic, queue_id, low, 1)
        oldest = first.messages[0].store_timestamp if first.messages else None
        own = lent.get((topic, queue_id))
        figures = (0, None) if own is None else (own.count, own.since_timestamp)
        found.append(QueueProgress(topic, queue_id, low, high, offset, oldest, *figures))
    ignored = port.offsets.ignored_of_group(group)
    return GroupProgress(group, members, tuple(found), port.dead_letter_count(group), ignored)
