"""`Http2Connection`: the server's side of one HTTP/2 connection, without a socket.

Bytes of the client go in; events of streams and bytes for the client come out. The protocol is a
library's: that of the package ``h2`` here, and that of the crate ``h2`` in ``reput-native``.

Source: RFC 9113.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import attrs
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from reput.engine import compiled

ENDED: Final = 1
"""The request has no more bytes."""
RESET: Final = 2
"""The client has given the stream up, or the connection has ended."""
DRAINED: Final = 4
"""The client has taken all bytes of the answer for which it had no room."""

Fields = Sequence[tuple[str, str]]
"""Names, in lower case, and values of headers or trailers."""
Happened = tuple[int, dict[str, str] | None, bytes, int]
"""A stream's number; the headers of its request, ``:method`` and ``:path`` among them, if it begins
here; bytes of the request; and a sum of `ENDED`, `RESET` and `DRAINED`."""
Found = tuple[list[Happened], bytes]
"""What has happened, and what is to be written to the client."""
_FIRST_WINDOW: Final = 65_535
"""Bytes that a client may send before it knows the server's settings."""


@attrs.define(eq=False, repr=False)
class _Stream:
    """One request and its answer."""

    is_open: bool = True
    """Whether the request has more bytes."""
    is_begun: bool = False
    """Whether the answer has begun."""
    unsent: bytearray = attrs.field(factory=bytearray)
    is_full: bool = False
    """Whether `send` has reported that the client's window is full."""
    trailers: Fields | None = None


@compiled
class Http2Connection:
    """One connection. Not for several threads at once.

    The engines differ where their libraries do: this one ends the connection, with all its calls,
    when its client says goodbye, or sends headers that are too large.

    Args:
        streams: how many requests may be open at once.
        header_size: bytes of a request's headers, at most, as HTTP/2 counts them.
        stream_window: bytes of a request that a client may send before they are taken.
        connection_window: the same of all requests of the connection.
    """

    def __init__(
        self, streams: int, header_size: int, stream_window: int, connection_window: int
    ) -> None:
        # Otherwise a blank value of one header ends the connection, which RocketMQ's proxy keeps.
        config = H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            validate_outbound_headers=False,
        )
        self._served = H2Connection(config)
        self._served.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: header_size,
                SettingCodes.INITIAL_WINDOW_SIZE: stream_window,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self._served.decoder.max_header_list_size = header_size
        self._served.initiate_connection()
        self._served.increment_flow_control_window(connection_window - _FIRST_WINDOW)
        self._streams: dict[int, _Stream] = {}
        self._happened: dict[int, Happened] = {}
        self._unsent_size = 0
        self._is_over = False
        self._is_shut = False
        self._goodbye = b""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self._is_over

    @property
    def unsent_size(self) -> int:
        """Bytes of answers that the client has no room for."""
        return self._unsent_size

    # ------------------------------------------------------------------ what comes

    def receive(self, data: bytes) -> Found:
        """Take bytes of the client; no bytes say that it sends no more."""
        if not data:
            self._end()
        elif not self._is_over:
            try:
                events = self._served.receive_data(data)
            except ProtocolError:  # the library has said so to the client
                self._end()
                return self.flush()
            to_pump: dict[int, None] = {}
            for event in events:
                if not self._is_over:
                    self._take(event, to_pump)
            # At the end, and once: a later event may have ended a stream that may send more now.
            for number in list(self._streams) if 0 in to_pump else to_pump:
                self._pump(number)
        return self.flush()

    def flush(self) -> Found:
        """Return what has happened since the last call, and what is to be written."""
        if self._is_shut and not self._streams:
            self._end()
        happened, self._happened = self._happened, {}
        goodbye, self._goodbye = self._goodbye, b""
        return list(happened.values()), self._served.data_to_send() + goodbye

    def _take(self, event: Event, to_pump: dict[int, None]) -> None:
        """Take an event; note which streams may send more, 0 for all of them."""
        match event:
            case RequestReceived():
                self._begin(event)
            case DataReceived():
                self._receive_data(event)
            case StreamEnded():
                stream = self._streams.get(event.stream_id)
                if stream is not None:
                    stream.is_open = False
                    self._note(event.stream_id, flag=ENDED)
            case StreamReset():
                if self._drop(event.stream_id):
                    self._note(event.stream_id, flag=RESET)
            case ConnectionTerminated():  # the library takes no answers any more
                self._end()
            case WindowUpdated() | RemoteSettingsChanged():
                number = event.stream_id if isinstance(event, WindowUpdated) else 0
                to_pump[number or 0] = None

    def _begin(self, event: RequestReceived) -> None:
        if self._is_shut:
            with contextlib.suppress(ProtocolError):  # it may have been given up meanwhile
                self._served.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        fields = {
            _text(name): _text(value)
            for name, value in event.headers
            if not name.startswith(b":") or name in (b":method", b":path")
        }
        fields[":path"] = fields.get(":path", "").partition("?")[0]
        self._streams[event.stream_id] = _Stream()
        self._happened[event.stream_id] = event.stream_id, fields, b"", 0

    def _receive_data(self, event: DataReceived) -> None:
        number, size = event.stream_id, event.flow_controlled_length
        # At once: the caller bounds what requests hold in memory.
        self._served.acknowledge_received_data(size, number)
        if number in self._streams:
            self._note(number, event.data)

    def _note(self, number: int, data: bytes = b"", flag: int = 0) -> None:
        _, head, before, flags = self._happened.get(number, (number, None, b"", 0))
        self._happened[number] = number, head, before + data, flags | flag

    def _end(self) -> None:
        self._is_over = True
        streams, self._streams, self._unsent_size = self._streams, {}, 0
        for each in streams:
            self._note(each, flag=RESET)

    # ------------------------------------------------------------------ answers

    def respond(self, stream: int, headers: Fields, data: bytes, trailers: Fields | None) -> bool:
        """Begin to answer a request; with trailers this is the whole answer.

        Returns:
            Whether the client still waits for it.
        """
        found = self._streams.get(stream)
        if found is None or found.is_begun:
            return False
        found.is_begun = True
        self._served.send_headers(stream, [(":status", "200"), *headers])
        found.unsent += data
        self._unsent_size += len(data)
        found.trailers = trailers
        self._pump(stream)
        return True

    def refuse(self, stream: int, status: int, headers: Fields) -> bool:
        """Answer a request with headers alone.

        Returns:
            Whether the client still waits for it.
        """
        found = self._streams.get(stream)
        if found is None or found.is_begun:
            return False
        fields = [(":status", str(status)), *headers]
        self._served.send_headers(stream, fields, end_stream=True)
        self._close(stream)
        return True

    def send(self, stream: int, data: bytes) -> int:
        """Send more of an answer.

        Returns:
            Bytes of the answer that the client has no room for; `DRAINED` says when it has.
        """
        found = self._streams.get(stream)
        if found is None or not found.is_begun:
            return 0
        found.unsent += data
        self._unsent_size += len(data)
        self._pump(stream)
        found.is_full = bool(found.unsent)
        return len(found.unsent)

    def finish(self, stream: int, trailers: Fields) -> None:
        """End an answer that was begun."""
        found = self._streams.get(stream)
        if found is not None and found.is_begun:
            found.trailers = trailers
            self._pump(stream)

    def reset(self, stream: int, code: int) -> None:
        """Give a stream up, for a reason by its number."""
        if self._drop(stream):
            self._served.reset_stream(stream, code)

    def _drop(self, number: int) -> bool:
        """Forget a stream; return whether it was known."""
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._unsent_size -= len(stream.unsent)
        return stream is not None

    def shut(self) -> None:
        """Take no more requests, and end when the open ones have ended."""
        if not self._is_over and not self._is_shut:
            self._is_shut = True
            # The library's own call would refuse to send answers afterwards.
            last = self._served.highest_inbound_stream_id
            self._goodbye = GoAwayFrame(0, last_stream_id=last).serialize()

    def _pump(self, number: int) -> None:
        """Send what the client takes now."""
        stream = self._streams.get(number)
        if stream is None or not stream.is_begun:
            return
        while stream.unsent:
            room = self._served.local_flow_control_window(number)
            count = min(room, self._served.max_outbound_frame_size, len(stream.unsent))
            if count <= 0:
                return
            self._served.send_data(number, bytes(stream.unsent[:count]))
            del stream.unsent[:count]
            self._unsent_size -= count
        if stream.trailers is not None:
            self._served.send_headers(number, stream.trailers, end_stream=True)
            self._close(number)
        elif stream.is_full:
            stream.is_full = False
            self._note(number, flag=DRAINED)

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number)
        if stream.is_open:
            self._served.reset_stream(number, ErrorCodes.NO_ERROR)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
