"""Make unique keys for messages without one.

Source: RocketMQ ``MessageClientIDSetter``: address, process, a hash that tells clients of one
process apart, ms since the month began, a counter. Different on purpose: months are UTC's.
"""

from __future__ import annotations

import datetime as dt
import os
import struct
import threading
from collections.abc import Callable
from typing import Final

_LAYOUT: Final = struct.Struct(">4sH4sIH")
_ADDRESS: Final = bytes([127, 0, 0, 1])


class UniqueKeys:
    """Makes unique keys. Thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._client = os.urandom(4)
        self._count = 0

    def next(self) -> str:
        """Return a new key that no other message has, 32 upper-case hex digits."""
        with self._lock:
            self._count += 1
            count = self._count
            if count & 0xFFFF == 0:
                self._client = os.urandom(4)  # keys differ also above 65,536 a millisecond
        now = self._clock()
        try:
            moment = dt.datetime.fromtimestamp(now / 1_000, dt.UTC)
            month = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            since = now - int(month.timestamp()) * 1_000
        except (ValueError, OverflowError, OSError):
            since = now  # the clock shows a time that is in no calendar
        pid = os.getpid() & 0xFFFF
        packed = _LAYOUT.pack(_ADDRESS, pid, self._client, since & 0xFFFFFFFF, count & 0xFFFF)
        return packed.hex().upper()
