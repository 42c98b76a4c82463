"""Connections of clients that are slow, wrong, many or gone."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from certificates import make_certificates
from grpcclient import SERVICE, WAIT, GrpcClient
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from reput_server.grpc.messagetypes import m
from reput_server.grpc.transport.framing import Messages, framed
from reput_server.testing.localbroker import LocalBroker

ROUTE = m.QueryRouteRequest(topic=m.Resource(name="orders"))


class Raw:
    """A client that sends what it is told to."""

    def __init__(self, endpoints: str) -> None:
        host, port = endpoints.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), WAIT)
        self.me = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.me.initiate_connection()
        self.data = bytearray()  # of the last answer
        self.send()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self) -> None:
        self.socket.sendall(self.me.data_to_send())

    def begin(self, name: str, *more: tuple[str, str], **changes: str) -> int:
        stream = self.me.get_next_available_stream_id()
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": SERVICE + name,
            ":authority": "a",
            "content-type": "application/grpc",
            **{f":{name}": value for name, value in changes.items()},
        }
        fields |= dict(more)
        self.me.send_headers(stream, list(fields.items()))
        return stream

    def ended(self, stream: int) -> dict[str, str]:
        """Return the headers and trailers of an answer; ``reset`` if it was broken off."""
        self.send()
        self.data = bytearray()
        found: dict[str, str] = {}
        while True:
            data = self.socket.recv(1 << 16)
            if not data:
                return {"closed": "yes"}
            for event in self.me.receive_data(data):
                if getattr(event, "stream_id", 0) != stream:
                    continue
                match event:
                    case ResponseReceived() | TrailersReceived():
                        found |= dict(event.headers)
                    case DataReceived():
                        self.data += event.data
                        size = event.flow_controlled_length
                        self.me.acknowledge_received_data(size, stream)
                    case StreamEnded():
                        return found
                    case StreamReset():
                        return {"reset": str(int(event.error_code))}
            self.send()


@pytest.fixture
def raw(broker: LocalBroker) -> Iterator[Raw]:
    with Raw(broker.endpoints) as found:
        yield found


def test_a_method_that_nobody_has_is_not_implemented(raw):
    stream = raw.begin("Nothing")
    raw.me.send_data(stream, framed(b""), end_stream=True)
    ended = raw.ended(stream)
    assert ended[":status"] == "200"
    assert ended["grpc-status"] == "12"
    assert "Nothing" in ended["grpc-message"]


def test_what_is_not_grpc_is_told_so_in_http(raw):
    for more, changes in (
        ([("content-type", "application/json")], {}),
        ([], {"method": "GET"}),
    ):
        stream = raw.begin("QueryRoute", *more, **changes)
        raw.me.send_data(stream, b"{}", end_stream=True)
        assert raw.ended(stream)[":status"] == "415"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", "12"),  # no message
        (framed(b"") * 2, "12"),  # more than one
        (framed(b"\x0a\x05a"), "13"),  # not one of protobuf
        (framed(b"abc")[:-1], "13"),  # cut short
        (b"\1" + framed(b"abc")[1:], "12"),  # compressed in no way
        (b"\0\xff\xff\xff\xff", "8"),  # too large
    ],
)
def test_a_request_that_cannot_be_read_has_a_status_and_the_connection_goes_on(raw, data, status):
    stream = raw.begin("QueryRoute")
    raw.me.send_data(stream, data, end_stream=True)
    assert raw.ended(stream)["grpc-status"] == status

    stream = raw.begin("QueryRoute")
    raw.me.send_data(stream, framed(ROUTE.SerializeToString()), end_stream=True)
    assert raw.ended(stream)["grpc-status"] == "0"


def test_a_request_that_is_too_large_ends_while_it_comes(raw):
    stream = raw.begin("SendMessage")
    raw.me.send_data(stream, b"\0\x7f\xff\xff\xff" + bytes(1_000))
    assert raw.ended(stream)["grpc-status"] == "8"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n" * 9, bytes(100), b"\xff" * 5_000])
def test_what_is_not_http2_closes_its_connection_and_no_other(broker, client, data):
    broker.create_topic("orders")
    host, port = broker.endpoints.rsplit(":", 1)
    with socket.create_connection((host, int(port)), WAIT) as wrong:
        wrong.sendall(data)
        while wrong.recv(1 << 16):
            pass

    assert client().call("QueryRoute", ROUTE).status.code == 20000


def test_large_answers_come_whole_through_small_windows(broker, client, raw):
    broker.create_topic("large")
    me, bodies = client("me"), [chr(97 + number) * 3_000_000 for number in range(6)]
    me.produce("large")
    for each in bodies:
        assert me.send("large", each).status.code == 20000
    me.consume("g", "large")
    found: list[str] = []
    while len(found) < len(bodies):
        stream = raw.begin("ReceiveMessage", ("x-mq-client-id", "me"))
        request = me.request("g", "large", long_polling_timeout=m.Duration(seconds=5))
        raw.me.send_data(stream, framed(request.SerializeToString()), end_stream=True)

        assert raw.ended(stream)["grpc-status"] == "0"  # 64 KiB at a time

        parts = map(m.ReceiveMessageResponse.FromString, Messages().feed(bytes(raw.data)))
        found += [each.message.body.decode() for each in parts if each.HasField("message")]
    assert sorted(found) == bodies


def test_messages_for_a_client_that_reads_nothing_come_again(broker, client, raw):
    broker.create_topic("unread")
    me = client("me")
    me.produce("unread")
    for number in range(8):
        me.send("unread", str(number) * 2_000_000)
    me.consume("g", "unread")
    stream = raw.begin("ReceiveMessage", ("x-mq-client-id", "other"))
    request = me.request("g", "unread", long_polling_timeout=m.Duration(seconds=5))
    raw.me.send_data(stream, framed(request.SerializeToString()), end_stream=True)
    raw.send()
    assert raw.socket.recv(1)  # the answer begins
    raw.socket.close()

    found: set[str] = set()
    deadline = time.monotonic() + WAIT
    while len(found) < 7 and time.monotonic() < deadline:
        _, messages = me.receive("g", "unread", long_polling_timeout=m.Duration(seconds=5))
        found |= {each.body.decode()[:1] for each in messages}
    # All but those that were on their way: these come again when their time is over.
    assert len(found) >= 7


def settled(listener: Any) -> tuple[int, int]:
    """Return calls and held bytes of a listener, once no call is left or time is over."""
    pause, deadline = threading.Event(), time.monotonic() + WAIT
    while listener._call_count and time.monotonic() < deadline:
        pause.wait(0.02)
    return listener._call_count, listener._held_size


def test_calls_of_clients_that_are_killed_are_forgotten():
    with LocalBroker(grpc=True) as broker:
        listener = broker._running.grpc._listener
        for _ in range(10):
            raw = Raw(broker.endpoints)
            for _ in range(60):
                stream = raw.begin("QueryRoute", ("x-mq-client-id", "me"))
                raw.me.send_data(stream, framed(ROUTE.SerializeToString()), end_stream=True)
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.send()
            raw.socket.close()  # at once, and by a reset
        with GrpcClient(broker.endpoints) as me:  # after all of these
            assert me.call("QueryRoute", ROUTE).status.code == 40402

        assert settled(listener) == (0, 0)


@pytest.mark.costly
def test_compressed_requests_count_as_they_are_in_memory():
    bomb = gzip.compress(bytes(15 << 20))
    with LocalBroker(grpc=True) as broker, Raw(broker.endpoints) as raw:
        listener = broker._running.grpc._listener
        stream = raw.begin("QueryRoute")
        raw.me.send_data(stream, framed(ROUTE.SerializeToString()), end_stream=True)
        assert raw.ended(stream)["grpc-status"] == "0"  # the server's windows are known now
        for number in range(20):
            stream = raw.begin("SendMessage", ("grpc-encoding", "gzip"))
            raw.me.send_data(stream, b"\1" + framed(bomb)[1:])  # and no end
            raw.send()
            if number == 2:
                last = stream
        assert raw.ended(stream)["grpc-status"] == "8"
        assert 0 < listener._held_size <= listener.limits.bytes_of_all
        raw.me.reset_stream(last)
        raw.send()
        raw.socket.close()

        assert settled(listener) == (0, 0)


def test_a_record_of_tls_that_is_not_valid_ends_its_connection_once(tmp_path, caplog):
    files = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(files.ca))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    with LocalBroker(grpc=True, tls=files.tls()) as broker:
        host, port = broker.endpoints.rsplit(":", 1)
        with socket.create_connection((host, int(port)), WAIT) as plain:
            bare = socket.socket(fileno=os.dup(plain.fileno()))
            with bare, context.wrap_socket(plain) as encrypted:
                assert encrypted.selected_alpn_protocol() == "h2"
                bare.sendall(b"\x17\x03\x03\x00\x40" + b"z" * 64)
                with contextlib.suppress(OSError):
                    while encrypted.recv(1 << 16):
                        pass
        with GrpcClient(broker.endpoints) as me:
            assert me.call("QueryRoute", ROUTE).status.code == 40402

    assert len([each for each in caplog.messages if "encryption failed" in each]) <= 2
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_calls_that_wait_end_with_the_server():
    broker = LocalBroker(grpc=True)
    with broker, GrpcClient(broker.endpoints) as me, ThreadPoolExecutor(1) as pool:
        broker.create_topic("orders")
        me.consume("g", "orders")
        waits = m.Duration(seconds=25)
        poll = pool.submit(me.receive, "g", "orders", long_polling_timeout=waits)
        service, pause = broker._running.grpc, threading.Event()
        while not service.figures().waiting_count:
            pause.wait(0.01)

        broker.__exit__(None, None, None)

        with pytest.raises(grpc.RpcError) as failed:
            poll.result(WAIT)
        # After 25 s it would have got an answer without messages.
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
        broker.__enter__()  # for the end of the block


def sends(raw, *bodies, compressed=()):
    """Have a client say that it sends each body; the caller sends the bytes."""
    streams = []
    for body in bodies:
        request = m.SendMessageRequest()
        request.messages.add(
            topic=m.Resource(name="one-queue"),
            body=body.encode(),
            system_properties=m.SystemProperties(message_id=body[:9], message_type=1),
        )
        data = request.SerializeToString()
        if body in compressed:
            packed = gzip.compress(data)
            framed_data = b"\1" + len(packed).to_bytes(4, "big") + packed
        else:
            framed_data = framed(data)
        stream = raw.begin("SendMessage", ("x-mq-client-id", "raw"), ("grpc-encoding", "gzip"))
        streams.append((stream, framed_data))
    return streams


@pytest.mark.parametrize("large", [1, 1 << 20])
def test_sends_of_one_read_are_stored_in_their_order(broker, raw, large):
    broker.create_topic("one-queue", queues=1)
    before = len(broker.messages("one-queue"))
    words = [f"a{number}" * (large if number in (1, 2, 6) else 1) for number in range(12)]
    streams = sends(raw, *words, compressed=(words[1], words[2], words[6]))
    for stream, data in streams:
        raw.me.send_data(stream, data, end_stream=True)

    assert raw.ended(streams[-1][0])["grpc-status"] == "0"

    broker.store.wait_dispatched()
    found = [bytes(each.body).decode() for each in broker.messages("one-queue")]
    assert found[before:] == words


def test_a_send_that_comes_in_two_reads_is_stored_before_those_behind_it(broker, raw):
    broker.create_topic("one-queue", queues=1)
    words = ["b0", "b1", "b2"]
    streams = sends(raw, *words)
    first, data = streams[0]
    raw.me.send_data(first, data[:20])
    raw.me.ping(b"received")
    raw.send()
    while not any(
        isinstance(event, PingAckReceived)
        for event in raw.me.receive_data(raw.socket.recv(1 << 16))
    ):
        pass
    raw.me.send_data(first, data[20:], end_stream=True)
    for stream, data in streams[1:]:
        raw.me.send_data(stream, data, end_stream=True)

    assert raw.ended(streams[-1][0])["grpc-status"] == "0"

    broker.store.wait_dispatched()
    found = [bytes(each.body).decode() for each in broker.messages("one-queue")]
    assert [each for each in found if each.startswith("b")] == words
