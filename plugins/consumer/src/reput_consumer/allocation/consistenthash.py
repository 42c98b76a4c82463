"""`ConsistentHash`: few queues change hands when a member comes or goes.

Source: RocketMQ ``AllocateMessageQueueConsistentHash`` and ``ConsistentHashRouter``.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
from collections.abc import Sequence

import attrs
from attrs.validators import ge, instance_of

from reput_consumer.messagequeue import MessageQueue


@attrs.frozen
class ConsistentHash:
    """Members and queues on a ring of hashes; a queue belongs to the next member from it on.

    With few queues the shares are very uneven; a member may get none.
    """

    virtual_node_count: int = attrs.field(default=10, validator=[instance_of(int), ge(1)])
    """Places of each member on the ring."""
    name = "CONSISTENT_HASH"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        if member not in members:
            return []
        places, owners = _ring(tuple(members), self.virtual_node_count)
        return [
            queue
            for queue in queues
            if owners[bisect.bisect_left(places, _hash(queue.key)) % len(places)] == member
        ]


@functools.lru_cache(maxsize=64)  # all members of one process use the same ring
def _ring(members: tuple[str, ...], node_count: int) -> tuple[list[int], list[str]]:
    ring = {_hash(f"{each}-{node}"): each for each in members for node in range(node_count)}
    places = sorted(ring)
    return places, [ring[place] for place in places]


def _hash(text: str) -> int:
    # No security: where RocketMQ places the text.
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")
