"""Addresses of brokers and name servers."""

from __future__ import annotations

import socket
from typing import Final

from reput_follow.errors import AddressError

__all__ = ["Address", "address_text", "connect", "parse_address", "parse_addresses"]

Address = tuple[str, int]
"""Host and port."""

_PORT_MAX: Final = 65_535
_DIGITS_MAX: Final = 5


def parse_address(text: str) -> Address:
    """Return host and port of ``HOST:PORT``; an IPv6 address stands in brackets.

    Raises:
        AddressError: ``text`` is not an address.
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdigit() and len(port) <= _DIGITS_MAX
    if not (colon and host and is_number and 0 < int(port) <= _PORT_MAX):
        raise AddressError(text)
    return host, int(port)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a text with ``;`` between them.

    Raises:
        AddressError: one of them is not an address, or the list is empty.
    """
    found = tuple(parse_address(each) for each in text.split(";") if each.strip())
    if not found:
        raise AddressError(text)
    return found


def address_text(address: Address) -> str:
    """Return ``HOST:PORT``."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connect(address: Address, timeout: float) -> socket.socket:
    """Return a socket that is connected to ``address``.

    Args:
        address: of the peer.
        timeout: seconds for the connection.

    Raises:
        OSError: the connection failed, or the host's name is not valid.
    """
    try:
        return socket.create_connection(address, timeout)
    except ValueError as error:  # of a name that no codec of host names takes, such as a..b
        raise OSError(f"{address[0]!r} is not a valid host name") from error
