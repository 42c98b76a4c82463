"""Names of topics and groups as clients give them, with a namespace or without.

Source: RocketMQ ``GrpcValidator``, ``TopicValidator``. Topics of retries and of dead letters are
topics as others are: programs read them.
"""

from __future__ import annotations

from typing import Any, Final

from reput_consumer import checked_group, checked_topic
from reput_grpc.types import Code, Refused

__all__ = ["group_of", "topic_of"]

_SYSTEM_TOPIC: Final = "rmq_sys_"
_SYSTEM_TOPICS: Final = frozenset(
    (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    )
)
_SYSTEM_GROUP: Final = "CID_RMQ_SYS_"


def topic_of(resource: Any) -> str:
    """Return the name of a topic as the store has it.

    Raises:
        Refused: it is not one that clients may use.
    """
    name = resource.name
    if name.startswith(_SYSTEM_TOPIC) or name in _SYSTEM_TOPICS:
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name[:100]!r} is a topic of the system")
    try:
        return checked_topic(_with_namespace(resource))
    except ValueError as error:
        raise Refused(Code.ILLEGAL_TOPIC, str(error)) from None


def group_of(resource: Any) -> str:
    """Return the name of a group as the store has it.

    Raises:
        Refused: it is not one that clients may use.
    """
    if resource.name.startswith(_SYSTEM_GROUP):
        text = f"group {resource.name[:100]!r} is a group of the system"
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, text)
    try:
        return checked_group(_with_namespace(resource))
    except ValueError as error:
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None


def _with_namespace(resource: Any) -> str:
    space = resource.resource_namespace
    return f"{space}%{resource.name}" if space else resource.name
