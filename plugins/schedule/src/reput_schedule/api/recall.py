"""Cancel timed messages, also by the handles with which RocketMQ 5.3 recalls them.

Two messages cancel one. RocketMQ 5.3 compares the topic and the unique key that a cancellation
names; 5.0 to 5.2, and since 5.4, the unique key alone. Each release obeys one of the two, and
delivers neither.

Source: RocketMQ ``RecallMessageHandle``, ``RecallMessageProcessor``.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import attrs

from reput.record import Message
from reput.record.layout import PROPERTY_UNIQ_KEY
from reput_schedule.timerwheel.layout import (
    PROPERTY_DELETE_KEY,
    PROPERTY_DELIVER_MS,
    RECALL_TAG,
)

_VERSION: Final = "v1"
_PART_COUNT: Final = 5
_RECALL_BODY: Final = b"0"


@attrs.frozen
class RecallHandle:
    """The contents of a recall handle."""

    topic: str
    broker_name: str
    deliver_timestamp: int
    """ms."""
    unique_key: str


def cancel_messages(topic: str, unique_key: str, deliver_timestamp: int) -> list[Message]:
    """Return the messages that cancel a timed message when they are put, for every release.

    Args:
        topic: of the message to be cancelled.
        unique_key: its ``UNIQ_KEY``.
        deliver_timestamp: the time that it was put with, ms: both have to fall into one slot.
    """
    return [
        Message(
            topic,
            _RECALL_BODY,
            tags=RECALL_TAG,
            properties={
                PROPERTY_DELETE_KEY: key,
                PROPERTY_UNIQ_KEY: unique_key,
                PROPERTY_DELIVER_MS: str(deliver_timestamp),
            },
        )
        for key in (f"{topic}+{unique_key}", unique_key)
    ]


def recall_messages(handle: RecallHandle) -> list[Message]:
    """Return the messages that recall the message of ``handle`` when they are put."""
    return cancel_messages(handle.topic, handle.unique_key, handle.deliver_timestamp)


def encode_handle(topic: str, broker_name: str, deliver_timestamp: int, unique_key: str) -> str:
    """Return the handle of a timed message; URL-safe Base64.

    Raises:
        ValueError: a part is empty or has a space in it.
    """
    parts = (_VERSION, topic, broker_name, str(deliver_timestamp), unique_key)
    for part in parts:
        if not part or " " in part:
            raise ValueError(f"{part!r} cannot be part of a recall handle: no text, or a space")
    return base64.urlsafe_b64encode(" ".join(parts).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Return the contents of the handle ``text``.

    Raises:
        ValueError: ``text`` is not a handle.
    """
    try:
        parts = base64.b64decode(text, b"-_", validate=True).decode().split(" ")
    except (binascii.Error, UnicodeError, ValueError):
        parts = []
    if len(parts) != _PART_COUNT or parts[0] != _VERSION or not all(parts):
        raise ValueError(
            f"{text!r} is not a recall handle: Base64 of '{_VERSION} topic …' expected"
        )
    _, topic, broker_name, time, unique_key = parts
    if not (time.isascii() and time.isdigit()) or len(time) > 18:
        raise ValueError(f"{text!r} is not a recall handle: {time!r} is not a time in ms")
    return RecallHandle(topic, broker_name, int(time), unique_key)
