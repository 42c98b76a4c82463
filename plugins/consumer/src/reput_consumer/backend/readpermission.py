"""`ReadPermissions`: whether a group may read a topic now, also if its members have joined before.

An operator stops a group by ``consumeEnable``, and all groups of a topic by its permissions. A
broker refuses the pulls of clients, which try again later. A fetch of a member in this process
waits until it may read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from reput_consumer.backend.consumerbackend import Fetched, FetchRequest, FetchStatus

if TYPE_CHECKING:
    from reput_consumer.backend.pendingfetches import PendingFetches, QueueKey
    from reput_consumer.metadata.subscriptiongroups import SubscriptionGroups
    from reput_consumer.metadata.topicsettings import Topics

logger = logging.getLogger(__name__)

_REFUSED: Final[QueueKey] = "", -1
"""What fetches wait for that were refused: other settings, in place of a message."""


@attrs.define(eq=False, repr=False)
class ReadPermissions:
    """Decides by the settings of groups and topics. Thread-safe."""

    groups: SubscriptionGroups
    topics: Topics
    arrivals: PendingFetches
    opened: Callable[[Collection[str]], None]
    """Called with topics that may be read again, whose members have no queues of them; must not
    wait."""
    _closed: set[str] = attrs.field(init=False, factory=set)
    """Topics that had no queues when members asked, as they might not be read."""
    _warned: set[tuple[str, str]] = attrs.field(init=False, factory=set)
    """Groups and topics of which it was logged that members wait."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Of both sets; taken last."""

    def __attrs_post_init__(self) -> None:
        for table in (self.groups, self.topics):
            table.listen(self._look_again)

    def _look_again(self) -> None:
        with self._lock:
            opened = {topic for topic in self._closed if self._is_readable(topic)}
            self._closed -= opened
        if opened:
            self.opened(opened)
        self.arrivals.arrive([_REFUSED])

    def is_closed(self, topic: str) -> bool:
        """Return whether a topic may not be read; if not, `opened` is called once it may."""
        if self._is_readable(topic):
            return False
        with self._lock:
            self._closed.add(topic)
        return not self._is_readable(topic)  # the settings may have changed just before

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
                self._warn(group, topic)
                return True
        refused()
        return True

    def _warn(self, group: str, topic: str) -> None:
        """Log that members wait; once, though each queue asks again at every change."""
        with self._lock:
            is_known = (group, topic) in self._warned
            self._warned.add((group, topic))
        if not is_known:
            logger.warning("members wait, they may not read group=%s topic=%s", group, topic)

    def _may_read(self, group: str, topic: str) -> bool:
        settings = self.groups.get(group)
        is_enabled = settings is None or settings.consume_enable
        may_read = is_enabled and self._is_readable(topic)
        if may_read and self._warned:
            with self._lock:
                self._warned.discard((group, topic))
        return may_read

    def _is_readable(self, topic: str) -> bool:
        settings = self.topics.get(topic)
        return settings is None or settings.is_readable
