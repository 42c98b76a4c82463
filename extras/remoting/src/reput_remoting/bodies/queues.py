"""`QueueName`: one queue of one topic at one broker, as bodies name it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["QueueName", "queue_of"]


class QueueName(NamedTuple):
    """A queue; equal to the consumer plugin's tuple of the same members."""

    topic: str
    broker: str
    queue_id: int


def queue_of(found: object) -> QueueName:
    """Return the queue of an object with topic, brokerName and queueId.

    Raises:
        ValueError: a member is missing or of another type.
    """
    if isinstance(found, dict):
        members: tuple[Any, ...] = tuple(map(found.get, ("topic", "brokerName", "queueId")))
        if tuple(map(type, members)) == (str, str, int):
            return QueueName(*members)
    raise ValueError("a queue with topic, brokerName and queueId expected")
