"""Order events for ``reput demo`` to store, like the orders that RocketMQ stored before."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from reput.record import Message

_TOPICS = ("orders", "orders", "payments", "shipments", "audit")  # orders are the busiest
_EVENTS = ("created", "paid", "packed", "shipped", "delivered", "returned")
_CITIES = ("Osaka", "São Paulo", "Zürich", "深圳", "Nairobi", "Reykjavík")
_QUEUES = 4


class QueueSum(NamedTuple):
    """The number of messages of a queue, and the CRC-32 of all their bodies in order."""

    message_count: int = 0
    crc: int = 0

    def with_body(self, body: bytes) -> QueueSum:
        """Return the sum with one more message."""
        return QueueSum(self.message_count + 1, zlib.crc32(body, self.crc))


def orders(count: int, chunk: int, group: int) -> Iterator[list[list[Message]]]:
    """Yield ``count`` order events, ``group`` at a time, in lists of ``chunk``; always the same."""
    for first in range(0, count, group):
        last = min(first + group, count)
        yield [
            [_order(number) for number in range(start, min(start + chunk, last))]
            for start in range(first, last, chunk)
        ]


def add_to_sums(sums: dict[tuple[str, int], QueueSum], messages: list[Message]) -> None:
    """Add messages to the sums of their queues."""
    for message in messages:
        assert message.queue_id is not None
        key = message.topic, message.queue_id
        sums[key] = sums.get(key, QueueSum()).with_body(message.body)


def _order(number: int) -> Message:
    topic = _TOPICS[number % len(_TOPICS)]
    # Looks random and is the same in each run.
    amount = number * 2_654_435_761 % 99_991
    event = _EVENTS[amount % len(_EVENTS)]
    body = (
        f'{{"order":{number},"event":"{event}","city":"{_CITIES[amount % len(_CITIES)]}",'
        f'"amount":{amount / 100:.2f}}}'
    )
    return Message(
        topic,
        body.encode(),
        amount % _QUEUES,
        event,
        f"order-{number}",
        {"region": "eu" if amount % 2 else "us"},
    )
