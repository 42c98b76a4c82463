"""Resets of offsets by an operator, which a broker forwards to consumers.

Brokers since 5.0 do that by what they answer to fetches instead.

Source: RocketMQ ``MQClientInstance#resetOffset``, ``ResetOffsetBody`` and ``ResetOffsetBodyForC``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reput_client.remoting import parse_body
from reput_consumer import MessageQueue


def offsets_of(body: bytes) -> dict[MessageQueue, int]:
    """Return the queue offsets in the body of a reset.

    Raises:
        BodyError: the body is not valid JSON.
    """
    parsed = parse_body(body, "reset of offsets")
    table = parsed.get("offsetTable") if isinstance(parsed, Mapping) else None
    if isinstance(table, Mapping):
        pairs: list[tuple[Any, Any]] = list(table.items())
    else:
        pairs = [_pair(each) for each in table or () if isinstance(each, Mapping)]
    return {
        MessageQueue(*queue): offset
        for queue, offset in pairs
        if isinstance(queue, tuple) and type(offset) is int and offset >= 0
    }


def _pair(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    queue = entry.get("topic"), entry.get("brokerName"), entry.get("queueId")
    is_queue = tuple(map(type, queue)) == (str, str, int)
    return (queue if is_queue else None), entry.get("offset")
