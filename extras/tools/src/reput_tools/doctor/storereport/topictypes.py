"""Kinds of topics, by their names, as RocketMQ gives them.

Source: RocketMQ ``MixAll#RETRY_GROUP_TOPIC_PREFIX``, ``#DLQ_GROUP_TOPIC_PREFIX``,
``TopicValidator``.
"""

from __future__ import annotations

from typing import Final

from reput.record.layout import FILLER_TOPIC
from reput_tools.offline import SYSTEM_PREFIXES, SYSTEM_TOPICS

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"


def kind_of(topic: str) -> str:
    """Return ``"retry"``, ``"dead letters"``, ``"system"`` or ``"messages"``."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead letters"
    if topic in (*SYSTEM_TOPICS, FILLER_TOPIC) or topic.startswith(SYSTEM_PREFIXES):
        return "system"
    return "messages"
