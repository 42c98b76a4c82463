"""Inner batches: one record that holds several messages, in the form of a producer's batch.

The body is a run of entries, integers big-endian:

    0      4       8     12     16       20     20 + n   22 + n
    +------+-------+-----+------+--------+------+--------+------------+
    | size | magic | CRC | flag | body   | body | prop.  | properties |
    |      |       |     |      | size n |      | size   |            |
    +------+-------+-----+------+--------+------+--------+------------+

A message of such a record has the entry's flag, body and properties; the rest is the record's,
except for the queue offset, which is counted from that of the record.

Source: RocketMQ 5 ``MessageDecoder#decodeMessage``. Different on purpose: `unwrapped` makes each
message a record of its own, without the flags of an inner batch, so that no reader unwraps it
again; a body that is not whole entries stays one message.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.errors import ReputError
from reput.record.checksum import crc32
from reput.record.compression import unpack_body
from reput.record.decode import Decoder
from reput.record.layout import (
    COMPRESSED,
    COMPRESSION_MASK,
    HEADERS,
    HOSTS_V6,
    INNER_BATCH,
    MAGIC_V1,
    NEED_UNWRAP,
)
from reput.record.messageview import MessageView

if TYPE_CHECKING:
    from reput.record.batch import DispatchBatch

_ENTRY: Final = struct.Struct(">iiiii")
_COUNT: Final = struct.Struct(">h")
_SIGNED_MAX: Final = 0x7FFFFFFF
_CLEARED: Final = ~(INNER_BATCH | NEED_UNWRAP | COMPRESSED | COMPRESSION_MASK)


def unwrapped(message: MessageView) -> tuple[MessageView, ...]:
    """Return the messages of an inner batch, in order; any other message alone.

    Each has the physical offset of the batch, and the queue offset after the one before it.
    """
    if not message.sys_flag & INNER_BATCH:
        return (message,)
    try:
        entries = _entries(unpack_body(message.body, message.sys_flag))
    except (ValueError, struct.error, ReputError):
        return (message,)
    return tuple(_record(message, at, *entry) for at, entry in enumerate(entries))


def unwrapped_batch(batch: DispatchBatch) -> DispatchBatch:
    """Return ``batch`` with the messages of its inner batches in their place, as `unwrapped` does.

    Columns that plugins added are lost if it has inner batches; else ``batch`` itself is returned.
    """
    if not (batch.sys_flag & INNER_BATCH).any():
        return batch
    views = [view for row in range(len(batch)) for view in unwrapped(batch.message(row))]
    window = np.frombuffer(b"".join([view.record for view in views]), np.uint8)
    made = Decoder(check_offset=False).decode(window, 0).batch
    made.stand_at(np.array([view.physical_offset for view in views], np.int64))
    made.end_offset, made.finding = batch.end_offset, batch.finding
    return made


def _entries(body: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return flag, body and properties of each entry.

    Raises:
        ValueError: ``body`` is not a run of entries, one at least.
    """
    entries: list[tuple[int, bytes, bytes]] = []
    at = 0
    while at < len(body) or not entries:
        size, _, _, flag, body_size = _ENTRY.unpack_from(body, at)
        start = at + _ENTRY.size
        end = start + max(body_size, 0)
        (text_size,) = _COUNT.unpack_from(body, end)
        text_end = end + _COUNT.size + max(text_size, 0)
        if text_end != at + size or text_end > len(body):
            raise ValueError(f"no entry of a batch at byte {at}")
        entries.append((flag, body[start:end], body[end + _COUNT.size : text_end]))
        at = text_end
    return entries


def _record(batch: MessageView, number: int, flag: int, body: bytes, text: bytes) -> MessageView:
    header = HEADERS[batch.sys_flag & HOSTS_V6]
    head, topic = list(header.unpack_from(batch.record)), batch.topic_bytes
    length = len(topic).to_bytes(1 if head[1] == MAGIC_V1 else 2, "big")
    tail = body + length + topic + _COUNT.pack(len(text)) + text
    head[0] = header.size + len(tail)
    head[2] = crc32(body) & _SIGNED_MAX if body else 0
    head[4] = flag
    head[5] += number
    head[7] &= _CLEARED
    head[14] = len(body)
    return MessageView(header.pack(*head) + tail, batch.physical_offset)
