"""Names that RocketMQ keeps for itself: topics and groups that no program of a user makes.

Source: RocketMQ ``TopicValidator``, ``MixAll``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "FORBIDDEN_TOPICS",
    "SYSTEM_TOPICS",
    "TEMPLATE_TOPIC",
    "is_system_group",
    "is_system_topic",
]

TEMPLATE_TOPIC: Final = "TBW102"
"""The topic whose settings a new topic takes over."""
FORBIDDEN_TOPICS: Final = frozenset(
    {
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
"""System topics to which brokers let no client send."""
SYSTEM_TOPICS: Final = FORBIDDEN_TOPICS | {
    TEMPLATE_TOPIC,
    "BenchmarkTest",
    "CHECKPOINT_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
}
"""System topics at every broker, without those that `is_system_topic` knows by their beginning."""
_TOPIC_PREFIX: Final = "rmq_sys_"
_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


def is_system_topic(topic: str) -> bool:
    """Whether a topic is RocketMQ's own, at any broker."""
    return topic in SYSTEM_TOPICS or topic.startswith(_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether a group is RocketMQ's own, at any broker."""
    return group.startswith(_GROUP_PREFIX)
