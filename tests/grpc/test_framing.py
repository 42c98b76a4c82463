"""Bytes of gRPC calls: messages, statuses and times."""

from __future__ import annotations

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_server.grpc.transport.framing import (
    MESSAGE_MAX,
    CallError,
    Messages,
    RpcStatus,
    framed,
    seconds_of,
    trailers,
)
from reput_server.grpc.transport.inflation import INFLATE_MAX


def compressed(message: bytes) -> bytes:
    return b"\1" + framed(message)[1:]


def fed(reader: Messages, data: bytes) -> list[bytes]:
    found = reader.feed(data)
    while reader.is_behind:
        assert reader.is_cut_short
        before = reader.held_size
        new = reader.feed(b"")
        assert new or reader.held_size - before == INFLATE_MAX
        found += new
    return found


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_messages_are_the_same_wherever_their_bytes_are_cut(messages, data):
    whole = b"".join(framed(each) for each in messages)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12).map(sorted))
    reader, found = Messages(), []

    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += reader.feed(whole[begin:end])

    assert found == messages
    assert not reader.is_cut_short


def test_a_message_without_its_end_is_cut_short():
    reader = Messages()
    assert reader.feed(framed(b"abc")[:-1]) == []
    assert reader.is_cut_short


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_compressed_messages_are_read(encoding, compress):
    assert Messages(encoding).feed(compressed(compress(b"a" * 99))) == [b"a" * 99]


@pytest.mark.parametrize(
    ("encoding", "data", "status"),
    [
        ("identity", compressed(b"abc"), RpcStatus.UNIMPLEMENTED),
        ("snappy", compressed(b"abc"), RpcStatus.UNIMPLEMENTED),
        ("gzip", b"\2" + framed(gzip.compress(b"abc", mtime=0))[1:], RpcStatus.UNIMPLEMENTED),
        ("gzip", compressed(b"abc"), RpcStatus.INTERNAL),
        ("gzip", compressed(gzip.compress(b"abc", mtime=0)[:-9]), RpcStatus.INTERNAL),
        ("gzip", compressed(gzip.compress(bytes(MESSAGE_MAX + 1))), RpcStatus.RESOURCE_EXHAUSTED),
        ("identity", b"\0" + (MESSAGE_MAX + 1).to_bytes(4, "big"), RpcStatus.RESOURCE_EXHAUSTED),
        ("identity", b"\0\xff\xff\xff\xff", RpcStatus.RESOURCE_EXHAUSTED),
    ],
)
def test_a_message_that_cannot_be_read_has_a_status(encoding, data, status):
    with pytest.raises(CallError) as failed:
        fed(Messages(encoding), data)
    assert failed.value.status == status


def test_a_compressed_message_may_be_as_large_as_others():
    message = bytes(MESSAGE_MAX)
    assert fed(Messages("gzip"), compressed(gzip.compress(message, mtime=0))) == [message]


def test_no_call_decompresses_more_than_one_turn_of_the_loop_may():
    large, small = bytes(2 * INFLATE_MAX + 5), bytes(3)
    data = b"".join(compressed(gzip.compress(each, mtime=0)) for each in (large, small, large))
    reader, sizes = Messages("gzip"), []
    data += framed(b"plain") + framed(b"half")[:-1]

    found = reader.feed(data)
    while reader.is_behind:
        sizes.append(reader.held_size + sum(map(len, found)))
        found += reader.feed(b"")

    assert found == [large, small, large, b"plain"]
    assert len(sizes) == 5
    assert all(b - a <= INFLATE_MAX for a, b in itertools.pairwise(sizes))
    assert reader.is_cut_short
    assert reader.feed(b"f") == [b"half"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("1H", 3_600.0),
        ("2M", 120.0),
        ("3S", 3.0),
        ("2999m", 2.999),
        ("5u", 5e-6),
        ("7n", 7e-9),
        ("", None),
        ("123456789S", None),
        ("3", None),
        ("-1S", None),
        ("٣S", None),
    ],
)
def test_how_long_a_client_waits(text, seconds):
    assert seconds_of(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain text, it's 1/2 (ok)", "plain text, it's 1/2 (ok)"),
        ("100%", "100%25"),
        ("é\n", "%C3%A9%0A"),
        ("\ud800", "?"),
    ],
)
def test_a_status_has_its_text_as_headers_take_it(text, written):
    assert trailers(RpcStatus.INTERNAL, text) == [("grpc-status", "13"), ("grpc-message", written)]


def test_a_text_is_as_long_as_headers_may_be():
    [_, (_, text)] = trailers(RpcStatus.INTERNAL, "é" * 100_000)
    assert len(text) <= 6_000
    assert trailers() == [("grpc-status", "0")]
