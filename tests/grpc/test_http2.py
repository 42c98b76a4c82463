"""The server's side of HTTP/2 connections; the package h2 is the client."""

from __future__ import annotations

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from reput_server.grpc.transport.http2 import DRAINED, ENDED, RESET, Http2Connection

REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/s/m?x=1"), (":authority", "a")]
HEADERS = [("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]
GOAWAY = 7


def frames_of(data: bytes) -> list[int]:
    """Return where frames begin."""
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += 9 + int.from_bytes(data[at : at + 3], "big")
    return found


class Client:
    """The client's side, and both ends of the wire."""

    def __init__(self, **sizes: int) -> None:
        usual = {"streams": 10, "header_size": 8_192}
        windows = {"stream_window": 1 << 16, "connection_window": 1 << 17}
        self.served = Http2Connection(*(usual | windows | sizes).values())
        self.me = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.me.initiate_connection()
        self.events: list = []
        self.exchange()

    def exchange(self) -> list:
        """Let both sides say all that they have to say; return what happens at the server."""
        found, happened = [], None
        while happened != [] or self.me._data_to_send:
            said = self.me.data_to_send()
            happened, written = self.served.receive(said) if said else self.served.flush()
            found += happened
            if written:
                self.events += self.me.receive_data(written)
        return found

    def ask(self, body: bytes = b"body", *more: tuple[str, str], ends: bool = True) -> int:
        stream = self.me.get_next_available_stream_id()
        self.me.send_headers(stream, [*REQUEST, *more])
        self.me.send_data(stream, body, end_stream=ends)
        return stream

    def seen(self, kind: type, stream: int) -> list:
        return [each for each in self.events if isinstance(each, kind) and each.stream_id == stream]

    def data(self, stream: int) -> bytes:
        return b"".join(each.data for each in self.seen(DataReceived, stream))


def test_a_request_and_its_answer():
    client = Client()
    stream = client.ask(b"body", ("x-mq-client-id", "é"))

    [(number, head, data, flags)] = client.exchange()
    assert (number, data, flags) == (stream, b"body", ENDED)
    assert head == {":method": "POST", ":path": "/s/m", "x-mq-client-id": "é"}

    assert client.served.respond(stream, HEADERS, b"answer", TRAILERS)
    assert client.exchange() == []
    [answered] = client.seen(ResponseReceived, stream)
    assert dict(answered.headers) == {":status": "200", **dict(HEADERS)}
    assert client.data(stream) == b"answer"
    [ended] = client.seen(TrailersReceived, stream)
    assert dict(ended.headers) == dict(TRAILERS)
    assert client.seen(StreamEnded, stream)
    assert not client.served.respond(stream, HEADERS, b"again", TRAILERS)


def test_a_blank_value_ends_no_connection():
    client = Client()
    client.me.config.normalize_outbound_headers = False
    client.me.config.validate_outbound_headers = False

    stream = client.ask(b"body", ("x-mq-client-id", " "))

    [(number, head, data, _)] = client.exchange()
    assert (number, data, head["x-mq-client-id"]) == (stream, b"body", " ")


def test_an_answer_of_headers_alone():
    client = Client()
    stream = client.ask()
    client.exchange()

    assert client.served.refuse(stream, 415, [])
    client.exchange()

    [answered] = client.seen(ResponseReceived, stream)
    assert dict(answered.headers) == {":status": "415"}
    assert client.seen(StreamEnded, stream)


def test_an_answer_that_ends_before_its_request_stops_the_request():
    client = Client()
    stream = client.ask(ends=False)
    client.exchange()

    assert client.served.refuse(stream, 200, TRAILERS)
    assert client.exchange() == []

    assert client.seen(StreamEnded, stream)
    [reset] = client.seen(StreamReset, stream)
    assert reset.error_code == ErrorCodes.NO_ERROR


def test_a_large_request_comes_through_small_windows():
    client = Client()
    stream = client.me.get_next_available_stream_id()
    client.me.send_headers(stream, REQUEST)
    body, taken, flags = bytes(range(256)) * 4_096, b"", 0
    left = body
    while left:
        count = min(client.me.local_flow_control_window(stream), 16_384, len(left))
        client.me.send_data(stream, left[:count], end_stream=count == len(left))
        left = left[count:]
        for _, _, data, flag in client.exchange():
            taken += data
            flags |= flag

    assert taken == body
    assert flags == ENDED


def test_an_answer_waits_until_its_client_has_room():
    client = Client()
    stream = client.ask()
    client.exchange()

    assert client.served.respond(stream, HEADERS, b"", None)
    assert client.served.send(stream, b"a" * 50_000) == 0
    assert client.exchange() == []  # what was sent at once was waited for by nobody
    unsent = client.served.send(stream, b"b" * 100_000)
    assert unsent == 150_000 - 65_535
    client.me.increment_flow_control_window(1 << 20)
    assert client.exchange() == []
    client.me.increment_flow_control_window(1 << 20, stream)

    assert client.exchange() == [(stream, None, b"", DRAINED)]
    client.served.finish(stream, TRAILERS)
    client.exchange()
    assert client.data(stream) == b"a" * 50_000 + b"b" * 100_000
    assert client.seen(StreamEnded, stream)


def test_a_client_gives_up_and_the_connection_goes_on():
    client = Client()
    first, second = client.ask(), client.ask()
    client.exchange()

    client.me.reset_stream(first, ErrorCodes.CANCEL)
    assert client.exchange() == [(first, None, b"", RESET)]
    assert not client.served.respond(first, HEADERS, b"late", TRAILERS)
    assert client.served.send(first, b"late") == 0
    client.served.finish(first, TRAILERS)
    assert client.served.respond(second, HEADERS, b"answer", TRAILERS)
    client.exchange()
    assert client.data(second) == b"answer"


def test_a_client_makes_room_and_gives_up_in_one_piece():
    client = Client()
    slow, other = client.ask(), client.ask()
    client.exchange()
    client.served.respond(slow, HEADERS, b"", None)
    client.served.send(slow, b"a" * 70_000)  # more than there is room for
    client.exchange()

    client.me.increment_flow_control_window(10_000)
    client.me.increment_flow_control_window(10_000, slow)
    client.me.reset_stream(slow, ErrorCodes.CANCEL)

    assert [(number, flags & RESET) for number, _, _, flags in client.exchange()] == [(slow, RESET)]
    assert client.served.respond(other, HEADERS, b"answer", TRAILERS)
    client.exchange()
    assert client.data(other) == b"answer"


def test_many_requests_begun_and_given_up_in_one_piece_end_nothing_else():
    client = Client(streams=100)
    first = client.ask()
    client.exchange()

    for _ in range(40):
        client.me.reset_stream(client.ask(ends=False), ErrorCodes.CANCEL)
    client.exchange()

    assert not client.served.is_over
    assert client.served.respond(first, HEADERS, b"answer", TRAILERS)
    client.exchange()
    assert client.data(first) == b"answer"


def test_the_server_gives_up():
    client = Client()
    stream = client.ask()
    client.exchange()

    client.served.reset(stream, ErrorCodes.INTERNAL_ERROR)
    client.exchange()

    [reset] = client.seen(StreamReset, stream)
    assert reset.error_code == ErrorCodes.INTERNAL_ERROR


def test_what_is_not_http2_ends_the_connection():
    served = Http2Connection(10, 8_192, 1 << 16, 1 << 17)
    served.receive(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
    assert served.is_over

    client = Client()
    stream = client.ask(ends=False)
    client.exchange()
    happened, _ = client.served.receive(b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x")
    assert [(number, flags) for number, _, _, flags in happened] == [(stream, RESET)]
    assert client.served.is_over


def test_a_connection_that_ends_ends_its_streams():
    client = Client()
    streams = {client.ask(ends=False), client.ask()}
    client.exchange()

    happened, _ = client.served.receive(b"")

    assert client.served.is_over
    assert {number for number, _, _, flags in happened if flags & RESET} == streams


def test_a_connection_is_shut_and_what_was_begun_is_answered():
    client = Client()
    stream = client.ask()
    client.exchange()

    client.served.shut()
    _, said = client.served.flush()  # and not read by the client: its library would end there
    assert GOAWAY in {said[at + 3] for at in frames_of(said)}
    assert not client.served.is_over
    assert client.served.respond(stream, HEADERS, b"answer", TRAILERS)
    _, said = client.served.flush()
    assert b"answer" in said
    client.served.receive(b"")
    assert client.served.is_over


def test_a_client_that_says_goodbye_may_get_its_answer_and_nothing_is_raised():
    client = Client()
    stream = client.ask()
    client.exchange()
    client.me.close_connection()

    client.served.receive(client.me.data_to_send())
    is_taken = client.served.respond(stream, HEADERS, b"answer", TRAILERS)
    _, said = client.served.flush()

    assert (b"answer" in said) == is_taken
    client.served.receive(b"")
    assert client.served.is_over


@pytest.mark.parametrize("count", [3, 10])
def test_a_client_may_have_so_many_requests_at_once(count):
    client = Client(streams=count)
    assert client.me.remote_settings.max_concurrent_streams == count


def test_headers_that_are_too_large_are_not_taken():
    client = Client(header_size=2_000)
    client.ask(b"", ("a", "x" * 3_000))
    heads = [head for _, head, _, _ in client.exchange() if head]
    assert heads == []


def test_what_the_client_has_no_room_for_is_counted_until_it_is_gone():
    client = Client()
    first, second, third = (client.ask() for _ in range(3))
    client.exchange()

    assert client.served.unsent_size == 0
    client.served.respond(first, HEADERS, bytes(70_000), TRAILERS)
    assert client.served.unsent_size == 70_000 - 65_535
    client.served.respond(second, HEADERS, bytes(100), TRAILERS)
    client.served.respond(third, HEADERS, b"", None)
    client.served.send(third, bytes(10))
    assert client.served.unsent_size == 70_000 - 65_535 + 110
    client.me.reset_stream(third)
    client.exchange()
    assert client.served.unsent_size == 70_000 - 65_535 + 100
    client.served.reset(second, ErrorCodes.CANCEL)
    assert client.served.unsent_size == 70_000 - 65_535
    client.me.increment_flow_control_window(100_000)
    client.me.increment_flow_control_window(100_000, first)
    client.exchange()
    assert client.served.unsent_size == 0

    fourth = client.ask()
    client.exchange()
    client.served.respond(fourth, HEADERS, bytes(200_000), TRAILERS)
    assert client.served.unsent_size > 0
    client.served.receive(b"")
    assert client.served.unsent_size == 0
