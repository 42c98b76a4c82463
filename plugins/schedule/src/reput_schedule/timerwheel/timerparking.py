"""Put a timed message: how it is parked, and when it is refused.

Source: RocketMQ ``HookUtils#handleScheduleMessage`` and ``#transformTimerMessage``, with their
order of checks. Different on purpose: messages may be due at any time, as ``timerMaxDelaySec``
(3 days) is a limit of servers here; and a parked message keeps room for the properties that its
delivery adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from reput.errors import PropertiesSizeError, PutError
from reput.record import Message, encode_properties, encode_property_text, parse_properties
from reput.record.layout import PROPERTIES_SIZE_MAX, TRANSACTION_COMMIT, TRANSACTION_MASK
from reput.status import PutStatus
from reput_schedule.propertytext import java_long
from reput_schedule.timerwheel.layout import (
    PROPERTY_DELAY_MS,
    PROPERTY_DELAY_SEC,
    PROPERTY_DELETE_KEY,
    PROPERTY_DELIVER_MS,
    PROPERTY_OUT_MS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    TIMER_QUEUE_ID,
    TIMER_TOPIC,
)

_REQUESTS: Final = (PROPERTY_DELAY_SEC, PROPERTY_DELAY_MS, PROPERTY_DELIVER_MS)
_LATEST: Final = (1 << 62) - 1  # ms; 146 million years
_DELIVERY_ROOM: Final = 160  # bytes of TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS and TIMER_ROLL_TIMES


@attrs.define(eq=False, repr=False, slots=False)
class TimerIllegalError(PutError, ValueError):
    """An invalid delivery time, or a cancellation of a message that is due already."""

    status = PutStatus.WHEEL_TIMER_MSG_ILLEGAL


def deliver_timestamp_of(message: Message, now: int) -> int | None:
    """Return when ``message`` asks to be delivered, ms; None if it asks for no time.

    Raises:
        TimerIllegalError: the property that decides is not a number.
    """
    if message.topic == TIMER_TOPIC or not message.properties:
        return None
    if message.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
        return None
    properties = _properties(message)
    if properties.get(PROPERTY_OUT_MS) is not None:
        return None
    for name in _REQUESTS:
        text = properties.get(name)
        if text is None:
            continue
        number = java_long(text)
        if number is None:
            raise TimerIllegalError(name, text, None, "an integer of 64 bits expected")
        if name == PROPERTY_DELIVER_MS:
            return number
        return now + (number * 1000 if name == PROPERTY_DELAY_SEC else number)
    return None


def park(message: Message, deliver_timestamp: int, now: int, precision: int) -> Message:
    """Return ``message`` as it is parked; unchanged if the time is over already.

    Raises:
        TimerIllegalError: a cancellation whose time is over, or a time above the latest one.
        PropertiesSizeError: no room for the properties of a timer.
    """
    properties = _properties(message)
    if deliver_timestamp <= now:
        if properties.get(PROPERTY_DELETE_KEY) is not None:
            reason = f"nothing can be cancelled that is due at {now} or before"
            raise TimerIllegalError("deliver time", deliver_timestamp, None, reason)
        return message
    if deliver_timestamp > _LATEST:
        raise TimerIllegalError("deliver time", deliver_timestamp, _LATEST, "too late to count")
    added = {
        PROPERTY_OUT_MS: str(rounded(deliver_timestamp, precision)),
        PROPERTY_REAL_TOPIC: message.topic,
        PROPERTY_REAL_QUEUE_ID: str(message.queue_id),
    }
    if isinstance(message.properties, bytes):
        kept = {name: value for name, value in properties.items() if name not in added}
        changed: Mapping[str, str | None] | bytes = encode_properties({**kept, **added}).encode()
    else:
        changed = {**properties, **added}
    parked = attrs.evolve(message, topic=TIMER_TOPIC, queue_id=TIMER_QUEUE_ID, properties=changed)
    size, limit = len(encode_property_text(parked)), PROPERTIES_SIZE_MAX - _DELIVERY_ROOM
    if size > limit:
        reason = "bytes of properties of a timed message; its delivery adds some"
        raise PropertiesSizeError("properties", size, limit, reason)
    return parked


def rounded(deliver_timestamp: int, precision: int) -> int:
    """Return ``TIMER_OUT_MS``: the first slot that ends at ``deliver_timestamp`` or later."""
    return -(-deliver_timestamp // precision) * precision - precision


def _properties(message: Message) -> Mapping[str, str | None]:
    if isinstance(message.properties, bytes):
        return parse_properties(message.properties)
    return message.properties or {}
