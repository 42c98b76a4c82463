"""Packs a message into one value, for stores that hold values without fields."""

from __future__ import annotations

import struct

from benchmarks.workload import Row

_SIZES = struct.Struct(">HH")


def pack(row: Row) -> bytes:
    """Return sizes, text fields with separators, and body: about the cheapest packing possible."""
    topic, queue_id, tags, keys, unique_key, body = row
    text = f"{topic}\x01{queue_id}\x01{tags}\x01{keys}\x01{unique_key}".encode()
    return b"".join((_SIZES.pack(len(text), 0), text, body))


def body_of(packed: bytes) -> bytes:
    """Return the body of a packed message."""
    text_size, _ = _SIZES.unpack_from(packed)
    return packed[_SIZES.size + text_size :]
