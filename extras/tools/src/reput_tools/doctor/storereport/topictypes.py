"""Kinds of topics, by their names, as RocketMQ gives them.

Source: RocketMQ ``MixAll#RETRY_GROUP_TOPIC_PREFIX``, ``#DLQ_GROUP_TOPIC_PREFIX``,
``TopicValidator``.
"""

from __future__ import annotations

from typing import Final

from reput.record.layout import FILLER_TOPIC

__all__ = ["DEAD_LETTER_PREFIX", "RETRY_PREFIX", "kind_of"]

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
_SYSTEM: Final = frozenset(
    {
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TBW102",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        FILLER_TOPIC,
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_")


def kind_of(topic: str) -> str:
    """Return ``"retry"``, ``"dead letters"``, ``"system"`` or ``"messages"``."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead letters"
    if topic in _SYSTEM or topic.startswith(_SYSTEM_PREFIXES):
        return "system"
    return "messages"
