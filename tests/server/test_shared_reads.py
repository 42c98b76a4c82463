"""Connections that only send are read together: with the same answers in the same order."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import socket
import threading

import pytest
import sendlanes
from certificates import make_certificates
from durablesends import COMPILED, SEND, ordinary
from hypothesis import HealthCheck, given, settings
from sendlanes import ADDRESS, both_places, place_of
from wirepeer import message

from reput_client.remoting import Command, RequestCode, ResponseCode, encode_frame
from reput_server.broker.send.fastpath import SendFastPath, send_lane
from reput_server.wire import serverconnection as peer_module
from reput_server.wire.sockets import write_sockets

LANES = pytest.mark.parametrize("make", [send_lane, SendFastPath])


# --------------------------------------------------------------------------- the lane


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    with both_places(tmp_path_factory.mktemp("lanes")) as found:
        yield found


@pytest.fixture
def pair():
    ours, other = socket.socketpair()
    ours.setblocking(False)
    with ours, other:
        yield ours, other


def received(other):
    other.setblocking(False)
    try:
        return other.recv(1 << 22)
    except BlockingIOError:
        return b""


def read_of(place, stream, answers=True):
    """What a lane takes of a socket with these bytes, what is left, and what it has answered."""
    ours, other = socket.socketpair()
    ours.setblocking(False)
    with ours, other:
        other.sendall(stream)
        taken = place.lane.take_sockets([(ours.fileno(), ADDRESS)], answers)
        return taken, received(other)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(sendlanes.streams())
def test_a_socket_gives_what_its_bytes_give(places, data):
    data = bytes(data)[: 150 << 10] or b"\0"  # what a pair of sockets holds at once

    one, other = (read_of(place, data) for place in places)

    assert one == other
    answers, end, count, *_ = [place.take(data) for place in places][1]
    (taken, rests, kept), written = one
    assert (taken, written.count(b"msgId"), kept) == (count, answers.count(b"msgId"), [])
    assert rests == ([(0, data[end:], b"")] if end < len(data) else [])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(sendlanes.streams())
def test_answers_of_a_socket_may_be_kept(places, data):
    data = bytes(data)[: 150 << 10] or b"\0"

    one, other = (read_of(place, data, answers=False) for place in places)

    assert one == other
    answers, end, count, *_ = [place.take(data) for place in places][1]
    (taken, rests, kept), written = one
    assert (taken, written) == (count, b"")
    assert rests == ([(0, data[end:], b"")] if end < len(data) else [])
    assert [each[:3] for each in kept] == ([(0, count, end)] if count else [])
    assert b"".join(each[3] for each in kept).count(b"msgId") == answers.count(b"msgId")


@LANES
def test_sockets_are_served_in_turn_up_to_one_that_has_bytes_left(tmp_path, make):
    with place_of(make, tmp_path / "store") as place, contextlib.ExitStack() as open_sockets:
        pairs = [socket.socketpair() for _ in range(6)]
        for end in (end for each in pairs for end in each):
            open_sockets.enter_context(end)
        for ours, _ in pairs:
            ours.setblocking(False)
        pairs[0][1].sendall(ordinary(10) + ordinary(11))
        pairs[2][1].close()
        pairs[3][1].sendall(ordinary(12))
        pairs[4][1].sendall(ordinary(13)[:-1])
        pairs[5][1].sendall(ordinary(14))
        sockets = [(ours.fileno(), ADDRESS) for ours, _ in pairs]

        count, rests, _ = place.lane.take_sockets(sockets, True)

        assert count == 3
        assert rests == [(2, b"", b""), (4, ordinary(13)[:-1], b"")]
        assert b'"opaque":10' in (answers := received(pairs[0][1]))
        assert b'"opaque":11' in answers
        assert b'"opaque":12' in received(pairs[3][1])
        assert [received(pairs[at][1]) for at in (1, 4, 5)] == [b"", b"", b""]
        assert place.lane.take_sockets(sockets[4:], True) == (1, [], [])
        assert b'"opaque":14' in received(pairs[5][1])
        assert place.lane.take_sockets([], True) == (0, [], [])


@LANES
def test_answers_that_the_system_does_not_take_are_the_rest(tmp_path, make, pair):
    ours, other = pair
    with place_of(make, tmp_path / "store") as place:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        while True:
            try:
                ours.send(b"." * 4_096)
            except BlockingIOError:
                break
        other.sendall(ordinary(1) + ordinary(2) + b"rest")

        sockets = [(ours.fileno(), ADDRESS)]
        count, ((number, data, answers),), _ = place.lane.take_sockets(sockets, True)

    assert (count, number, data) == (2, 0, b"rest")
    assert answers.endswith(b'"version":%d}' % 0) or b'"opaque":2' in answers
    assert answers.count(b'"opaque"') in (1, 2)


@LANES
def test_a_socket_that_fails_or_is_none_has_an_empty_rest(tmp_path, make):
    listening = socket.create_server(("127.0.0.1", 0))
    other = socket.create_connection(listening.getsockname())
    ours, _ = listening.accept()
    with listening, ours, place_of(make, tmp_path / "store") as place:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        other.close()  # a reset
        ours.setblocking(False)

        for answers in (True, False):
            sockets = [(ours.fileno(), ADDRESS), (-1, ADDRESS)]
            rests = [(0, b"", b""), (1, b"", b"")]
            assert place.lane.take_sockets(sockets, answers) == (0, rests, [])


@pytest.mark.parametrize("write", dict.fromkeys([write_sockets, inspect.unwrap(write_sockets)]))
def test_each_of_many_sockets_gets_what_it_takes_at_once(write):
    large = bytes(range(256)) * (16 << 10)  # more than a pair of sockets takes
    with contextlib.ExitStack() as open_sockets:
        pairs = [socket.socketpair() for _ in range(4)]
        for end in (end for each in pairs for end in each):
            open_sockets.enter_context(end)
        for ours, _ in pairs:
            ours.setblocking(False)
        pairs[2][1].close()
        wanted = [b"answer", large, b"gone", b""]
        descriptors = [ours.fileno() for ours, _ in pairs]

        written = write([*zip(descriptors, wanted, strict=True), (-1, b"no socket")])

        found = [received(pairs[at][1]) for at in (0, 1)]
        assert written == [6, len(found[1]), 0, 0, 0]
        assert found == [b"answer", large[: len(found[1])]]
        assert 0 < len(found[1]) < len(large)
        assert write([]) == []


# --------------------------------------------------------------------------- in a server


@pytest.fixture(params=["async", pytest.param("sync", marks=COMPILED)])
def quick(serve, request):
    """A server whose puts are never slow, with a topic; answers may wait for the disk."""
    served = serve(sections={"commitlog": {"file_size": 1 << 20, "flush": request.param}})
    served.server.broker.sends.clock = lambda: 0.0
    served.peer().ask(SEND, message("orders"), body=b"")
    return served


def shared(served):
    """How many connections are read together."""
    found = []
    served.on_loop(lambda: found.append(len(served.server.service._shared._peers)))
    return found[0]


def in_order(served, answers):
    """The numbers of answers; of durable sends, those that found no space at once come later."""
    return answers if served.server.broker.durable is None else sorted(answers)


def send_singly(peer, count, first=1_000):
    for at in range(first, first + count):
        peer.socket.sendall(ordinary(at, b"%d" % at))
        answer = peer.receive()
        assert (answer.opaque, answer.code) == (at, ResponseCode.SUCCESS)


def test_a_connection_that_only_sends_is_shared_until_it_asks_for_something_else(quick):
    peer = quick.peer()
    send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 1
    send_singly(peer, 20)
    assert shared(quick) == 1

    peer.socket.sendall(
        ordinary(1) + encode_frame(Command(RequestCode.GET_BROKER_CONFIG, {}, b"", 2)) + ordinary(3)
    )

    answers = [peer.receive() for _ in range(3)]
    assert {each.opaque for each in answers} == {1, 2, 3}
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    assert shared(quick) == 0
    # Sharing it again and again would cost more than it saves.
    send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 0
    send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 1


@pytest.mark.costly
def test_all_of_many_connections_are_answered_and_stored_once(quick):
    peers, chance, bodies = [quick.peer() for _ in range(90)], random.Random(30), []
    for peer in peers:
        send_singly(peer, peer_module._SHARED_AFTER)
        bodies += [b"%d" % at for at in range(1_000, 1_000 + peer_module._SHARED_AFTER)]
    assert shared(quick) == len(peers)
    for turn in range(30):
        sent = {}
        for number, peer in enumerate(peers):
            frames = [ordinary(at, b"%d %d %d" % (turn, number, at)) for at in range(1, 4)]
            bodies += [b"%d %d %d" % (turn, number, at) for at in range(1, 4)]
            if chance.random() < 0.1:  # in two pieces, or with another request
                whole = b"".join(frames)
                cut = chance.randrange(1, len(whole))
                peer.socket.sendall(whole[:cut])
                sent[peer] = whole[cut:]
            else:
                peer.socket.sendall(b"".join(frames))
        for peer, rest in sent.items():
            peer.socket.sendall(rest)
        for peer in peers:
            assert in_order(quick, [peer.receive().opaque for _ in range(3)]) == [1, 2, 3]

    assert quick.store.wait_dispatched(timeout=20)
    found = []
    while more := quick.store.read("orders", 0, len(found), 10_000):
        found += [each.body for each in more]
    assert sorted(found[1:]) == sorted(bodies)


def test_a_shared_connection_that_closes_is_forgotten(quick):
    peers = [quick.peer() for _ in range(3)]
    for peer in peers:
        send_singly(peer, peer_module._SHARED_AFTER)
    before = len(quick.server.service.peers)

    peers[0].socket.close()
    peers[1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peers[1].socket.close()
    peers[2].socket.sendall(b"\xff" * 8)  # no frame

    assert peers[2].is_closed()
    quick.wait_until(lambda: len(quick.server.service.peers) == before - 3)
    assert shared(quick) == 0


def test_a_client_that_reads_no_answers_gets_them_all_later(quick):
    peer = quick.peer()
    send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 1
    (found,) = (each for each in quick.server.service.peers if each._is_shared)
    found._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    count = 5_000

    def send():
        for at in range(count):
            peer.socket.sendall(ordinary(at))

    sender = threading.Thread(target=send)
    sender.start()
    quick.wait_until(lambda: not quick.server.service._shared._peers)
    answers = [peer.receive().opaque for _ in range(count)]
    sender.join()

    assert in_order(quick, answers) == list(range(count))


def test_a_request_of_the_server_is_not_cut_by_answers(quick):
    peer = quick.peer()
    send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 1
    (found,) = (each for each in quick.server.service.peers if each._is_shared)

    quick.on_loop(lambda: found.tell(Command(40, {"name": "x" * 100}, b"y" * (12 << 20))))
    assert shared(quick) == 0  # as not all of it is written
    assert not found._transport.is_reading()  # until the client has read
    peer.socket.sendall(ordinary(1))

    assert [peer.receive().code for _ in range(2)] == [40, ResponseCode.SUCCESS]
    send_singly(peer, 3)


def test_a_store_that_is_slow_or_a_handler_that_changes_ends_it(quick):
    peer, sends = quick.peer(), quick.server.broker.sends
    send_singly(peer, peer_module._SHARED_AFTER)
    sends._slow_until = 1.0

    send_singly(peer, 1)
    assert shared(quick) == 0
    sends._slow_until = 0.0
    send_singly(peer, 2 * peer_module._SHARED_AFTER)
    assert shared(quick) == 1
    service = quick.server.service
    quick.on_loop(lambda: service.answer_through(lambda handler: handler))
    send_singly(peer, 2 * peer_module._SHARED_AFTER)

    assert shared(quick) == 0


def test_an_error_of_the_common_read_closes_connections_that_may_have_been_read(quick, monkeypatch):
    peer, other, service = quick.peer(), quick.peer(), quick.server.service
    send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 1
    monkeypatch.setattr(service._shared, "_take", lambda *_: 1 / 0)

    peer.socket.sendall(ordinary(1))

    assert peer.is_closed()
    assert shared(quick) == 0
    send_singly(other, 3)


def test_a_request_that_fails_closes_its_connection_only(quick, monkeypatch):
    peers = [quick.peer() for _ in range(4)]
    for peer in peers:
        send_singly(peer, peer_module._SHARED_AFTER)
    assert shared(quick) == 4
    failing = peers[1].socket.getsockname()
    real = peer_module.ServerConnection.data_received

    def data_received(self, data):
        if self.address == failing:
            raise RuntimeError("not this one")
        real(self, data)

    monkeypatch.setattr(peer_module.ServerConnection, "data_received", data_received)

    def send():
        for peer in peers:
            peer.socket.sendall(ordinary(1)[:-1])

    quick.on_loop(send)  # so that all of them are read in one turn

    assert peers[1].is_closed()
    for peer in (peers[0], *peers[2:]):
        peer.socket.sendall(ordinary(1)[-1:])
        assert peer.receive().code == ResponseCode.SUCCESS


@pytest.mark.costly
def test_sharing_goes_on_where_the_log_gets_more_space(quick):
    peer = quick.peer()
    send_singly(peer, peer_module._SHARED_AFTER)
    looks = []
    for _ in range(60):  # six files of a megabyte
        for at in range(100):
            peer.socket.sendall(ordinary(at, b"x" * 1_000))
            assert peer.receive().opaque == at
        looks.append(shared(quick))

    assert sum(looks) > len(looks) / 2


def test_what_is_shared_for_nothing_is_shared_less_and_less(quick):
    peer, service = quick.peer(), quick.server.service
    added, real = [], service._shared.add

    class Noted:
        def __getattr__(self, name):
            return getattr(shared_reads, name)

        def add(self, *arguments):
            added.append(1)
            return real(*arguments)

    shared_reads = service._shared
    service._shared = Noted()
    for _ in range(100):
        send_singly(peer, peer_module._SHARED_AFTER)
        assert peer.ask(RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS
    service._shared = shared_reads

    assert 1 <= len(added) <= 8


def test_moved_connections_are_not_idle_and_others_are_closed(quick):
    peer, still = quick.peer(), quick.peer()
    for each in (peer, still):
        send_singly(each, peer_module._SHARED_AFTER)
    service = quick.server.service
    idle = service.limits.idle_seconds
    moved = {each.address: each for each in service.peers if each._is_shared}
    mine = moved[peer.socket.getsockname()]
    begin = mine.last_moved
    send_singly(peer, 1)

    assert mine.last_moved >= begin
    quick.on_loop(lambda: mine.shared_moved(begin + idle))
    quick.on_loop(lambda: service.close_idle(begin + 1.5 * idle))

    assert still.is_closed()
    send_singly(peer, 1)


def test_encrypted_connections_are_never_shared(serve, tmp_path):
    files = make_certificates(tmp_path)
    served = serve(tls=files.tls())
    served.server.broker.sends.clock = lambda: 0.0
    peer, encrypted = served.peer(), served.peer()
    encrypted.socket = files.context().wrap_socket(encrypted.socket, server_hostname="127.0.0.1")
    peer.ask(SEND, message("orders"), body=b"")

    for each in (peer, encrypted):
        send_singly(each, 3 * peer_module._SHARED_AFTER)

    assert shared(served) == 1


def test_signed_connections_are_never_shared(serve):
    served = serve(access_keys={"a": "b"})

    assert not served.server.service.share(None, 0)


def test_a_server_that_stops_closes_shared_connections(quick):
    peer = quick.peer()
    send_singly(peer, peer_module._SHARED_AFTER)
    service = quick.server.service

    asyncio.run_coroutine_threadsafe(service.stop(), service.loop).result(20)

    assert peer.is_closed()
    assert not service.peers
    assert service._shared._ready.closed
