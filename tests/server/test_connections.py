"""Connections: what one peer does wrong, or leaves undone, is no matter of the others."""

from __future__ import annotations

import socket
import struct

import pytest
import wirescript
from hypothesis import given, settings
from hypothesis import strategies as st
from wirepeer import WirePeer

from reput import Message
from reput_client.remoting import (
    Command,
    QueueOf,
    RequestCode,
    ResponseCode,
    encode_frame,
    sign,
)
from reput_server import Limits

QUEUE = QueueOf(topic="orders", queue_id=0)


def test_a_field_that_is_missing_is_named_and_the_connection_stays(served):
    peer = served.peer()

    answer = peer.ask(RequestCode.GET_MAX_OFFSET)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "'topic' is missing" in answer.remark
    assert peer.ask(RequestCode.GET_MAX_OFFSET, QUEUE).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 1 << 30),
        struct.pack(">i", -1),
        struct.pack(">iI", 10, 3 << 24),
        struct.pack(">iI", 6, 2) + b"{]",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_malformed_frame_closes_its_connection_and_no_other(served, data):
    good, bad = served.peer(), served.peer()

    bad.socket.sendall(data)

    assert bad.is_closed()
    assert good.ask(RequestCode.GET_MAX_OFFSET, QUEUE).code == ResponseCode.SUCCESS


def test_requests_that_come_in_pieces_and_in_heaps_are_all_answered(served):
    peer = served.peer()
    frames = b"".join(
        encode_frame(Command.request(RequestCode.GET_MIN_OFFSET, QUEUE, opaque=number))
        for number in range(1_000)
    )

    for start in range(0, len(frames), 4_999):
        peer.socket.sendall(frames[start : start + 4_999])

    assert {peer.receive().opaque for _ in range(1_000)} == set(range(1_000))


@pytest.mark.parametrize(
    "limits",
    [
        Limits(unread_bytes=1 << 20, requests_per_peer=16),
        Limits(bytes_of_all=4 << 20, requests_per_peer=16),
    ],
    ids=["alone", "together"],
)
def test_a_peer_that_never_reads_is_not_read_any_more_and_then_cut(serve, limits):
    served = serve(limits=limits)
    served.store.put_many([Message("orders", bytes(200_000)) for _ in range(4)])
    served.store.wait_dispatched()
    deaf = served.peer()
    pull = wirescript.pull(max_msg_bytes=4 << 20)
    frames = encode_frame(Command.request(RequestCode.PULL_MESSAGE, pull)) * 200

    with pytest.raises(ConnectionError):
        send_for_ever(deaf, frames)

    assert served.peer().ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == ResponseCode.SUCCESS
    assert served.server.service.deaf == set()


def send_for_ever(peer, frames):
    for _ in range(10_000):
        peer.socket.sendall(frames)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_bytes_leave_the_server_as_it_was(shared, data):
    frame = bytearray(encode_frame(Command.request(RequestCode.GET_MIN_OFFSET, QUEUE)))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with WirePeer(shared.server.address) as peer:
        peer.socket.sendall(bytes(frame) + data.draw(st.binary(max_size=50)))
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.is_closed()

    with WirePeer(shared.server.address) as peer:
        assert peer.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == ResponseCode.SUCCESS


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    import reput
    from reput_server import ServerConfig, serving

    path = tmp_path_factory.mktemp("shared")
    with reput.open(path, plugins={"consumequeue", "consumer"}) as store:
        with serving(store, ServerConfig(listen=("127.0.0.1", 0), name_server=None)) as server:
            yield type("Shared", (), {"server": server})


# --------------------------------------------------------------------------- access keys


def test_with_access_keys_only_who_has_one_is_served(serve):
    served = serve(access_keys={"me": "secret"})
    request = Command.request(RequestCode.GET_MIN_OFFSET, QUEUE)

    answers = [
        ask_with(served.peer(), command)
        for command in (
            request,
            sign(request, "you", "secret"),
            sign(request, "me", "guessed"),
            sign(request, "me", "secret"),
        )
    ]

    assert [answer.code for answer in answers] == [16, 16, 16, 0]
    assert [answer.remark for answer in answers] == [
        "no known access key: found none",
        "no known access key: found 'you'",
        "the signature is not that of access key 'me'",
        None,
    ]


def ask_with(peer, command):
    peer.send(command)
    return peer.receive()
