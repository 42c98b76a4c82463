"""`Inflation`: one compressed message, which is decompressed piece by piece.

16 KiB may become 16 MiB, which takes ten or more milliseconds. The event loop answers all clients,
so that no turn of it may decompress as much as one client likes.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import attrs

INFLATE_MAX: Final = 1 << 20
"""Bytes that one turn of the event loop decompresses: one or two milliseconds."""
_INPUT: Final = 64 << 10
"""Compressed bytes that are handed over at once: what is left of them is copied."""
_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class InflationError(Exception):
    """A message is not compressed as its call says, or is cut short."""


@attrs.define(eq=False, repr=False)
class Inflation:
    """A message that is being decompressed."""

    encoding: str
    message: bytes
    """As it came."""
    size: int = attrs.field(init=False, default=0)
    """Bytes that are decompressed."""
    _position: int = attrs.field(init=False, default=0)
    """Bytes of the message that were handed over."""
    _pieces: list[bytes] = attrs.field(init=False, factory=list)
    _reader: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = zlib.decompressobj(_WINDOW_BITS[self.encoding])

    @staticmethod
    def reads(encoding: str) -> bool:
        """Whether messages of an encoding can be decompressed."""
        return encoding in _WINDOW_BITS

    def advance(self, most: int) -> bytes | None:
        """Decompress so many bytes at most, > 0; return the message, or None if there are more.

        Raises:
            InflationError: the message is not valid.
        """
        before = self.size
        while not self._reader.eof and (room := most - (self.size - before)) > 0:
            data = self._reader.unconsumed_tail
            if not data:
                data = self.message[self._position : self._position + _INPUT]
                self._position += len(data)
            try:
                piece = self._reader.decompress(data, room)
            except zlib.error as error:
                raise InflationError(error) from None
            if not data and not piece:
                raise InflationError("it is cut short")
            self.size += len(piece)
            self._pieces.append(piece)
        return b"".join(self._pieces) if self._reader.eof else None
