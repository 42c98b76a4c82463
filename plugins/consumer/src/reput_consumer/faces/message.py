"""`ReceivedMessage`: a message that a consumer was handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.record import unpack_body
from reput_consumer.names import is_retry_topic

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer.consuming.delivery import Delivery
    from reput_consumer.consuming.engine import Engine
    from reput_consumer.queues import MessageQueue

__all__ = ["ReceivedMessage"]

_RETRY_TOPIC = "RETRY_TOPIC"


class ReceivedMessage:
    """A message, and what is to become of it.

    All fields of `reput.MessageView` are there, too: ``keys``, ``tags``, ``properties``, ….
    """

    __slots__ = ("_delivery", "_engine", "_is_done", "_row", "view")

    def __init__(self, engine: Engine, delivery: Delivery, row: int) -> None:
        """Make one of the messages of a delivery."""
        self._engine = engine
        self._delivery = delivery
        self._row = row
        self._is_done = False
        self.view: MessageView = delivery.messages[row]
        """The record."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.topic}/{self.view.queue_id} {self.view!r}>"

    @property
    def topic(self) -> str:
        """The topic that the message was put to, also when it comes from the retry topic."""
        topic = self.view.topic
        return self.view.properties.get(_RETRY_TOPIC, topic) if is_retry_topic(topic) else topic

    @property
    def queue_offset(self) -> int:
        """Its place in the queue that it was read from."""
        return self._delivery.queue_offsets[self._row]

    @property
    def queue(self) -> MessageQueue:
        """The queue that the message was read from."""
        return self._delivery.assignment.queue

    @property
    def body(self) -> bytes:
        """The body as the producer was given it, unpacked if it travels compressed."""
        return unpack_body(self.view.body, self.view.sys_flag)

    @property
    def reconsume_times(self) -> int:
        """How often the message has failed before."""
        return self._delivery.times_of(self._row)

    def _alone(self) -> Delivery:
        delivery = self._delivery
        return delivery if len(delivery) == 1 else delivery.part(self._row, self._row + 1)

    @property
    def is_done(self) -> bool:
        """Whether `ack` or `retry` was called."""
        return self._is_done

    def ack(self) -> None:
        """Count the message as consumed; a second call does nothing."""
        if not self._is_done:
            self._is_done = True
            self._engine.finish(self._alone())

    def retry(self, level: int = 0) -> None:
        """Have the message come again; a message that is done already stays so.

        Args:
            level: delay level, 1 for 1 s to 18 for 2 h; 0 for 3 + how often it came back; -1 to
                give it up, as a dead letter. In an ordered consumer the queue pauses instead, and
                only 0 and -1 mean something.
        """
        if not self._is_done:
            self._is_done = True
            self._engine.retry(self._alone(), level)
