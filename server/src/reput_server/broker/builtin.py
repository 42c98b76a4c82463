"""Topics that a broker has from the beginning, and names that no topic of a user may have.

Source: RocketMQ ``TopicConfigManager.init``, ``TopicValidator``.
"""

from __future__ import annotations

from typing import Final

from reput_remoting import TopicSettings

__all__ = ["TEMPLATE", "built_in_topics", "is_system_topic", "system_names"]

TEMPLATE: Final = "TBW102"
"""The topic whose settings a new topic takes over."""

_READ_WRITE: Final = 6
_INHERIT: Final = 1
_PREFIX: Final = "rmq_sys_"
_DELAY_LEVELS: Final = 18
_OF_ALL: Final = {
    TEMPLATE: (8, _READ_WRITE | _INHERIT),
    "BenchmarkTest": (1_024, _READ_WRITE),
    "OFFSET_MOVED_EVENT": (1, _READ_WRITE),
    "RMQ_SYS_TRANS_HALF_TOPIC": (1, _READ_WRITE),
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, _READ_WRITE),
    "SCHEDULE_TOPIC_XXXX": (_DELAY_LEVELS, _READ_WRITE),
    "SELF_TEST_TOPIC": (1, _READ_WRITE),
    "rmq_sys_wheel_timer": (1, _READ_WRITE),
}
"""Queues and permissions."""
_NAMES: Final = frozenset(
    {
        *_OF_ALL,
        "CHECKPOINT_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)


def is_system_topic(topic: str) -> bool:
    """Whether a name is of no user's topic, at any broker."""
    return topic in _NAMES or topic.startswith(_PREFIX)


def built_in_topics(cluster: str, broker: str) -> dict[str, TopicSettings]:
    """Return the topics of a broker that nobody makes, by name.

    Left out are topics of what is not there: consumption by pop, and replication.
    """
    found = {
        **_OF_ALL,
        f"{cluster}_REPLY_TOPIC": (1, _READ_WRITE),
        broker: (1, _READ_WRITE | _INHERIT),
        cluster: (16, _READ_WRITE | _INHERIT),
    }
    return {
        name: TopicSettings(
            topic=name, read_queues=count, write_queues=count, permissions=permissions
        )
        for name, (count, permissions) in found.items()
    }


def system_names(cluster: str, broker: str) -> frozenset[str]:
    """Return the names that no topic of a user may have."""
    return _NAMES | {
        broker,
        cluster,
        f"{cluster}_REPLY_TOPIC",
        f"rmq_sys_REVIVE_LOG_{cluster}",
        f"rmq_sys_SYNC_BROKER_MEMBER_{broker}",
    }
