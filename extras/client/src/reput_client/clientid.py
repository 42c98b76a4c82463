"""Who a client is.

Source: RocketMQ ``ClientConfig#buildMQClientId``.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import random
import socket
from typing import Final

from reput_client.remoting import parse_address

BROADCASTER: Final = "DEFAULT"
"""Instance name of broadcasting members: their offsets are found again after a restart."""


def own_address(peer: str) -> str:
    """Return the address of this machine from which ``peer`` (``host:port``) is reached.

    Nothing is sent. The loopback address where there is no way to the peer.
    """
    try:
        host, port = parse_address(peer)
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            found = str(probe.getsockname()[0])
        return str(ipaddress.ip_address(found.partition("%")[0]))
    except (OSError, ValueError):
        return "127.0.0.1"


class ClientIds:
    """Makes client ids, none twice on one machine."""

    def __init__(self, address: str, instance: str | None = None) -> None:
        """Name clients of ``address``; ``instance`` takes the place of process id and time."""
        self._address = address
        # Two clients of one process, and processes that follow each other with one id, differ.
        self._instance = instance or f"{os.getpid()}#{random.getrandbits(40)}"
        self._numbers = itertools.count(1)

    def next(self, *, is_broadcasting: bool = False) -> str:
        """Return another client id; the same each time for members that broadcast."""
        if is_broadcasting:
            return f"{self._address}@{BROADCASTER}"
        return f"{self._address}@{self._instance}#{next(self._numbers)}"
