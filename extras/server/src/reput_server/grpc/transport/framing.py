"""Bytes of gRPC calls: messages with their sizes, statuses, and how long clients wait.

Source: gRPC over HTTP2 (``PROTOCOL-HTTP2.md``).
"""

from __future__ import annotations

import enum
import re
from typing import Final
from urllib.parse import quote

import attrs

from reput_server.grpc.transport.http2 import Fields
from reput_server.grpc.transport.inflation import INFLATE_MAX, Inflation, InflationError

MESSAGE_MAX: Final = 16 << 20
"""Bytes of one message of a request. A body has 4 MiB at most, and one call may have several."""
_AT_ONCE_MAX: Final = 2 * MESSAGE_MAX
"""Bytes of the messages that end in one piece of a request; compressed ones came small."""
_PREFIX_SIZE: Final = 5
_TIMEOUT: Final = re.compile(r"(\d{1,8})([HMSmun])", re.ASCII)
_UNITS: Final = {"H": 3_600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_PLAIN: Final = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"
"""Characters of a status's text that stay as they are, with letters, digits and ``_.-~``."""
_TEXT_MAX: Final = 400
"""Characters of a status's text. Written as headers take it, one may be 12 bytes, and clients take
8 KiB of headers."""


class RpcStatus(enum.IntEnum):
    """How a call ends, by gRPC's numbers."""

    OK = 0
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallError(Exception):
    """A call ends without an answer, with a status and a text."""

    def __init__(self, status: RpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


HEADERS: Final[Fields] = [
    ("content-type", "application/grpc"),
    ("grpc-accept-encoding", "identity,deflate,gzip"),
]
"""Of each answer."""


def trailers(status: RpcStatus = RpcStatus.OK, text: str = "") -> Fields:
    """Return what ends an answer."""
    found = [("grpc-status", str(int(status)))]
    if text:
        found.append(("grpc-message", quote(text[:_TEXT_MAX].encode("utf-8", "replace"), _PLAIN)))
    return found


def only_message(data: bytes) -> bytes | None:
    """Return the message of a request that is one message without compression; None of others."""
    if data[:1] != b"\0" or int.from_bytes(data[1:_PREFIX_SIZE], "big") != len(data) - _PREFIX_SIZE:
        return None
    return data[_PREFIX_SIZE:]


def framed(message: bytes) -> bytes:
    """Return a message of an answer with its size."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def seconds_of(timeout: str | None) -> float | None:
    """Return how long a client waits for an answer; None for ever."""
    found = None if timeout is None else _TIMEOUT.fullmatch(timeout)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


@attrs.define(eq=False, repr=False)
class Messages:
    """Cuts the bytes of one request into messages."""

    encoding: str = "identity"
    """How compressed messages are compressed."""
    is_behind: bool = attrs.field(init=False, default=False)
    """Whether messages are whole that are not decompressed yet: feed nothing more, and do so."""
    _held: bytearray = attrs.field(init=False, factory=bytearray)
    _inflation: Inflation | None = attrs.field(init=False, default=None)
    """Of the first message that is held, if it has begun."""
    _total: int = attrs.field(init=False, default=0)
    """Bytes of the messages that end in the last piece."""

    @property
    def is_cut_short(self) -> bool:
        """Whether the last bytes are not a whole message."""
        return bool(self._held)

    @property
    def held_size(self) -> int:
        """Bytes of messages that are not whole, or not wholly decompressed."""
        return len(self._held) + (0 if self._inflation is None else self._inflation.size)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, and return the messages that are whole now.

        One call decompresses about `INFLATE_MAX` bytes. If there are more, it is behind, and has to
        be called with no bytes until it is not.

        Raises:
            CallError: a message is too large, or is compressed as nobody here can read it.
        """
        if not self._held and (only := only_message(data)) is not None and len(only) <= MESSAGE_MAX:
            return [only]  # most often
        if data:
            self._total = 0
        self._held += data
        self.is_behind = False
        found, begin, room = list[bytes](), 0, INFLATE_MAX
        while len(self._held) - begin >= _PREFIX_SIZE:
            end = begin + _PREFIX_SIZE + self._size_at(begin)
            if len(self._held) < end:
                break
            is_compressed = self._held[begin]
            message = self._message_at(begin, end, room)
            self.is_behind = message is None
            if message is None:
                break
            found.append(message)
            room -= len(message) if is_compressed else 0
            begin = end
            self._total += len(message)
            if self._total > _AT_ONCE_MAX:
                text = f"messages of more than {_AT_ONCE_MAX} bytes at once"
                raise CallError(RpcStatus.RESOURCE_EXHAUSTED, text)
        del self._held[:begin]
        return found

    def _size_at(self, begin: int) -> int:
        size = int.from_bytes(self._held[begin + 1 : begin + _PREFIX_SIZE], "big")
        if size > MESSAGE_MAX:
            text = f"a message of {size} bytes; {MESSAGE_MAX} at most"
            raise CallError(RpcStatus.RESOURCE_EXHAUSTED, text)
        return size

    def _message_at(self, begin: int, end: int, room: int) -> bytes | None:
        """Return a whole message; None if it has more than so many bytes to be decompressed."""
        is_compressed, body = self._held[begin], begin + _PREFIX_SIZE
        if not is_compressed:
            return bytes(self._held[body:end])
        if room <= 0:
            return None
        if self._inflation is None:
            if is_compressed != 1 or not Inflation.reads(self.encoding):
                text = f"messages compressed by {self.encoding[:100]!r} cannot be read"
                raise CallError(RpcStatus.UNIMPLEMENTED, text)
            self._inflation = Inflation(self.encoding, bytes(self._held[body:end]))
        try:
            found = self._inflation.advance(room)
        except InflationError as error:
            text = f"a compressed message that is not valid: {error}"
            raise CallError(RpcStatus.INTERNAL, text) from None
        if self._inflation.size > MESSAGE_MAX:
            text = f"a message of more than {MESSAGE_MAX} bytes once it is decompressed"
            raise CallError(RpcStatus.RESOURCE_EXHAUSTED, text)
        if found is not None:
            self._inflation = None
        return found
