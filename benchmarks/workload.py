"""The messages that every store gets.

8 topics of 4 queues, visited in turn: by each message or, beside a store whose batches are for one
queue, by each batch. Each message has a tag, one key, the producer's unique key of
32 characters, ``WAIT=true`` and a body of random bytes. A RocketMQ producer sends such messages,
and random bodies are the worst case for the search for record borders.

"Made beforehand" means a ring of messages that is put again and again, so that a long run needs no
more memory than a short one. "Made in the loop" means that the measured loop also builds the
message, as a producer must.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import reput

TOPIC_COUNT = 8
QUEUE_COUNT = 4
BATCH = 1000
"""Number of messages in one batch."""
_RING = 8192  # messages made beforehand
_TOPICS = tuple(f"bench-0{topic}" for topic in range(TOPIC_COUNT))
_TAGS = ("TagA", "TagB", "TagC", "TagD")


class Row(NamedTuple):
    """One message as plain values, for stores that have no message type."""

    topic: str
    queue_id: int
    tags: str
    keys: str
    unique_key: str
    body: bytes


class Workload:
    """Messages with bodies of one size; message ``i`` is the same in every store."""

    def __init__(self, body_size: int, *, run: int = 1) -> None:
        """Make the bodies.

        Args:
            body_size: bytes of each.
            run: how many messages, one after the other, are for one queue.
        """
        self.body_size = body_size
        self._run = run
        source = random.Random(1).randbytes(body_size * _RING)
        self._bodies = [
            source[start : start + body_size] for start in range(0, len(source), body_size)
        ]

    def row(self, number: int) -> Row:
        """Return message ``number`` as plain values."""
        turn = number // self._run
        return Row(
            _TOPICS[turn % TOPIC_COUNT],
            turn // TOPIC_COUNT % QUEUE_COUNT,
            _TAGS[number & 3],
            f"order-{10_000_000 + number}",
            f"7F0000010000000002016C5F{number:08X}",
            self._bodies[number % _RING],
        )

    def message(self, number: int) -> reput.Message:
        """Return message ``number``."""
        from reput.record import Message

        turn = number // self._run
        return Message(
            topic=_TOPICS[turn % TOPIC_COUNT],
            body=self._bodies[number % _RING],
            queue_id=turn // TOPIC_COUNT % QUEUE_COUNT,
            tags=_TAGS[number & 3],
            keys=f"order-{10_000_000 + number}",
            properties={"UNIQ_KEY": f"7F0000010000000002016C5F{number:08X}", "WAIT": "true"},
        )

    def columns(self, first: int, count: int) -> reput.Columns:
        """Return messages ``[first, first + count)`` as columns of Python values."""
        import reput

        numbers = range(first, first + count)
        turns = [number // self._run for number in numbers]
        return reput.Columns(
            topic=[_TOPICS[turn % TOPIC_COUNT] for turn in turns],
            body=[self._bodies[number % _RING] for number in numbers],
            queue_id=[turn // TOPIC_COUNT % QUEUE_COUNT for turn in turns],
            tags=[_TAGS[number & 3] for number in numbers],
            keys=[f"order-{10_000_000 + number}" for number in numbers],
            properties=[
                {"UNIQ_KEY": f"7F0000010000000002016C5F{number:08X}", "WAIT": "true"}
                for number in numbers
            ],
        )

    def messages(self, count: int, first: int = 0) -> Iterator[reput.Message]:
        """Yield ``count`` messages, made one by one in the loop."""
        return map(self.message, range(first, first + count))

    def ring(self, count: int) -> Iterator[reput.Message]:
        """Yield ``count`` messages made beforehand."""
        made = list(map(self.message, range(min(count, _RING))))
        return itertools.islice(itertools.cycle(made), count)

    def row_ring(self, count: int) -> Iterator[Row]:
        """Yield ``count`` rows made beforehand."""
        made = list(map(self.row, range(min(count, _RING))))
        return itertools.islice(itertools.cycle(made), count)
