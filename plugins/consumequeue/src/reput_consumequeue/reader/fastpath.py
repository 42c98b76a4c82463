"""Makes messages of records as queues list them, as long as they need no decision.

What a queue's reader decides (a record that is gone, torn, damaged, or of another queue) it decides
by looking at one record; most records leave nothing to decide, and these go through here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from reput.engine import kernel
from reput.record import MessageView, crc32, cut_window, message_at
from reput.record.layout import (
    BORN_HOST_V6,
    HEADER_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    STORE_HOST_V6,
    TOPIC_SIZE_V1_MAX,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_PLACE_SIZE = 12  # physical offset (int64) and size (int32)
_HEAD = struct.Struct(">iIii4xqqi44xi")
"""Size, magic, CRC, queue id, queue offset, physical offset, system flag, body size: for IPv4."""
_from_bytes = int.from_bytes


@kernel
def sound_messages(
    chunks: list[bytes],
    places: bytes | memoryview,
    stride: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    is_light: bool,
    after: int,
) -> list[MessageView]:
    """Return the first of consecutive messages of a queue, up to the first doubtful one.

    A message is, if its record is whole and has the stated size, states the physical offset at
    which it stands, lies behind the message before it, has a body that matches its checksum, and
    states topic, queue id and queue offset of its place in the queue.

    Args:
        chunks: the records at the first places; in each chunk whole ones, one behind the other.
        places: ``n * stride`` bytes, ``n`` not less than there are records; each stride begins with
            physical offset (int64) and size (int32), big-endian.
        stride: bytes from one place to the next, 12 or more.
        topic: the queue's topic.
        queue_id: the queue.
        queue_offset: of the first place.
        is_light: whether the queue lists messages of other queues. Then a message may state
            another queue, and another queue offset if the next place is known to be another one.
        after: physical offset that lies before the first message.

    Returns:
        The messages, up to the first record that is in doubt. They may share the chunks' memory.
    """
    found: list[MessageView] = []
    place = struct.Struct(f">qi{stride - _PLACE_SIZE}x")
    known = list(place.iter_unpack(places[: len(places) - len(places) % stride]))
    known.append((-1, 0))  # not known
    # A version 1 record cannot have a topic whose length does not fit into a byte.
    name_size = len(topic)
    names = {
        MAGIC_V1: bytes([name_size]) + topic if name_size <= TOPIC_SIZE_V1_MAX else None,
        MAGIC_V2: name_size.to_bytes(2, "big") + topic,
    }
    checked, unpack = MessageView.checked, _HEAD.unpack_from
    for row, record in enumerate(_records(chunks, known)):
        offset, size = known[row]
        if len(record) != size or size < RECORD_MIN_SIZE or offset <= after:
            break
        stated, magic, crc, queue, number, own, flag, body_size = unpack(record)
        if stated != size or own != offset:
            break
        if is_light:
            following = known[row + 1]
            if number != queue_offset + row and (following[0] < 0 or following == known[row]):
                break
        elif queue != queue_id or number != queue_offset + row:
            break
        if is_light or body_size < 0 or flag & (BORN_HOST_V6 | STORE_HOST_V6):
            view = message_at(record, offset)
            if view is None or not view.body_matches():
                break
            if not is_light and view.topic_bytes != topic:
                break
        else:
            name = names.get(magic)
            if name is None:
                break
            body_end = HEADER_SIZE + body_size
            topic_end = body_end + len(name)
            start = topic_end + 2
            if (
                not record.startswith(name, body_end)
                or max(_from_bytes(record[topic_end:start], "big", signed=True), 0) != size - start
            ):
                break
            if body_size and crc32(record[HEADER_SIZE:body_end]) & 0x7FFFFFFF != crc:
                break
            view = checked(record, offset, (HEADER_SIZE, topic_end - name_size, topic_end, start))
        found.append(view)
        after = offset
    return found


def _records(chunks: list[bytes], places: list[tuple[int, int]]) -> list[bytes]:
    found: list[bytes] = []
    for chunk in chunks:
        at = 0
        while at < len(chunk) and len(found) < len(places):
            size = max(places[len(found)][1], 0)
            found.append(chunk[at : at + size])
            at += size
    return found


@kernel
def sound_columns(
    records: bytes,
    places: bytes | memoryview,
    stride: int,
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    is_light: bool,
    after: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return where the ``n`` messages are that `sound_messages` returns of one chunk.

    Returns:
        Where records and parts are, ``(8, n)`` int64, as `reput.record.SpanRow` says; the headers,
        ``(n, 88)`` uint8, as those of a `DispatchBatch`; and the physical offsets, ``(n,)`` int64.
    """
    queue = topic, queue_id, queue_offset, is_light
    messages = sound_messages([records], places, stride, *queue, after)
    window = np.frombuffer(records, np.uint8)[: sum(message.size for message in messages)]
    cut, headers, *_ = cut_window(window, 0, False, False, False, False)
    offsets = [message.physical_offset for message in messages]
    return cut, headers, np.array(offsets, np.int64)
