"""Check which names of queues may become directories."""

from __future__ import annotations

from reput.errors import MessageIllegalError
from reput.files import is_safe_name
from reput.record import check_light_queue, check_topic
from reput.record.layout import LIGHT_QUEUE_PREFIX

__all__ = ["check_name"]


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
