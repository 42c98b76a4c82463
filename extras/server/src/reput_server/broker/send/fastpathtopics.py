"""`FastPathTopics`: topics that need no check of a send, until something changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput_client.remoting import Send
from reput_server.broker.send.sendchecks import checked_destination
from reput_server.broker.topictable import RETRY_PREFIX
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext


@attrs.define(eq=False, repr=False)
class FastPathTopics:
    """How many queues topics have. Used on the event loop."""

    context: BrokerContext
    _known: dict[str, tuple[object, int, int]] = attrs.field(init=False, factory=dict)
    """By topic: its settings and the broker's permissions when it was checked, and how many queues
    it has; 0 if it is shut."""

    def queue_count(self, topic: str) -> int:
        """Return how many queues of a topic can be sent to without any question."""
        # The table hands out another object once the settings have changed.
        settings = self.context.plugin.topics.get(topic)
        permissions = self.context.options.permissions
        known = self._known.get(topic)
        if known is not None and known[0] is settings and known[1] == permissions:
            return known[2]
        if settings is None:
            self._known.pop(topic, None)  # so that names that peers make up take no memory
            return 0
        count = self._checked(topic)
        self._known[topic] = settings, permissions, count
        return count

    def _checked(self, topic: str) -> int:
        context = self.context
        found = context.topics.known(topic)
        if found is None or topic.startswith(RETRY_PREFIX) or not context.is_writable:
            return 0
        # No other property of a send changes its destination.
        send = Send(
            producer_group="", topic=topic, queue_id=0, sys_flag=0, born_timestamp=0, flag=0
        )
        try:
            checked_destination(context, send)
        except Refusal:
            return 0
        return max(found.read_queues, found.write_queues)
