"""Check which names of queues may become directories."""

from __future__ import annotations

from reput.errors import MessageIllegalError
from reput.files import is_safe_name
from reput.record import check_topic
from reput.record.layout import LIGHT_QUEUE_PREFIX

__all__ = ["check_name"]

_NAME_SIZE_MAX = 255  # bytes that a file system allows for one component of a path


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
    if not is_safe_name(topic) or not topic.isprintable():
        raise MessageIllegalError("topic", topic, None, "it cannot be the name of a directory")
    size = len(topic.encode())  # printable text has no lone surrogates
    if size > _NAME_SIZE_MAX:
        raise MessageIllegalError("topic", size, _NAME_SIZE_MAX, "too many bytes")
