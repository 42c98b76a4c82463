"""Where a member begins to read a queue.

| no offset is stored        | a topic                    | the group's retry topic |
|----------------------------|----------------------------|-------------------------|
| ``latest``                 | its end                    | 0                       |
| ``earliest``               | 0                          | 0                       |
| a time                     | the first message from then | its end                |
| a queue offset (ours)      | that offset                | 0                       |

One difference on purpose: a queue that has come into being since the group read its topic for the
first time is read from its beginning, even with ``latest``. RocketMQ's client begins at the end of
a grown queue, and only what its broker answers for young queues makes up for that.

Source: RocketMQ ``RebalancePushImpl#computePullFromWhereWithException``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_consumer.group.membersettings import EARLIEST, LATEST, Start
from reput_consumer.names import is_retry_topic

if TYPE_CHECKING:
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.messagequeue import MessageQueue


def start_offset(
    port: ConsumerBackend, queue: MessageQueue, stored: int | None, start: Start, *, has_grown: bool
) -> int:
    """Return the queue offset at which to begin.

    Args:
        port: answers what the queue holds.
        queue: the queue.
        stored: the group's offset of the queue; None if it has none.
        start: the caller's choice.
        has_grown: whether the group reads other queues of the topic already.

    Raises:
        ReputError: it is not known now; the next round tries again.
    """
    if stored is not None:
        return stored
    if is_retry_topic(queue.topic):
        return port.bounds(queue)[1] if start.kind == "timestamp" else 0
    if start.kind == EARLIEST or (start.kind == LATEST and has_grown):
        return 0
    if start.kind == LATEST:
        return port.bounds(queue)[1]
    if start.kind == "timestamp":
        return port.offset_by_time(queue, start.number)
    return start.number
