"""`SentOffsets`: how far a client itself has filled queues, by the answers of brokers.

A broker enters a message in its queue a moment after it has stored and acknowledged it (RocketMQ's
``ReputMessageService``). A client that sends a message and then requests the end of the queue may
get an offset before that message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reput_client.producer.sendresult import SendResult
    from reput_consumer import MessageQueue

_QUEUES_MAX: Final = 10_000


class SentOffsets:
    """By queue, the queue offset after the last message sent. Used on the loop's thread."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self._ends: dict[MessageQueue, int] = {}

    def note(self, result: SendResult) -> None:
        """Note where a message, or the first one of a batch, was stored."""
        if len(self._ends) >= _QUEUES_MAX and result.queue not in self._ends:
            self._ends.clear()  # those of a moment ago matter, not those of long ago
        self._ends[result.queue] = result.queue_offset + 1 + result.msg_id.count(",")

    def of(self, queue: MessageQueue) -> int:
        """Return the queue offset after the last message; 0 if none was sent."""
        return self._ends.get(queue, 0)

    def forget(self, queue: MessageQueue) -> None:
        """Take back what is known of a queue: its broker shows that it is otherwise, or is right.

        A topic may have been deleted and recreated.
        """
        self._ends.pop(queue, None)
