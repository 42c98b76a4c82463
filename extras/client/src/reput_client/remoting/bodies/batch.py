"""The body of a batch: several messages for one queue.

    0      4       8     12     16          20
    +------+-------+-----+------+-----------+------+-----------------+------------+
    | size | magic | crc | flag | body size | body | properties size | properties |
    +------+-------+-----+------+-----------+------+-----------------+------------+

The size is that of the whole entry, the properties' one has 2 bytes; magic and crc are 0.

Source: RocketMQ ``MessageDecoder.encodeMessage`` and ``decodeMessage``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import attrs

from reput_client.remoting.errors import BodyError

_START: Final = struct.Struct(">iiiii")  # size, magic, crc, flag, body size
_PROPERTIES_SIZE: Final = struct.Struct(">h")
_SMALLEST: Final = _START.size + _PROPERTIES_SIZE.size
_PROPERTIES_SIZE_MAX: Final = (1 << 15) - 1
_WHAT: Final = "batch of messages"


@attrs.frozen
class BatchEntry:
    """One message of a batch."""

    body: bytes
    properties: bytes = b""
    """The text ``name 0x01 value 0x02 …``."""
    flag: int = 0


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Return the body of a batch.

    Raises:
        BodyError: an entry's properties have more than 32,767 bytes.
    """
    parts: list[bytes] = []
    for number, each in enumerate(entries):
        if len(each.properties) > _PROPERTIES_SIZE_MAX:
            raise BodyError(_WHAT, number, f"properties of {len(each.properties)} bytes")
        size = _SMALLEST + len(each.body) + len(each.properties)
        parts += (
            _START.pack(size, 0, 0, each.flag, len(each.body)),
            each.body,
            _PROPERTIES_SIZE.pack(len(each.properties)),
            each.properties,
        )
    return b"".join(parts)


def decode_batch(body: bytes) -> list[BatchEntry]:
    """Return the messages of a batch.

    Raises:
        BodyError: a size contradicts another, or leads out of the body.
    """
    entries = []
    at = 0
    while at < len(body):
        if len(body) - at < _SMALLEST:
            raise BodyError(_WHAT, at, f"{len(body) - at} bytes are left, fewer than any entry has")
        size, _, _, flag, body_size = _START.unpack_from(body, at)
        if not _SMALLEST <= size <= len(body) - at:
            raise BodyError(_WHAT, at, f"an entry of {size} bytes, with {len(body) - at} left")
        start = at + _START.size
        if not 0 <= body_size <= size - _SMALLEST:
            raise BodyError(_WHAT, at + 16, f"a body of {body_size} bytes in an entry of {size}")
        properties_at = start + body_size
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, properties_at)
        if properties_size != size - _SMALLEST - body_size:
            raise BodyError(
                _WHAT, properties_at, f"properties of {properties_size} bytes in an entry of {size}"
            )
        end = at + size
        entries.append(
            BatchEntry(
                body[start:properties_at],
                body[properties_at + _PROPERTIES_SIZE.size : end],
                flag,
            )
        )
        at = end
    return entries
