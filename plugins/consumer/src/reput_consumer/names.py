"""Names of topics and groups, and which of them are special.

Source: RocketMQ ``TopicValidator``, ``Validators`` and ``MixAll``.
"""

from __future__ import annotations

import re
from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LIGHT_PREFIX: Final = "%LMQ%"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
"""How the names of RocketMQ's own groups begin; other plugins keep their offsets."""
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_TOPIC_MAX: Final = 127
_GROUP_MAX: Final = 255 - len(RETRY_PREFIX)  # its retry topic must be storable


def retry_topic(group: str) -> str:
    """Return the topic to which failed messages of a group come back."""
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str) -> str:
    """Return the topic to which failed messages of one topic come back if a group pops.

    A light queue has none, and the text is empty: its messages come again in their places.

    Source: RocketMQ ``KeyBuilder.buildPopRetryTopicV1``.

    Raises:
        TypeError: a name is not a text.
        ValueError: a name is not valid, or both together are too long.
    """
    if topic.startswith(LIGHT_PREFIX):
        return ""
    return checked_topic(f"{RETRY_PREFIX}{checked_group(group)}_{checked_topic(topic)}")


def dead_letter_topic(group: str) -> str:
    """Return the topic of messages that a group has given up."""
    return DLQ_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Whether a topic is the retry topic of some group."""
    return topic.startswith(RETRY_PREFIX)


def checked_group(group: object) -> str:
    """Return ``group`` if a broker takes it for a group's name.

    Raises:
        TypeError: it is not a string.
        ValueError: it is empty, too long, or has other characters.
    """
    return _checked("group", group, _GROUP_MAX)


def checked_topic(topic: object) -> str:
    """Return ``topic`` if a broker takes it for a topic's name.

    Raises:
        TypeError: it is not a string.
        ValueError: it is empty, too long, or has other characters.
    """
    is_long = isinstance(topic, str) and topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _checked("topic", topic, 255 if is_long else _TOPIC_MAX)


def is_topic(topic: str) -> bool:
    """Whether a broker takes a text for a topic's name."""
    try:
        checked_topic(topic)
    except ValueError:
        return False
    return True


def _checked(what: str, name: object, longest: int) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what}: a string expected, found {str(name)[:100]!r}")
    if _NAME.fullmatch(name) is None:
        found = name[:100]
        raise ValueError(f"{what} {found!r}: letters, digits and % | _ - expected, at least one")
    if len(name) > longest:
        raise ValueError(f"{what} {name[:40]!r}…: {len(name)} characters; at most {longest}")
    return name
