"""Addresses of brokers and name servers, and connections to them."""

from __future__ import annotations

import socket

from reput_client.remoting import Address, AddressError, parse_address


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a text with ``;`` between them.

    Raises:
        AddressError: one of them is not an address, or the list is empty.
    """
    found = tuple(parse_address(each) for each in text.split(";") if each.strip())
    if not found:
        raise AddressError(text)
    return found


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
