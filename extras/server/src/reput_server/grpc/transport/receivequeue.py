"""`ReceiveQueue`: bytes of connections that send much, a slice of one connection at a time.

A piece of 256 KiB may have thousands of frames, and each of them costs what its client chooses. So
only small pieces are taken at once. Of a large one a slice is taken in each turn of the event loop,
of one connection after the other, and its size follows the time that the last one took. So a client
that floods its connection waits itself, and others are answered meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

import attrs

AT_ONCE: Final = 4 << 10
"""Bytes that are taken at once: a few requests."""
_FIRST: Final = 16 << 10
_LEAST: Final = 256
_MOST: Final = 256 << 10
_LONG_SECONDS: Final = 0.004
_SHORT_SECONDS: Final = 0.001


class Receiver(Protocol):
    """A connection that has bytes to be taken."""

    def receive_slice(self) -> bool:
        """Take a slice; return whether there are more bytes."""
        ...


@attrs.define(eq=False, repr=False)
class Slices:
    """The bytes of one connection that were not taken."""

    size: int = _FIRST
    """Bytes of the next slice."""
    _data: bytearray = attrs.field(init=False, factory=bytearray)

    def __len__(self) -> int:
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Add what has come."""
        self._data += data

    def next(self) -> bytes:
        """Return the next slice, which is taken now."""
        found = bytes(self._data[: self.size])
        del self._data[: self.size]
        return found

    def took(self, seconds: float) -> None:
        """Note how long a slice took."""
        if seconds > _LONG_SECONDS:
            self.size = max(self.size // 2, _LEAST)
        elif seconds < _SHORT_SECONDS:
            self.size = min(self.size * 2, _MOST)

    def clear(self) -> None:
        """Forget what was not taken."""
        self._data.clear()


@attrs.define(eq=False, repr=False)
class ReceiveQueue:
    """Connections that have bytes to be taken. Used on the event loop."""

    loop: asyncio.AbstractEventLoop
    _waiting: deque[Receiver] = attrs.field(init=False, factory=deque)
    _is_due: bool = attrs.field(init=False, default=False)

    def add(self, connection: Receiver) -> bool:
        """Have slices of a connection taken; the first one now, if no other connection waits.

        Returns:
            Whether there are more bytes than that, which are taken in later turns of the loop.
        """
        if not self._waiting and not connection.receive_slice():
            return False
        self._waiting.append(connection)
        self._call()
        return True

    def _call(self) -> None:
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._take)

    def _take(self) -> None:
        self._is_due = False
        connection = self._waiting.popleft()
        if connection.receive_slice():
            self._waiting.append(connection)
        if self._waiting:
            self._call()
