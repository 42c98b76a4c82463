"""The strategies that count: `Average`, `Circle`, and `Configured`, which does not even that.

Source: RocketMQ ``AllocateMessageQueueAveragely``, ``…AveragelyByCircle``, ``…ByConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from reput_consumer.messagequeue import MessageQueue

__all__ = ["Average", "Circle", "Configured"]


@attrs.frozen
class Average:
    """Neighbouring queues for each member, the first ones one more where it does not come out."""

    name = "AVG"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        if member not in members:
            return []
        place = members.index(member)
        size, more = divmod(len(queues), len(members))
        start = place * size + min(place, more)
        return list(queues[start : start + size + (place < more)])


@attrs.frozen
class Circle:
    """Queues dealt out one by one, like cards."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        if member not in members:
            return []
        return list(queues[members.index(member) :: len(members)])


@attrs.frozen
class Configured:
    """The queues that the member's own configuration names, independent of the other members."""

    queues: tuple[MessageQueue, ...] = attrs.field(default=(), converter=tuple)
    name = "CONFIG"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        return list(self.queues)
