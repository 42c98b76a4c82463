"""Who a client is, and the keys that it gives messages.

A unique key is the upper-case hex of the fields below; IPv6 addresses take 16 bytes.

    0    4    6          10      14        16
    +----+----+----------+-------+---------+
    | IP | pid| constant | time  | counter |
    +----+----+----------+-------+---------+

Source: RocketMQ ``ClientConfig#buildMQClientId`` and ``MessageClientIDSetter``.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import random
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

__all__ = ["BROADCASTER", "ClientIds", "UniqueKeys", "own_address", "split_address"]

BROADCASTER: Final = "DEFAULT"
"""Instance name of broadcasting members: their offsets are found again after a restart."""
_REST: Final = struct.Struct(">HiIh")  # process id, constant, ms since the month began, counter
_PORT_MAX: Final = 65_535


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 address may stand in brackets.

    Raises:
        ValueError: the text is no such address.
    """
    host, colon, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX):
        raise ValueError(f"address {address[:100]!r}: host:port expected, as 127.0.0.1:9876")
    return host, int(port)


def own_address(peer: str) -> str:
    """Return the address of this machine from which ``peer`` (``host:port``) is reached.

    Nothing is sent. The loopback address where there is no way to the peer.
    """
    try:
        host, port = split_address(peer)
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


class UniqueKeys:
    """Makes unique keys of messages. Thread-safe: numbers come from one counter."""

    def __init__(self, address: str, clock: Callable[[], int]) -> None:
        """Make keys of the machine ``address`` by ``clock``, which returns ms."""
        self._ip = ipaddress.ip_address(address).packed
        self._pid = os.getpid() & 0xFFFF
        self._constant = random.getrandbits(31)
        self._clock = clock
        self._counter = itertools.count()
        self._month = 0, 0
        """When the month of the last key begins and ends, ms."""

    def next(self) -> str:
        """Return another key."""
        now = self._clock()
        begins, ends = self._month
        if not begins <= now < ends:
            begins, ends = self._month = _month_of(now)
        counter = (next(self._counter) + 0x8000 & 0xFFFF) - 0x8000
        # From the 25th day on Java's number is a negative one, of the same bits.
        rest = _REST.pack(self._pid, self._constant, now - begins, counter)
        return (self._ip + rest).hex().upper()


def _month_of(now: int) -> tuple[int, int]:
    """Return the beginnings of the local month at ``now`` and of the next one, ms."""
    year, month, *_ = time.localtime(now / 1000)
    first, following = (
        time.mktime((year, each, 1, 0, 0, 0, 0, 0, -1)) for each in (month, month + 1)
    )
    return int(first * 1000), int(following * 1000)
