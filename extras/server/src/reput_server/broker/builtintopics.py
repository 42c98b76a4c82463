"""Topics that a broker has from the beginning, and all names that no topic of a user may have.

Source: RocketMQ ``TopicConfigManager.init``, ``TopicValidator``.
"""

from __future__ import annotations

from typing import Final

from reput_client.remoting import TopicSettings
from reput_tools.offline import (
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    MOVED_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    SYSTEM_TOPICS,
    TEMPLATE_TOPIC,
    TEST_TOPIC,
    TIMER_TOPIC,
)

_READ_WRITE: Final = 6
_INHERIT: Final = 1
_DELAY_LEVELS: Final = 18
_OF_ALL: Final = {
    TEMPLATE_TOPIC: (8, _READ_WRITE | _INHERIT),
    BENCHMARK_TOPIC: (1_024, _READ_WRITE),
    MOVED_TOPIC: (1, _READ_WRITE),
    HALF_TOPIC: (1, _READ_WRITE),
    OP_TOPIC: (1, _READ_WRITE),
    SCHEDULE_TOPIC: (_DELAY_LEVELS, _READ_WRITE),
    TEST_TOPIC: (1, _READ_WRITE),
    TIMER_TOPIC: (1, _READ_WRITE),
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
        TIMER_TOPIC,
        broker,
        cluster,
        f"{cluster}_REPLY_TOPIC",
        f"rmq_sys_REVIVE_LOG_{cluster}",
        f"rmq_sys_SYNC_BROKER_MEMBER_{broker}",
    }
