"""Names of lite topics, and attributes of topics and groups that have them.

A lite topic is a light queue ``%LMQ%$PARENT$LITE``. Its messages are messages of the parent topic.

Source: RocketMQ 5.5 ``LiteUtil``, ``LiteMetadataUtil``, ``SubscriptionGroupAttributes``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reput.record.layout import LIGHT_QUEUE_PREFIX, PROPERTY_LIGHT_QUEUES

if TYPE_CHECKING:
    from reput_client.remoting import TopicSettings
    from reput_consumer import GroupSettings

LITE_PREFIX: Final = f"{LIGHT_QUEUE_PREFIX}$"
LITE_TOPIC: Final = "__LITE_TOPIC"
"""Property of a message that belongs to a lite topic."""
LISTED: Final = PROPERTY_LIGHT_QUEUES
"""Property of a message that names its light queues."""
LITE_TOPIC_MAX: Final = 64
"""Characters of a lite topic."""
QUOTA: Final = 2_000
"""Lite topics that a client may subscribe to, unless its group says otherwise."""
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def checked_lite_topic(lite_topic: str) -> str:
    """Return a lite topic whose light queue can have a name.

    Raises:
        ValueError: it is empty or too long, or has other characters than topics have.
    """
    if len(lite_topic) > LITE_TOPIC_MAX or _NAME.fullmatch(lite_topic) is None:
        text = f"1 to {LITE_TOPIC_MAX} characters of a topic's name expected"
        raise ValueError(f"lite topic {lite_topic[:100]!r}: {text}")
    return lite_topic


def parent_prefix(parent: str) -> str:
    """Return how the names of a topic's lite topics begin, as light queues."""
    return f"{LITE_PREFIX}{parent}$"


def light_queue_of(parent: str, lite_topic: str) -> str:
    """Return the light queue of a lite topic.

    Raises:
        ValueError: the lite topic cannot have one.
    """
    return parent_prefix(parent) + checked_lite_topic(lite_topic)


def is_light(name: str) -> bool:
    """Whether a name is that of a light queue of a lite topic."""
    return name.startswith(LITE_PREFIX)


def lite_topic_of(light_queue: str) -> str:
    """Return the lite topic of a light queue."""
    return light_queue.rpartition("$")[2]


def parent_of(light_queue: str) -> str:
    """Return the parent topic of a light queue of a lite topic."""
    return light_queue.removeprefix(LITE_PREFIX).partition("$")[0]


def is_lite(topic: TopicSettings | None) -> bool:
    """Whether a topic has lite topics."""
    return topic is not None and topic.attributes.get("message.type", "").upper() == "LITE"


def expiration_minutes(topic: TopicSettings) -> int:
    """Return after how many minutes without messages a broker deletes a lite topic.

    -1 stands for never.
    """
    text = topic.attributes.get("lite.topic.expiration", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def bound_topic(group: GroupSettings | None) -> str | None:
    """Return the parent topic that a group of lite topics reads; None of another group."""
    return None if group is None else group.attributes.get("lite.bind.topic")


def quota_of(group: GroupSettings | None) -> int:
    """Return how many lite topics a client of a group may subscribe to; -1 for any number."""
    text = "" if group is None else group.attributes.get("lite.sub.client.quota", "")
    if text == "-1":
        return -1
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else QUOTA


def is_exclusive(group: GroupSettings) -> bool:
    """Whether only one client of a group may read a lite topic."""
    return group.attributes.get("lite.sub.model") == "Exclusive"


def is_on(group: GroupSettings, attribute: str) -> bool:
    """Whether an attribute of a group is true."""
    return group.attributes.get(attribute, "").lower() == "true"
