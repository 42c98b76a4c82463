"""Names that RocketMQ keeps for itself: topics and groups that no program of a user makes.

Source: RocketMQ ``TopicValidator``, ``MixAll``.
"""

from __future__ import annotations

from typing import Final

TEMPLATE_TOPIC: Final = "TBW102"
"""The topic whose settings a new topic takes over."""
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TEST_TOPIC: Final = "SELF_TEST_TOPIC"
MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Messages of delay levels wait in it."""
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Timed messages wait in it."""
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Messages of open transactions."""
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Markers of ended transactions."""
SYSTEM_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_")
"""How other topics of brokers begin."""
FORBIDDEN_TOPICS: Final = frozenset(
    {
        MOVED_TOPIC,
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        HALF_TOPIC,
        OP_TOPIC,
        SCHEDULE_TOPIC,
        TEST_TOPIC,
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
"""System topics to which brokers let no client send."""
SYSTEM_TOPICS: Final = FORBIDDEN_TOPICS | {
    TEMPLATE_TOPIC,
    BENCHMARK_TOPIC,
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
