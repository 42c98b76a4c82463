"""Topics that a broker has from the beginning, and all names that no topic of a user may have.

Source: RocketMQ ``TopicConfigManager.init``, ``TopicValidator``.
"""

from __future__ import annotations

from typing import Final

from reput_client.remoting import SYSTEM_TOPICS, TEMPLATE_TOPIC, TopicSettings

__all__ = ["built_in_topics", "system_names"]

_READ_WRITE: Final = 6
_INHERIT: Final = 1
_DELAY_LEVELS: Final = 18
_OF_ALL: Final = {
    TEMPLATE_TOPIC: (8, _READ_WRITE | _INHERIT),
    "BenchmarkTest": (1_024, _READ_WRITE),
    "OFFSET_MOVED_EVENT": (1, _READ_WRITE),
    "RMQ_SYS_TRANS_HALF_TOPIC": (1, _READ_WRITE),
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, _READ_WRITE),
    "SCHEDULE_TOPIC_XXXX": (_DELAY_LEVELS, _READ_WRITE),
    "SELF_TEST_TOPIC": (1, _READ_WRITE),
    "rmq_sys_wheel_timer": (1, _READ_WRITE),
}
"""Queues and permissions."""


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
    return SYSTEM_TOPICS | {
        "rmq_sys_wheel_timer",
        broker,
        cluster,
        f"{cluster}_REPLY_TOPIC",
        f"rmq_sys_REVIVE_LOG_{cluster}",
        f"rmq_sys_SYNC_BROKER_MEMBER_{broker}",
    }
