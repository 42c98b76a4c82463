"""`QueueChooser`: which queue a message goes to if its sender does not choose.

Source: RocketMQ ``TopicPublishInfo#selectOneMessageQueue`` and ``MQFaultStrategy``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from reput.record import ordered_queue

if TYPE_CHECKING:
    from reput_client.producer.brokerlatency import BrokerLatencies
    from reput_consumer import MessageQueue


@attrs.define(eq=False)
class QueueChooser:
    """Takes queues in turn, from a random one on. Used on one thread."""

    latencies: BrokerLatencies | None = None
    """Brokers to be passed over; None to use all."""
    _counter: int = attrs.field(factory=lambda: random.getrandbits(31))

    def choose(self, queues: Sequence[MessageQueue], failed: str | None = None) -> MessageQueue:
        """Return one of ``queues``, of another broker than the one that has just failed."""
        latencies = self.latencies
        if latencies is not None:
            for is_good in (latencies.is_available, latencies.is_reachable):
                found = self._next(queues, failed, is_good)
                if found is not None:
                    return found
        return self._next(queues, failed) or self._step(queues)

    def _next(
        self,
        queues: Sequence[MessageQueue],
        failed: str | None,
        is_good: Callable[[str], bool] = lambda broker: True,
    ) -> MessageQueue | None:
        for _ in range(len(queues)):
            found = self._step(queues)
            if found.broker != failed and is_good(found.broker):
                return found
        return None

    def _step(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        self._counter += 1
        return queues[self._counter % len(queues)]


def queue_of_key(queues: Sequence[MessageQueue], key: str | int) -> MessageQueue:
    """Return the queue of all messages with this key; see `reput.record.ordered_queue`."""
    return queues[ordered_queue(key, len(queues))]
