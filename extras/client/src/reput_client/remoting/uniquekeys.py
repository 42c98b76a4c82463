"""`UniqueKeys`: keys of messages, made by clients, and by brokers for clients that make none.

A key is the upper-case hex of the fields below; IPv6 addresses take 16 bytes.

    0    4    6          10      14        16
    +----+----+----------+-------+---------+
    | IP | pid| constant | time  | counter |
    +----+----+----------+-------+---------+

Source: RocketMQ ``MessageClientIDSetter``.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import random
import struct
import time
from collections.abc import Callable
from typing import Final

_REST: Final = struct.Struct(">HiIh")  # process id, constant, ms since the month began, counter


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
