"""Offset message ids: where a message was stored, as upper-case hex.

Source: RocketMQ ``MessageDecoder#createMessageId`` and ``#decodeMessageId``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from reput.errors import MessageIllegalError
from reput.record.layout import HOST_SIZE, HOST_SIZE_V6
from reput.record.messages.message import plain_integer, plain_text, shown

_ID_SIZES = (HOST_SIZE + 8, HOST_SIZE_V6 + 8)  # bytes


@lru_cache(maxsize=4096)
def pack_host(address: str, port: int) -> bytes:
    """Return the host field of a record: 8 bytes for an IPv4 address, 20 for an IPv6 address.

    Raises:
        MessageIllegalError: ``address`` is not an IP address, or ``port`` not a port.
    """
    import ipaddress

    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError as error:
        raise MessageIllegalError("host", address, None, str(error)) from None
    if not 0 <= port <= 65_535:
        raise MessageIllegalError("port", port, 65_535, "not a port")
    return packed + port.to_bytes(4, "big")


def packed_host(field: str, host: object) -> bytes:
    """Return `pack_host` of a pair that a caller passed as ``field``.

    Raises:
        MessageIllegalError: ``host`` is not a pair of an address as text and a port.
    """
    if not (isinstance(host, Sequence) and len(host) == 2 and isinstance(host[0], str)):
        raise MessageIllegalError(field, shown(host), None, "(address, port) expected")
    return pack_host(plain_text(field, host[0]), plain_integer(field, host[1]))


def offset_message_id(host: bytes, physical_offset: int) -> str:
    """Return the id of the message at ``physical_offset`` of a store with packed ``host``."""
    return (host + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()


def parse_message_id(msg_id: str) -> tuple[bytes, int]:
    """Return packed store host and physical offset from an offset message id.

    Raises:
        ValueError: ``msg_id`` is not 32 or 56 hex digits.
    """
    try:
        raw = bytes.fromhex(msg_id)
    except ValueError:
        raw = b""
    if len(raw) not in _ID_SIZES or len(msg_id) != 2 * len(raw):
        raise ValueError(
            f"{msg_id!r} is not an offset message id: 32 hex digits (IPv4) or 56 (IPv6) expected"
        )
    return raw[:-8], int.from_bytes(raw[-8:], "big", signed=True)
