"""Make the messages that cancel a timed one, from a receipt, an offset, a handle or a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.log import Receipt
from reput.record.layout import PROPERTY_UNIQ_KEY
from reput_schedule.api.delayedmessage import timestamp_of
from reput_schedule.api.recall import cancel_messages, decode_handle, recall_messages
from reput_schedule.timerwheel.layout import PROPERTY_OUT_MS, PROPERTY_REAL_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    import datetime as dt

    from reput.log import LogView
    from reput.record import Message


def cancellation(
    log: LogView,
    precision: int,
    what: Receipt | int | str,
    unique_key: str | None,
    deliver_at: int | dt.datetime | None,
) -> list[Message]:
    """Return the cancelling messages; arguments as of `reput_schedule.SchedulePlugin.cancel`."""
    if isinstance(what, str):
        if unique_key is None and deliver_at is None:
            return recall_messages(decode_handle(what))
        if unique_key is None or deliver_at is None:
            raise ValueError("with a topic, both unique_key and deliver_at are needed")
        return cancel_messages(what, unique_key, timestamp_of(deliver_at))
    if unique_key is not None or deliver_at is not None:
        raise ValueError("unique_key and deliver_at go with a topic, not with a receipt or offset")
    offset = what.physical_offset if isinstance(what, Receipt) else what
    return _cancellation_at(log, precision, offset)


def _cancellation_at(log: LogView, precision: int, offset: int) -> list[Message]:
    view = log.read_message(offset)
    if view is None or view.topic != TIMER_TOPIC:
        found = "no message" if view is None else f"a message of {view.topic}"
        raise ValueError(
            f"physical offset {offset}: {found} stands there; only a message that waits for a time "
            "can be cancelled, not one with a delay level"
        )
    properties = view.properties
    topic, key = properties.get(PROPERTY_REAL_TOPIC), properties.get(PROPERTY_UNIQ_KEY)
    slot = properties.get(PROPERTY_OUT_MS, "")
    if topic is None or key is None or not (slot.isascii() and slot.isdigit()):
        raise ValueError(
            f"physical offset {offset}: the message has no {PROPERTY_UNIQ_KEY} by which it could "
            "be cancelled; `reput_schedule.delayed` gives it one"
        )
    # Any time of the slot would do; this one leads to the slot under every release's rounding.
    return cancel_messages(topic, key, int(slot) + precision)
