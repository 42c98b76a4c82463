"""`ReadPermissions`: whether a group may read a topic now, also if its members have joined before.

An operator stops a group by ``consumeEnable``, and all groups of a topic by its permissions. A
broker refuses the pulls of clients, which try again later. A fetch of a member in this process
waits until it may read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from reput_consumer.backend.consumerbackend import Fetched, FetchRequest, FetchStatus

if TYPE_CHECKING:
    from reput_consumer.backend.pendingfetches import PendingFetches, QueueKey
    from reput_consumer.metadata.subscriptiongroups import SubscriptionGroups
    from reput_consumer.metadata.topicsettings import Topics

logger = logging.getLogger(__name__)

__all__ = ["ReadPermissions"]

_REFUSED: Final[QueueKey] = "", -1
"""What fetches wait for that were refused: other settings, in place of a message."""


@attrs.define(eq=False)
class ReadPermissions:
    """Decides by the settings of groups and topics. Thread-safe."""

    groups: SubscriptionGroups
    topics: Topics
    arrivals: PendingFetches

    def __attrs_post_init__(self) -> None:
        for table in (self.groups, self.topics):
            table.listen(lambda: self.arrivals.arrive([_REFUSED]))

    def refuses(self, request: FetchRequest, answer: Callable[[Fetched], None]) -> bool:
        """Return whether a fetch is refused; it is answered as if there were no new message.

        The answer comes when the settings have changed, or at once if the fetch may not wait.
        """
        group, topic = request.group, request.queue.topic
        if self._may_read(group, topic):
            return False
        refused = partial(answer, Fetched(FetchStatus.NO_NEW_MESSAGE, request.queue_offset))
        while request.may_wait:
            count = self.arrivals.count(_REFUSED)
            if self._may_read(group, topic):
                return False
            if self.arrivals.wait(_REFUSED, count, request.member, request.queue, refused):
                logger.warning("member waits, it may not read group=%s topic=%s", group, topic)
                return True
        refused()
        return True

    def _may_read(self, group: str, topic: str) -> bool:
        settings, of_topic = self.groups.get(group), self.topics.get(topic)
        if settings is not None and not settings.consume_enable:
            return False
        return of_topic is None or of_topic.is_readable
