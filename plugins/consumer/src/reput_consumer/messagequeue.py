"""`MessageQueue`: one queue of one topic at one broker, as groups share queues out."""

from __future__ import annotations

from typing import NamedTuple


# A tuple: its order is the order in which queues are shared out, and a consumer of 1,000 queues
# compares and hashes many.
class MessageQueue(NamedTuple):
    """A queue; sorted by topic, broker and queue id."""

    topic: str
    broker: str
    """Name of the broker, ``room@name`` for several machine rooms."""
    queue_id: int

    @property
    def key(self) -> str:
        """The text by which RocketMQ's consistent hashing places the queue."""
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker}, queueId={self.queue_id}]"
        )
