"""One message that is handled at once by request of an operator, and changes no offset.

Source: RocketMQ ``ConsumeMessageService#consumeMessageDirectly``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

from reput_consumer.consumption.delivery import SETTLED, Delivery
from reput_consumer.group.assignment import Assignment
from reput_consumer.processqueue import ProcessQueue
from reput_consumer.selectors import Selector

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer.messagequeue import MessageQueue


NOT_AGAIN: Final = "no retry, as this message was sent to the handler by hand"


class Outcome(enum.Enum):
    """What came of it."""

    CONSUMED = "consumed"
    LATER = "later"
    """The handler wants it again."""
    FAILED = "failed"
    """The handler has raised."""


@attrs.frozen
class Handled:
    """What came of one message."""

    outcome: Outcome
    remark: str | None = None
    """What the handler has raised."""


@attrs.define(eq=False, repr=False)
class _Alone:
    """Stands for the engine: no queue is moved, and no message comes again."""

    is_watching: bool = False

    def settle(self, delivery: Delivery) -> None:
        """Do nothing: the message is in no process queue."""

    def retry(
        self,
        delivery: Delivery,
        level: int = 0,
        rows: range | None = None,
        *,
        is_logged: bool = False,
    ) -> str:
        """Note that the handler wants the message again; it does not come."""
        delivery.marks[0] = SETTLED
        return NOT_AGAIN


def delivery_of(view: MessageView, queue: MessageQueue) -> Delivery:
    """Return a delivery of one message; its outcome `SETTLED` says that it is wanted again."""
    processing: ProcessQueue[MessageView] = ProcessQueue()
    place = view.queue_offset
    assignment = Assignment(queue, Selector(), place, place, processing)
    return Delivery(_Alone(), assignment, processing, [place], [view], iter(range(1)))
