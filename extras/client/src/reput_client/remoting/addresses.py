"""Addresses ``HOST:PORT``: of brokers and name servers, and of what listens."""

from __future__ import annotations

from typing import Final

from reput_client.remoting.errors import AddressError

Address = tuple[str, int]
"""Host and port."""

_PORT_MAX: Final = 65_535
_DIGITS_MAX: Final = 5


def parse_address(text: str, *, least_port: int = 1) -> Address:
    """Return host and port of ``HOST:PORT``; an IPv6 address stands in brackets.

    Args:
        text: the address; spaces around it are ignored.
        least_port: 0 for an address to listen on, where port 0 asks for a free one.

    Raises:
        AddressError: ``text`` is not an address.
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdigit() and len(port) <= _DIGITS_MAX
    if not (colon and host and is_number and least_port <= int(port) <= _PORT_MAX):
        raise AddressError(text)
    return host, int(port)


def address_text(address: Address) -> str:
    """Return ``HOST:PORT``; an IPv6 address stands in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
