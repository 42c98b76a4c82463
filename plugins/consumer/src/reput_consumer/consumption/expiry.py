"""Messages that take too long: which of a queue is the next to be sent back.

Source: RocketMQ ``ProcessQueue#cleanExpiredMsg``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from reput_consumer.consumption.delivery import OPEN

if TYPE_CHECKING:
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.consumption.deliveryorder import Host
    from reput_consumer.group.assignment import Assignment

EXPIRE: Final = "expire"
"""Name of the timed work."""


def overdue(engine: Host, assignment: Assignment, now: int) -> tuple[Delivery, int] | None:
    """Return delivery and row of a queue's oldest message if it was not finished in time.

    Rows are handed out without a look at the clock, so each call notes how many were handed out by
    now. A message is found one to two times ``consume_timeout_ms`` after it was handed out, as with
    RocketMQ, which looks as seldom.

    Args:
        engine: the member, whose lock is held.
        assignment: the queue.
        now: ms.

    Returns:
        None if no message waits, or if the oldest one has time left.
    """
    deliveries = [each for each in engine.in_flight if each.assignment is assignment]
    for each in deliveries:
        each.look(now)
        engine.settle(each)
    oldest = assignment.processing.oldest
    if oldest is None:
        return None
    for each in deliveries:
        row = bisect_left(each.queue_offsets, oldest)
        if row == len(each) or each.queue_offsets[row] != oldest or each.marks[row] != OPEN:
            continue
        handed_at = each.handed_at(row)
        if handed_at is not None and now - handed_at >= engine.settings.consume_timeout_ms:
            return each, row
    return None
