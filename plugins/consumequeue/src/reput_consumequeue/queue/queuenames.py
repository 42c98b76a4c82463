"""Check which names of queues may become directories."""

from __future__ import annotations

import logging
from typing import Final

import attrs

from reput.errors import MessageIllegalError
from reput.files import is_safe_name
from reput.record import check_light_queue, check_topic
from reput.record.layout import LIGHT_QUEUE_PREFIX

logger = logging.getLogger(__name__)

NAMES_MAX: Final = 1 << 16
"""Names that are remembered as good, and as many as refused."""


def check_name(topic: str) -> None:
    """Refuse a topic that cannot be the name of a directory.

    The store's own check limits topics. The names of light queues are chosen by applications, and
    RocketMQ lists all of them that hold no path separator.

    Raises:
        MessageIllegalError: the topic cannot name a queue.
    """
    if not str(topic).startswith(LIGHT_QUEUE_PREFIX):
        check_topic(topic)
        return
    check_light_queue("topic", topic)
    if not is_safe_name(topic):  # other systems have further separators
        raise MessageIllegalError("topic", topic, None, "it cannot be the name of a directory")


@attrs.define(eq=False, repr=False)
class TopicNames:
    """Remembers which topics may name directories."""

    _good: dict[str, bool] = attrs.field(init=False, factory=dict)

    def is_good(self, topic: str) -> bool:
        """Return whether a topic may name a directory; log it once if it may not."""
        good = self._good.get(topic)
        if good is None:
            try:
                check_name(topic)
                good = True
            except MessageIllegalError as error:
                logger.warning(
                    "messages of this topic are not listed topic=%r reason=%s", topic, error
                )
                good = False
            if len(self._good) >= NAMES_MAX:
                self._good.clear()
            self._good[topic] = good
        return good
