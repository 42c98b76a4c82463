"""`QueueName`: one queue of one topic at one broker, as bodies name it."""

from __future__ import annotations

from typing import NamedTuple

from reput_tools.brokerfiles import integer_of, member_of, text_of


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
        topic, broker = (text_of(member_of(found, name)) for name in ("topic", "brokerName"))
        if topic is not None and broker is not None:
            return QueueName(topic, broker, integer_of(member_of(found, "queueId"), 32) or 0)
    raise ValueError("a queue with topic, brokerName and queueId expected")
