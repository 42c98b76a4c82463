"""`Route`: the brokers and queues of one topic, as a plain value.

Source: RocketMQ ``TopicRouteData``, ``MQClientInstance#topicRouteData2TopicPublishInfo`` and
``#topicRouteData2TopicSubscribeInfo``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import attrs

from reput_client.remoting import MASTER_ID, QueueData, TopicRoute
from reput_consumer import MessageQueue

_READ: Final = 4
_WRITE: Final = 2
_QUEUES_MAX: Final = 100_000
"""Most queues of one broker that are believed."""


@attrs.frozen
class BrokerQueues:
    """A topic's queues at the brokers of one name."""

    broker: str
    read_count: int
    write_count: int
    is_readable: bool = True
    is_writable: bool = True


@attrs.frozen
class Route:
    """The brokers and queues of one topic; equal if nothing has changed."""

    queues: tuple[BrokerQueues, ...]
    """Sorted by broker."""
    addresses: Mapping[str, Mapping[int, str]]
    """By broker name, addresses by id."""
    order: tuple[tuple[str, int], ...] = ()
    """Of a topic in global order: broker names and their numbers of queues, in that order."""

    @classmethod
    def of(cls, told: TopicRoute) -> Self:
        """Return the route that a name server has sent.

        Raises:
            ValueError: what it says of the order is wrong.
        """
        queues = [_broker_queues(each) for each in told.queues]
        return cls(
            tuple(sorted(queues, key=lambda found: found.broker)),
            {each.broker: each.addresses for each in told.brokers},
            _order_of(told.order or ""),
        )

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of ``topic`` may be sent to."""
        if self.order:
            return [
                MessageQueue(topic, broker, queue_id)
                for broker, count in self.order
                for queue_id in range(count)
            ]
        return [
            MessageQueue(topic, each.broker, queue_id)
            for each in self.queues
            if each.is_writable and MASTER_ID in self.addresses.get(each.broker, {})
            for queue_id in range(each.write_count)
        ]

    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that ``topic`` may be read from, sorted."""
        return sorted(
            MessageQueue(topic, each.broker, queue_id)
            for each in self.queues
            if each.is_readable
            for queue_id in range(each.read_count)
        )

    def as_template(self, queue_count: int) -> Route:
        """Return the route that a new topic gets where this one is the template's."""
        return attrs.evolve(
            self,
            order=(),
            queues=tuple(
                attrs.evolve(
                    each,
                    read_count=min(queue_count, each.read_count),
                    write_count=min(queue_count, each.read_count),
                )
                for each in self.queues
            ),
        )


def _broker_queues(told: QueueData) -> BrokerQueues:
    return BrokerQueues(
        told.broker,
        _believed(told.read_queues),
        _believed(told.write_queues),
        is_readable=bool(told.permissions & _READ),
        is_writable=bool(told.permissions & _WRITE),
    )


def _believed(queue_count: int) -> int:
    return min(max(queue_count, 0), _QUEUES_MAX)


def _order_of(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for entry in filter(None, text.split(";")):
        broker, _, count = entry.rpartition(":")
        if not (broker and count.isascii() and count.isdigit()):
            raise ValueError(f"orderTopicConf: broker:number expected, found {entry[:100]!r}")
        found.append((broker, _believed(int(count[:9]))))
    return tuple(found)
