"""Names of topics and groups as clients give them, with a namespace or without.

Source: RocketMQ ``GrpcValidator``. Topics of retries and of dead letters are
topics as others are: programs read them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from reput_consumer import checked_group, checked_topic
from reput_server.grpc.messagetypes import Code, Refused
from reput_tools.offline import is_system_group, is_system_topic


def topic_of(resource: Any) -> str:
    """Return the name of a topic as the store has it.

    Raises:
        Refused: it is not one that clients may use.
    """
    return _topic(resource.resource_namespace, resource.name)


@lru_cache(maxsize=4_096)  # each call names one; refused names are not kept
def _topic(space: str, name: str) -> str:
    if is_system_topic(name):
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name[:100]!r} is a topic of the system")
    try:
        return checked_topic(_with_namespace(space, name))
    except ValueError as error:
        raise Refused(Code.ILLEGAL_TOPIC, str(error)) from None


def group_of(resource: Any) -> str:
    """Return the name of a group as the store has it.

    Raises:
        Refused: it is not one that clients may use.
    """
    return _group(resource.resource_namespace, resource.name)


@lru_cache(maxsize=4_096)
def _group(space: str, name: str) -> str:
    if is_system_group(name):
        text = f"group {name[:100]!r} is a group of the system"
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, text)
    try:
        return checked_group(_with_namespace(space, name))
    except ValueError as error:
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None


def _with_namespace(space: str, name: str) -> str:
    return f"{space}%{name}" if space else name
