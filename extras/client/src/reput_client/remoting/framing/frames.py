"""Frames: a command as bytes of a connection, and bytes of a connection as commands.

    0        4      5               8
    +--------+------+---------------+--------+------+
    | length | kind | header length | header | body |
    +--------+------+---------------+--------+------+

``length`` counts what follows it. Kind 0 is a header in JSON, 1 one in RocketMQ's binary form.

Source: RocketMQ ``NettyEncoder``, ``NettyDecoder``, ``RemotingCommand``.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import attrs

from reput_client.remoting.command import Command
from reput_client.remoting.errors import FrameError
from reput_client.remoting.framing.binaryheader import decode_binary, encode_binary
from reput_client.remoting.framing.jsonheader import decode_json, encode_json

FRAME_SIZE_MAX: Final = 16 << 20
"""Bytes of the longest frame that RocketMQ reads, its length included."""

_LENGTH: Final = struct.Struct(">i")
_HEADER_LENGTH_MAX: Final = (1 << 24) - 1
_KIND_SHIFT: Final = 24
FRAME_START: Final = struct.Struct(">iI")  # length; kind and header length


class HeaderKind(IntEnum):
    """How a frame's header is written."""

    JSON = 0
    BINARY = 1


_KINDS: Final = tuple(HeaderKind)


def encode_frame(command: Command, kind: HeaderKind = HeaderKind.JSON) -> bytes:
    """Return the frame of ``command``.

    Raises:
        FrameError: it would be longer than a peer reads.
    """
    header = encode_json(command) if kind is HeaderKind.JSON else encode_binary(command)
    size = FRAME_START.size + len(header) + len(command.body)
    if size > FRAME_SIZE_MAX:
        raise FrameError(0, f"a command of {size} bytes", f"{FRAME_SIZE_MAX} or fewer")
    start = FRAME_START.pack(size - _LENGTH.size, kind << _KIND_SHIFT | len(header))
    return b"".join((start, header, command.body))


@attrs.define(eq=False)
class FrameReader:
    """Makes commands of a connection's bytes, wherever these are parted.

    It holds the bytes of one unfinished frame and what was fed behind it. A length is refused as
    soon as it is there, before what it announces is waited for.
    """

    frame_size_max: int = FRAME_SIZE_MAX
    """Bytes of the longest frame that is read."""
    header_size_max: int = _HEADER_LENGTH_MAX
    """Bytes of the longest header that is read; what is in a header takes many times its bytes."""
    last_kind: HeaderKind = attrs.field(init=False, default=HeaderKind.JSON)
    """How the header of the last command was written."""
    _bytes: bytearray = attrs.field(init=False, factory=bytearray)
    _error: FrameError | None = attrs.field(init=False, default=None)

    @property
    def held_size(self) -> int:
        """Bytes that were fed and are part of no command yet."""
        return len(self._bytes)

    @property
    def held(self) -> bytearray:
        """Those bytes, to be read; `drop` removes what others have taken of them."""
        return self._bytes

    def drop(self, size: int) -> None:
        """Remove whole frames at the beginning of the held bytes."""
        del self._bytes[:size]

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes that came from the peer."""
        self._bytes += data

    def next_command(self) -> Command | None:
        """Return the next command; None if more bytes are needed.

        Raises:
            FrameError: the bytes are not a frame. Each further call raises the same.
        """
        if self._error is not None:
            raise self._error
        try:
            return self._next()
        except FrameError as error:
            self._bytes.clear()
            self._error = error
            raise

    def _next(self) -> Command | None:
        held = self._bytes
        if len(held) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(held)
        end = _LENGTH.size + length
        if not FRAME_START.size <= end <= self.frame_size_max:
            raise FrameError(0, f"a length of {length}", f"4 to {self.frame_size_max - 4}")
        if len(held) < FRAME_START.size:
            return None
        _, word = FRAME_START.unpack_from(held)
        kind, header_length = word >> _KIND_SHIFT, word & _HEADER_LENGTH_MAX
        header_end = FRAME_START.size + header_length
        if kind >= len(_KINDS):
            raise FrameError(4, f"header kind {kind}", "0 (JSON) or 1 (binary)")
        if header_end > end:
            raise FrameError(5, f"a header of {header_length} bytes", f"{length - 4} or fewer")
        if header_length > self.header_size_max:
            raise FrameError(
                5, f"a header of {header_length} bytes", f"{self.header_size_max} or fewer"
            )
        if len(held) < end:
            return None
        with memoryview(held) as view:
            header, body = bytes(view[FRAME_START.size : header_end]), bytes(view[header_end:end])
        del held[:end]
        self.last_kind = _KINDS[kind]
        return (decode_binary if kind else decode_json)(header, body)
