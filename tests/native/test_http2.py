"""HTTP/2 connections of both engines: the same events, wherever the bytes are cut; no error."""

from __future__ import annotations

from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import given
from hypothesis import strategies as st

from reput.engine import REFERENCES
from reput_server.grpc.transport.http2 import RESET, Http2Connection

SIZES = (8, 8_192, 1 << 16, 1 << 17)
REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/s/m"), (":authority", "a")]
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.binary(max_size=300), st.booleans()),
    st.tuples(st.just("more"), st.binary(max_size=300), st.booleans()),
    st.tuples(st.just("reset"), st.integers(0, 13)),
    st.tuples(st.just("ping")),
    st.tuples(st.just("window"), st.integers(1, 1_000)),
)


def script(steps: list[tuple[Any, ...]]) -> bytes:
    """What a client says that takes these steps."""
    me = H2Connection(H2Configuration(client_side=True))
    me.initiate_connection()
    open_streams: list[int] = []
    for number, (kind, *rest) in enumerate(steps):
        if kind == "ask" and len(open_streams) < SIZES[0]:
            stream = me.get_next_available_stream_id()
            me.send_headers(stream, [*REQUEST, ("x-number", str(number))])
            me.send_data(stream, rest[0], end_stream=rest[1])
            if not rest[1]:
                open_streams.append(stream)
        elif kind == "ping":
            me.ping(b"12345678")
        elif kind == "window":
            me.increment_flow_control_window(rest[0])
        elif kind in ("more", "reset") and open_streams:
            stream = open_streams[number % len(open_streams)]
            if kind == "reset":
                me.reset_stream(stream, rest[0])
            else:
                me.send_data(stream, rest[0], end_stream=rest[1])
            if kind == "reset" or rest[1]:
                open_streams.remove(stream)
    return me.data_to_send()


def run(engine: Any, pieces: list[bytes]) -> tuple[dict[int, tuple[Any, ...]], bool]:
    """Return head, data and flags of each stream, and whether the connection has ended."""
    served, found = engine(*SIZES), {}
    for piece in pieces:
        for number, head, data, flags in served.receive(piece)[0]:
            first, before, known = found.get(number, (head, b"", 0))
            found[number] = first, before + data, known | flags
    return found, served.is_over


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted(min(each, len(data)) for each in cuts)
    pieces = [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]
    return [each for each in pieces if each]


@given(st.lists(STEPS, max_size=20), st.lists(st.integers(0, 3_000), max_size=9))
def test_both_engines_report_the_same_events(steps, cuts):
    data = script(steps)

    found, is_over = run(Http2Connection, cut(data, cuts))
    expected, was_over = run(REFERENCES[Http2Connection], [data])

    assert is_over == was_over == False  # noqa: E712
    for number, (head, body, flags) in found.items():
        first, before, known = expected[number]
        assert (head, flags) == (first, known)
        # Of a stream that is given up, an engine may drop what nobody has taken yet.
        assert body == before or flags & RESET
    assert set(found) == set(expected)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5), st.booleans())
def test_any_bytes_are_taken_without_an_error(noise, cuts, is_greeted):
    hello = script([("ask", b"body", False)]) if is_greeted else b""
    for engine in (Http2Connection, REFERENCES[Http2Connection]):
        served = engine(*SIZES)
        for piece in cut(hello + noise, cuts):
            served.receive(piece)
        happened, _ = served.receive(b"")
        assert served.is_over
        assert all(flags & RESET for _, _, _, flags in happened)
        assert served.flush() == ([], b"")


def test_a_compiled_connection_refuses_what_http_does_not_allow():
    served = Http2Connection(*SIZES)
    served.receive(script([("ask", b"", True)]))

    with pytest.raises(ValueError, match="header"):
        served.respond(1, [("a", "b\r\nc: d")], b"", None)
    with pytest.raises(ValueError, match="status"):
        served.refuse(1, 1, [])
    assert served.refuse(1, 415, [])
