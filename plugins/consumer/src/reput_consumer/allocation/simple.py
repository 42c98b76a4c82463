"""The strategies that count: `Average`, `Circle`, and `Configured`, which does not even that.

Source: RocketMQ ``AllocateMessageQueueAveragely``, ``…AveragelyByCircle``, ``…ByConfig``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import attrs

from reput_consumer.messagequeue import MessageQueue


@attrs.frozen
class Average:
    """Neighbouring queues for each member, the first ones one more where it does not come out."""

    name = "AVG"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        place = _place(member, members)
        if place is None:
            return []
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
        place = _place(member, members)
        return [] if place is None else list(queues[place :: len(members)])


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


def _place(member: str, members: Sequence[str]) -> int | None:
    """Return which of the sorted ``members`` a member is; None if it is not one of them."""
    place = bisect_left(members, member)
    return place if place < len(members) and members[place] == member else None
