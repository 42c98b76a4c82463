"""Restore a parked message to what is delivered: the same, under its real topic and queue.

Source: RocketMQ ``ScheduleMessageService#messageTimeup``. As there, the property text stays as it
was parked, ``DELAY``, ``REAL_TOPIC`` and ``REAL_QID`` included: they mean nothing outside of the
schedule topic, and identify the delivered copy.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from reput.record import Host, Message, MessageView, host_of, java_text
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HEADER,
    NAME_END,
    PROPERTY_CRC,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    PROPERTY_LIGHT_QUEUES,
    STORE_HOST_V6,
    VALUE_END,
    host_size,
)
from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC
from reput_schedule.delaylevels.parkedmessages import (
    HALF_TOPICS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
)
from reput_schedule.propertytext import entry_value

_TOPIC_ENTRY: Final = PROPERTY_REAL_TOPIC.encode() + b"\x01"
_QUEUE_ENTRY: Final = PROPERTY_REAL_QUEUE_ID.encode() + b"\x01"
_HEAD: Final = HEADER.unpack_from
_CRC: Final = PROPERTY_CRC.encode() + b"\x01"
_LIGHT: Final = PROPERTY_LIGHT_QUEUE_OFFSETS.encode() + b"\x01"
_LIGHT_NAMES: Final = PROPERTY_LIGHT_QUEUES.encode() + b"\x01"
_NAME_END: Final = bytes([NAME_END])
_END: Final = bytes([VALUE_END])
_EMPTY: Final = _NAME_END + _END
_HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6
_QUEUE_ID_MAX: Final = (1 << 31) - 1
_NEVER: Final = (SCHEDULE_TOPIC, *HALF_TOPICS)


def restored(view: MessageView) -> Message | None:
    """Return the message to deliver; None if its properties name no place to deliver it to.

    Nor are the half topics, as a half message would begin an unknown transaction; nor is
    the schedule topic itself.
    """
    record = view.record
    body_start, _, _, text_start = view.places()
    text = record[text_start:]
    place = _place(entry_value(text, _TOPIC_ENTRY), entry_value(text, _QUEUE_ENTRY))
    if place is None:
        return None
    sys_flag = view.sys_flag
    if sys_flag & _HOST_BITS:
        return _restored_with_ipv6(view, place, text)
    # All fields in one call: one by one they would take a third of the time of a delivery.
    _, _, _, _, flag, _, _, _, born, host, _, _, reconsume_times, _, body_size = _HEAD(record)
    return Message(
        place[0],
        record[body_start : body_start + max(body_size, 0)],
        place[1],
        None,
        None,
        _filled(text),
        flag,
        sys_flag,
        born,
        _host(host),
        reconsume_times,
    )


def _restored_with_ipv6(view: MessageView, place: tuple[str, int], text: bytes) -> Message:
    host_end = BORN_HOST_POSITION + host_size(view.sys_flag, BORN_HOST_V6)
    return Message(
        place[0],
        view.body,
        place[1],
        properties=_filled(text),
        flag=view.flag,
        sys_flag=view.sys_flag & ~_HOST_BITS,
        born_timestamp=view.born_timestamp,
        born_host=_host(view.record[BORN_HOST_POSITION:host_end]),
        reconsume_times=view.reconsume_times,
    )


def _filled(text: bytes) -> bytes:
    """Return a property text without entries that have no value; no reader returns those."""
    if _EMPTY not in text:
        return text
    entries = (entry.partition(_NAME_END) for entry in text.split(_END))
    return b"".join(
        name + separator + value + _END for name, separator, value in entries if name and value
    )


@lru_cache(maxsize=4096)
def _place(topic: bytes | None, queue_id: bytes | None) -> tuple[str, int] | None:
    if topic is None or queue_id is None or not queue_id.isdigit() or len(queue_id) > 10:
        return None
    name, number = java_text(topic), int(queue_id)
    if name in _NEVER or number > _QUEUE_ID_MAX:
        return None
    return name, number


@lru_cache(maxsize=4096)
def _host(packed: bytes) -> Host:
    return host_of(packed)


def fingerprint(view: MessageView) -> bytes:
    """Return a hash of what a parked message and its delivered copy have in common.

    Raises:
        CorruptFileError: a length inside the record leads out of the record.
    """
    record, sys_flag = view.record, view.sys_flag
    host_end = BORN_HOST_POSITION + host_size(sys_flag, BORN_HOST_V6)
    facts = (
        sys_flag & ~STORE_HOST_V6,
        view.flag,
        view.born_timestamp,
        view.reconsume_times,
        record[BORN_HOST_POSITION:host_end],
        _common(record[view.places()[3] :]),
    )
    hashed = hashlib.blake2b(repr(facts).encode(), digest_size=16)
    hashed.update(view.body)
    return hashed.digest()


def _common(text: bytes) -> bytes:
    """Return a property text without what the store itself adds to a record."""
    text = _filled(text)
    if _CRC not in text and _LIGHT_NAMES not in text:
        return text.rstrip(_END)
    entries = text.split(_END)
    kept = [entry for entry in entries if entry and not entry.startswith((_CRC, _LIGHT))]
    # In a record with light queues the store rewrote the whole text.
    return _END.join(sorted(kept) if _LIGHT_NAMES in text else kept)
