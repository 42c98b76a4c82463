"""The end of a consumer that is to stop by itself: a queue offset for each queue."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from reput_consumer.group.rebalance import subscription_of

if TYPE_CHECKING:
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.messagequeue import MessageQueue

END: Final = "end"


def stop_offsets_of(
    port: ConsumerBackend, settings: MemberSettings, until: object
) -> dict[MessageQueue, int] | None:
    """Return the queue offsets up to which messages are wanted; None for no end.

    Args:
        port: answers what the queues hold now.
        settings: says which topics are read; messages that come back later than now have no part.
        until: None, "end", or a time that has passed.

    Raises:
        ValueError: another text, or a time that is still to come or has no time zone.
        TypeError: no text and no time.
    """
    if until is None:
        return None
    queues = [queue for topic in subscription_of(settings) for queue in port.queues(topic)]
    if until == END:
        return {queue: port.bounds(queue)[1] for queue in queues}
    if not isinstance(until, dt.datetime):
        if isinstance(until, str):
            raise ValueError(f'until {until[:100]!r}: "end" or a datetime expected')
        raise TypeError(f'until: "end" or a datetime expected, found {until!r:.100}')
    if until.tzinfo is None:
        raise ValueError(f"until {until}: a time with a time zone expected, as {until}+00:00")
    timestamp = int(until.timestamp() * 1000)
    if timestamp > port.clock():
        raise ValueError(f"until {until}: it is still to come; idle= ends after some silence")
    return {queue: port.offset_by_time(queue, timestamp) for queue in queues}
