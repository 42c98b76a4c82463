"""`QueueStatus`: what a member holds of one queue, for operators who look at it from within.

Source: RocketMQ ``ProcessQueueInfo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_consumer.consumption.memberengine import MemberEngine
    from reput_consumer.messagequeue import MessageQueue


@attrs.frozen
class QueueStatus:
    """One queue of a member."""

    queue: MessageQueue
    offset: int
    """What is committed with the next save: the oldest message that is not finished."""
    cached_count: int
    """Messages that were fetched and are not finished."""
    cached_size: int
    """Bytes of these."""
    oldest: int
    """The smallest queue offset of those that nobody was handed; 0 if there are none."""
    newest: int
    """The largest queue offset that was fetched; 0 if nothing is cached."""
    locked_at: int
    """When the queue was locked last, ms; 0 for one that is not read in order."""
    is_fetching: bool
    """Whether more messages are requested."""
    handled_since: int | None
    """When the oldest unfinished message was handed out, ms; None if none is being handled."""


def status_of(engine: MemberEngine) -> list[QueueStatus]:
    """Return the status of each queue that a member has, sorted by queue."""
    with engine.lock:
        since: dict[MessageQueue, int] = {}
        for delivery in engine.in_flight:
            at = delivery.handed_at(0)
            if at is not None:
                queue = delivery.assignment.queue
                since[queue] = min(at, since.get(queue, at))
        return [
            QueueStatus(
                queue,
                each.offset,
                len(each.processing),
                each.processing.size,
                each.processing.oldest or 0,
                max(each.processing.newest, 0) if len(each.processing) else 0,
                each.locked_at,
                each.is_fetching,
                since.get(queue),
            )
            for queue, each in sorted(engine.assignments.items())
        ]
