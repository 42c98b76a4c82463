"""Message batches of RocketMQ's wire: several messages of one queue in one body.

A batch is expanded when it is appended: the log holds one record per message, with the batch's
topic, queue and host, and with the batch's properties after the message's own.

Source: ``MessageDecoder#encodeMessages``, ``CommitLog#encode`` for batches (5.x: a separator is
added between the two property texts if it is missing).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import attrs

from reput.errors import MessageIllegalError
from reput.record.decode import RECORD_SIZE_MAX
from reput.record.encoding.one import unpackable
from reput.record.layout import PROPERTIES_SIZE_MAX, TRANSACTION_MASK, UNIT_OF_BATCH
from reput.record.messages.message import Message, encode_property_text, plain_message
from reput.record.text.properties import parse_properties

__all__ = ["encode_batch", "expand_batch"]

_UNIT_MIN_SIZE = UNIT_OF_BATCH.size + 2


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Return the batch body of ``messages``, which holds flag, body and properties of each."""
    parts: list[bytes] = []
    for message in map(plain_message, messages):
        properties = encode_property_text(message)
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise MessageIllegalError(
                "properties", len(properties), PROPERTIES_SIZE_MAX, "encoded bytes"
            )
        body = message.body
        size = _UNIT_MIN_SIZE + len(body) + len(properties)
        try:
            head = UNIT_OF_BATCH.pack(size, 0, 0, message.flag, len(body))
        except struct.error as error:
            raise unpackable(message, str(error)) from None
        parts += (
            head,
            body,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    return b"".join(parts)


def expand_batch(batch: Message) -> list[Message]:
    """Return the messages of a batch whose body `encode_batch` or a RocketMQ client made.

    Raises:
        MessageIllegalError: the body is no batch, or the batch has a transaction flag or a delay.
    """
    shared = encode_property_text(batch)
    if batch.sys_flag & TRANSACTION_MASK:
        raise MessageIllegalError(
            "sys_flag", batch.sys_flag, None, "a batch takes no transaction bits"
        )
    delay = parse_properties(shared).get("DELAY", "0")
    if delay.isascii() and delay.isdigit() and delay.strip("0"):
        raise MessageIllegalError("properties", delay, None, "a batch takes no DELAY")
    messages = []
    body, position, total = batch.body, 0, 0
    while position < len(body):
        flag, start, end, properties, position = _read_unit(body, position)
        # Every message gets the shared properties, so a few megabytes could become gigabytes.
        total += end - start + len(properties) + len(shared)
        if total > RECORD_SIZE_MAX:
            raise MessageIllegalError(
                "body", len(body), None, f"expanded, the batch has over {RECORD_SIZE_MAX} bytes"
            )
        if properties and shared and not properties.endswith(b"\x02"):
            properties += b"\x02"
        messages.append(
            attrs.evolve(
                batch,
                body=body[start:end],
                flag=flag,
                tags=None,
                keys=None,
                properties=properties + shared,
                prepared_transaction_offset=0,
            )
        )
    return messages


def _read_unit(body: bytes, position: int) -> tuple[int, int, int, bytes, int]:
    """Return flag, body start, body end, property text and end of the unit at ``position``."""
    left = len(body) - position
    if left < _UNIT_MIN_SIZE:
        raise _bad_unit(position, f"{left} bytes are left, a message takes {_UNIT_MIN_SIZE}")
    size, _, _, flag, body_size = UNIT_OF_BATCH.unpack_from(body, position)
    if not _UNIT_MIN_SIZE <= size <= left:
        raise _bad_unit(position, f"size {size}, {left} bytes are left")
    start = position + UNIT_OF_BATCH.size
    end = start + body_size
    if body_size < 0 or end + 2 > position + size:
        raise _bad_unit(position, f"body size {body_size} in a message of {size} bytes")
    properties = body[end + 2 : position + size]
    if int.from_bytes(body[end : end + 2], "big", signed=True) != len(properties):
        raise _bad_unit(position, "the properties do not fill the message")
    return flag, start, end, properties, position + size


def _bad_unit(position: int, reason: str) -> MessageIllegalError:
    return MessageIllegalError("body", None, None, f"no batch: byte {position}: {reason}")
