"""`delayed`: set when a message is to be delivered."""

from __future__ import annotations

import datetime as dt
import operator
import uuid
from typing import Final

import attrs

from reput.record import Message
from reput.record.layout import PROPERTY_UNIQ_KEY
from reput_schedule.delaylevels.layout import PROPERTY_LEVEL
from reput_schedule.delaylevels.parkedmessages import TIMER_REQUESTS
from reput_schedule.propertytext import entries_of

_DELIVER_MS: Final = "TIMER_DELIVER_MS"
_DELAY_MS: Final = "TIMER_DELAY_MS"


def delayed(
    message: Message,
    *,
    level: int | None = None,
    delay_ms: int | dt.timedelta | None = None,
    deliver_at: int | dt.datetime | None = None,
) -> Message:
    """Return a copy of ``message`` that is delivered later; give one of the three requests.

    With a time, the copy has a new key (``UNIQ_KEY``), by which it can be cancelled.

    Args:
        message: what to deliver, to its topic and queue.
        level: a delay level of the store, 1 or more (1s 5s 10s 30s 1m 2m … 2h). A store treats a
            level above its last one as the last one, like RocketMQ.
        delay_ms: time to wait after the put, ms or a `timedelta`; 0 or less means at once.
        deliver_at: delivery time, ms since the epoch or a `datetime` with a zone; a time that is
            over means at once.

    Raises:
        TypeError: a level or a time of another type.
        ValueError: none or several of the three; a time without a zone; a level below 1.
    """
    given = {"level": level, "delay_ms": delay_ms, "deliver_at": deliver_at}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        found = ", ".join(chosen) or "none"
        raise ValueError(f"one of level, delay_ms and deliver_at is expected, not {found}")
    # An older request is dropped entirely: a copy of a delayed message may be delayed again.
    properties = {
        name: value
        for name, value in _properties(message).items()
        if name not in (PROPERTY_LEVEL, *TIMER_REQUESTS)
        and not name.startswith(("TIMER_OUT", "TIMER_ENQUEUE", "TIMER_DEQUEUE", "TIMER_ROLL"))
    }
    if level is not None:
        level = _whole("level", level, "an integer")
        if level < 1:
            raise ValueError(f"level {level}; the first one is 1")
        properties[PROPERTY_LEVEL] = str(level)
        return attrs.evolve(message, properties=properties)
    if not properties.get(PROPERTY_UNIQ_KEY):
        properties[PROPERTY_UNIQ_KEY] = uuid.uuid4().hex.upper()
    if delay_ms is not None:
        properties[_DELAY_MS] = str(_milliseconds(delay_ms))
    else:
        assert deliver_at is not None
        properties[_DELIVER_MS] = str(timestamp_of(deliver_at))
    return attrs.evolve(message, properties=properties)


def timestamp_of(moment: int | dt.datetime) -> int:
    """Return ms since the epoch."""
    if not isinstance(moment, dt.datetime):
        return _whole("deliver_at", moment, "ms since the epoch or a datetime")
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no zone; say datetime(…, tzinfo=…), or ms")
    return round(moment.timestamp() * 1_000)


def _milliseconds(duration: int | dt.timedelta) -> int:
    if not isinstance(duration, dt.timedelta):
        return _whole("delay_ms", duration, "ms or a timedelta")
    return duration // dt.timedelta(milliseconds=1)


def _whole(argument: str, value: object, expected: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        found = f"{type(value).__name__} {str(value)[:100]!r}"
        raise TypeError(f"{argument}: {expected} expected, found {found}")
    return operator.index(value)


def _properties(message: Message) -> dict[str, str | None]:
    given = message.properties
    if isinstance(given, bytes):
        return dict(entries_of(message))
    return dict(given or {})
