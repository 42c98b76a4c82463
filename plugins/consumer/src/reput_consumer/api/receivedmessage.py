"""`ReceivedMessage`: a message that a consumer was handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput.record import unpack_body
from reput_consumer.consumption.delivery import CONSUMED, OPEN
from reput_consumer.names import is_retry_topic

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.messagequeue import MessageQueue

_RETRY_TOPIC: Final = "RETRY_TOPIC"
_COMPRESSED: Final = 1
"""The bit of ``sys_flag`` that says so."""


class ReceivedMessage:
    """A message, and what is to become of it.

    All fields of `reput.MessageView` are there, too: ``keys``, ``tags``, ``properties``, ….
    """

    # Millions of them are made: `received` fills the slots, as to call __init__ takes longer.
    __slots__ = ("_delivery", "_row", "view")

    _delivery: Delivery
    _row: int
    view: MessageView
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
        view = self.view
        flag = view.sys_flag
        return unpack_body(view.body, flag) if flag & _COMPRESSED else view.body

    @property
    def reconsume_times(self) -> int:
        """How often the message has failed before."""
        return self.view.reconsume_times + self._delivery.failed_here(self._row)

    @property
    def is_done(self) -> bool:
        """Whether `ack` or `retry` was called, or the message was sent back for taking too long."""
        return self._delivery.marks[self._row] != OPEN

    def ack(self) -> None:
        """Count the message as consumed; a second call does nothing.

        It costs little: offsets are looked at when they are saved, or when a thread waits.
        """
        delivery, marks = self._delivery, self._delivery.marks
        if marks[self._row] == OPEN:
            marks[self._row] = CONSUMED
            if delivery.engine.is_watching or OPEN not in marks:
                delivery.engine.settle(delivery)

    def retry(self, level: int = 0) -> None:
        """Have the message come again; a message that is done already stays so.

        Args:
            level: delay level, 1 for 1 s to 18 for 2 h; 0 for 3 + how often it came back; -1 to
                give it up, as a dead letter. In an ordered consumer the queue pauses instead, and
                only 0 and -1 mean something.
        """
        if not self.is_done:
            self._delivery.engine.retry(self._delivery, level, range(self._row, self._row + 1))


def received(delivery: Delivery, row: int, view: MessageView) -> ReceivedMessage:
    """Return one of the messages of a delivery."""
    message = ReceivedMessage()
    message._delivery = delivery
    message._row = row
    message.view = view
    return message


def all_received(delivery: Delivery, start: int, end: int) -> list[ReceivedMessage]:
    """Return messages of a delivery: the rows ``[start, end)``."""
    new, found = ReceivedMessage, []
    for row, view in enumerate(delivery.messages[start:end], start):
        message = new()  # as in `received`, without a call for each
        message._delivery = delivery
        message._row = row
        message.view = view
        found.append(message)
    return found
