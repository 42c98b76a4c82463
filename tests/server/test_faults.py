"""Peers that are cut, that fall silent, that never read, or that take more than their share."""

from __future__ import annotations

import inspect
import json
import logging
import socket
import struct

import pytest
import wirescript
from wirepeer import WirePeer, message

from reput import Message
from reput_client.remoting import (
    BatchEntry,
    Command,
    HeaderKind,
    Heartbeat,
    QueueOf,
    RequestCode,
    ResponseCode,
    encode_batch,
    encode_frame,
)
from reput_server import Limits
from reput_testing.casebudget import is_soak

QUEUE = QueueOf(topic="orders", queue_id=0)
SEND = RequestCode.SEND_MESSAGE_V2
SAMPLE = 61


def is_answered(peer):
    return peer.ask(RequestCode.GET_MIN_OFFSET, QUEUE).code == ResponseCode.SUCCESS


def nothing_is_left(served):
    """Whether the server has forgotten everything of its connections but one."""
    service, broker = served.server.service, served.server.broker
    return (
        len(service.peers) <= 1
        and service.held_bytes == service.request_bytes == 0
        and not service.paused
        and not service.deaf
        and len(broker.held) == broker.held.size == 0
        and not broker.groups.consumers
        and not broker.groups.producers
    )


# --------------------------------------------------------------------------- cut connections


def cuts(frames):
    """Where the script of all requests is cut: at every byte in a soak, else at a sample.

    The sample has each border of a frame, and one place inside of each frame.
    """
    if is_soak():
        return range(sum(map(len, frames)) + 1)
    places, at = {0}, 0
    for number, frame in enumerate(frames, 1):
        places.add(at + number * SAMPLE % len(frame))
        at += len(frame)
        places.add(at)
    return sorted(places)


@pytest.mark.parametrize("kind", HeaderKind)
@pytest.mark.costly
def test_a_connection_that_is_cut_anywhere_leaves_nothing_but_what_was_whole(served, kind, caplog):
    script = wirescript.numbered(wirescript.commands())
    frames = [encode_frame(each, kind) for each in script]
    whole, stored = b"".join(frames), {}

    for number, place in enumerate(cuts(frames)):
        with WirePeer(served.server.address) as peer:
            peer.socket.sendall(whole[:place])
            if number % 4:
                # As where a program dies: what it has not read is thrown away.
                linger = struct.pack("ii", 1, 0)
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                continue
            stored |= places_of(answers(peer, begun(script, frames, place)))

    served.wait_until(lambda: nothing_is_left(served))
    assert is_answered(served.peer())
    assert stored
    assert not [each for each in caplog.records if each.exc_info]
    served.store.wait_dispatched()
    for offset, body in stored.items():
        (found,) = served.store.read("orders", 0, offset, 1)
        assert found.body == body
    check_sound(served)


def begun(script, frames, place):
    """The requests whose frames end at ``place`` or before, by number."""
    found, at = {}, 0
    for each, frame in zip(script, frames, strict=True):
        at += len(frame)
        if at <= place:
            found[each.opaque] = each
    return found


def answers(peer, requests):
    """Each request with its answer, but for those that wait for messages."""
    awaited = {number for number, each in requests.items() if not wirescript.is_held(each)}
    found = []
    while awaited:
        answer = peer.receive()
        if answer.is_response:
            awaited.remove(answer.opaque)
            found.append((requests[answer.opaque], answer))
    return found


def places_of(pairs):
    """The bodies that were acknowledged, by queue offset."""
    return {
        int(answer.fields["queueOffset"]): request.body
        for request, answer in pairs
        if request.code in (RequestCode.SEND_MESSAGE, SEND)
        and answer.code == ResponseCode.SUCCESS
        and request.body != b"half"
    }


def check_sound(served):
    """Queue offsets have no gaps, and nothing was stored that nobody has sent whole."""
    bodies = {b"long names", b"letters", b"one", b"two", b"reply", b"half"}
    for queue in served.store.queues():
        if queue.topic == wirescript.TOPIC:
            read = served.store.read(queue.topic, queue.queue_id, 0, 10_000, 64 << 20)
            assert list(read.queue_offsets) == list(range(queue.max_queue_offset))
            assert {each.body for each in read.messages} <= bodies


# --------------------------------------------------------------------------- silence


def test_peers_that_fall_silent_are_closed_wherever_they_were(served, caplog):
    caplog.set_level(logging.INFO, "reput_server")
    frame = encode_frame(Command.request(SEND, message("orders"), body=b"x"))
    service, loud = served.server.service, served.peer()
    silent = [served.peer() for _ in range(3)]
    silent[1].socket.sendall(frame[: len(frame) // 2])
    silent[2].ask(RequestCode.HEART_BEAT, body=wirescript.heartbeat())
    served.wait_until(lambda: service.held_bytes)

    served.on_loop(lambda: service.close_idle(service.loop.time() + 119))
    assert is_answered(loud)
    served.on_loop(lambda: service.close_idle(service.loop.time() + 121))

    assert all(peer.is_closed() for peer in silent)
    assert loud.is_closed()  # nothing had moved there, either
    served.wait_until(lambda: nothing_is_left(served))
    assert "reason=idle" in caplog.text
    assert list(served.store.queues()) == []


# --------------------------------------------------------------------------- who never reads


def test_answers_that_one_peer_leaves_unread_cut_off_that_peer_and_no_other(serve):
    served = serve(limits=Limits(bytes_of_all=8 << 20, requests_per_peer=16))
    served.store.put_many([Message("orders", bytes(200_000)) for _ in range(4)])
    served.store.wait_dispatched()
    wanted = wirescript.pull(max_msg_bytes=4 << 20)
    pull = Command.request(RequestCode.PULL_MESSAGE, wanted)
    reader = served.peer()
    deaf = [served.peer() for _ in range(2)]
    counts = []

    for peer in deaf:  # as far as the server reads it
        peer.socket.setblocking(False)
        push(peer, encode_frame(pull) * 4_000)
    while is_open(served, deaf[0]) and is_open(served, deaf[1]):
        before = served.server.service.request_count
        assert reader.ask(RequestCode.PULL_MESSAGE, wanted).code == ResponseCode.SUCCESS
        counts.append(served.server.service.request_count - before)

    # One of the deaf was cut; a reader was answered all the while, and waited for few others.
    assert max(counts, default=0) <= 2 * 16 + 2
    assert is_answered(reader)


def push(peer, data):
    try:
        while data:
            data = data[peer.socket.send(data) :]
    except BlockingIOError:
        pass


def is_open(served, peer):
    name, found = peer.socket.getsockname(), []
    served.on_loop(
        lambda: found.append(any(each.address == name for each in served.server.service.peers))
    )
    return found[0]


# --------------------------------------------------------------------------- too much


def test_the_largest_of_unfinished_frames_is_cut_and_not_who_comes_next(serve):
    served = serve(limits=Limits(bytes_of_all=1 << 20))
    greedy, small = served.peer(), served.peer()
    greedy.socket.sendall(struct.pack(">iI", 8 << 20, 2) + bytes(900_000))
    served.wait_until(lambda: served.server.service.held_bytes > 900_000)

    frame = encode_frame(Command.request(SEND, message("orders"), body=bytes(300_000)))
    small.socket.sendall(frame[:250_000])
    assert greedy.is_closed()
    small.socket.sendall(frame[250_000:])

    assert small.receive().code == ResponseCode.SUCCESS


def test_headers_count_for_what_they_take_and_long_ones_close_their_connection(serve, caplog):
    served = serve(limits=Limits(header_bytes=10_000))
    good, bad = served.peer(), served.peer()
    fields = {f"f{number}": "" for number in range(1_000)}

    bad.send(Command.request(RequestCode.GET_MIN_OFFSET, QUEUE, more=fields))

    assert bad.is_closed()
    assert is_answered(good)
    assert "a header of" in caplog.text
    assert "10000 or fewer" in caplog.text


def test_requests_are_counted_with_their_headers(serve):
    served = serve(limits=Limits(bytes_per_peer=10_000))
    peer, seen = served.peer(), []

    def looking(handler):
        async def look(request):
            seen.append(served.server.service.request_bytes)
            return await handler(request)

        return look

    served.server.service.answer_through(looking)
    fields = {f"f{number}": "x" * 40 for number in range(100)}
    peer.ask(RequestCode.GET_MIN_OFFSET, QUEUE, more=fields)

    assert seen[0] > 100 * (40 + 200)
    served.wait_until(lambda: served.server.service.request_bytes == 0)


def test_pulls_that_wait_keep_neither_bodies_nor_more_than_their_share(serve):
    served = serve(limits=Limits(held_bytes=3_000))
    waiting, broker = served.peer(), served.server.broker
    waiting.ask(SEND, message("orders", 1), body=b"x")
    wanted = wirescript.pull(hold_ms=20_000, subscription="a" * 1_000)
    command = Command.request(RequestCode.PULL_MESSAGE, wanted, body=bytes(100_000))
    for _ in range(2):
        waiting.send(command)
    served.wait_until(lambda: len(broker.held) == 2)  # reads of pulls overtake each other
    waiting.send(command)

    first = waiting.receive()

    assert first.code == ResponseCode.PULL_NOT_FOUND  # the third, for which there is no room
    assert first.opaque == 4
    held = [pull for pulls in broker.held._held.values() for pull in pulls]
    assert len(held) == 2
    kept = [inspect.getclosurevars(pull.again).nonlocals["waiting"].request for pull in held]
    assert {(each.command.body, len(each.command.fields)) for each in kept} == {(b"", 0)}


def test_a_body_of_json_is_bounded_and_one_of_messages_is_not(serve):
    peer = serve(sections={"commitlog": {"file_size": 4 << 20}}).peer()
    long = b'{"clientID":"c","more":[' + b"1," * (1 << 19) + b"1]}"

    refused = peer.ask(RequestCode.HEART_BEAT, body=long)

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == f"a body of {len(long)} bytes; 1048576 are the most of code 34"
    assert peer.ask(SEND, message("orders"), body=bytes(2 << 20)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("heartbeat", "said"),
    [
        (Heartbeat(client_id="c", producer_groups=tuple(map(str, range(1_001)))), "1001 groups"),
        (wirescript.heartbeat(group="a/b"), "group 'a/b'"),
        (wirescript.heartbeat(group="g" * 300), "300 characters"),
    ],
)
def test_a_heartbeat_that_no_client_sends_is_refused(served, heartbeat, said):
    body = heartbeat if isinstance(heartbeat, bytes) else heartbeat.encode()
    peer = served.peer()

    answer = peer.ask(RequestCode.HEART_BEAT, body=body)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert said in answer.remark
    groups = served.server.broker.groups
    assert not groups.consumers
    assert not groups.producers


def test_a_group_that_none_can_be_is_made_by_no_pull(served):
    peer = served.peer()
    peer.ask(SEND, message("orders"), body=b"x")

    answer = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(consumer_group="a/b"))

    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    found = peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert json.loads(found.body)["subscriptionGroupTable"] == {}


def test_a_connection_with_too_much_to_remember_is_closed_and_forgotten(serve):
    served = serve(limits=Limits(remembered_per_peer=10))
    peer = served.peer()

    for number in range(20):
        each = Heartbeat(client_id="c", producer_groups=(f"p{number}",))
        try:
            peer.ask(RequestCode.HEART_BEAT, body=each.encode())
        except ConnectionError:
            break

    assert number == 10
    served.wait_until(lambda: nothing_is_left(served))
    assert is_answered(served.peer())


@pytest.mark.parametrize("group", ["\0", "", "a/b", "g" * 300])
def test_offsets_of_a_group_that_none_can_be_reach_no_file(served, group):
    peer = served.peer()
    peer.ask(SEND, message("orders"), body=b"x")
    peer.ask(RequestCode.HEART_BEAT, body=wirescript.heartbeat())
    sound = {"topic": "orders", "queueId": "0", "commitOffset": "1"}

    answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, more={**sound, "consumerGroup": group})
    good = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, more={**sound, "consumerGroup": "billing"})

    assert answer.code != ResponseCode.SUCCESS
    assert answer.remark
    assert good.code == ResponseCode.SUCCESS
    assert served.store.plugin("consumer").port.offsets.groups() == ["billing"]


def test_a_batch_that_is_larger_than_any_is_refused_and_nothing_of_it_stored(serve):
    served = serve(sections={"commitlog": {"file_size": 16 << 20}})
    peer = served.peer()
    tiny = encode_batch([BatchEntry(b"")] * 1_000)
    count = (4 << 20) // len(tiny)

    refused = peer.ask(RequestCode.SEND_BATCH_MESSAGE, message("orders"), body=tiny * (count + 1))
    taken = peer.ask(RequestCode.SEND_BATCH_MESSAGE, message("orders"), body=tiny * 10)

    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert refused.remark.endswith("4194304 are the most")
    assert taken.code == ResponseCode.SUCCESS
    assert taken.fields["queueOffset"] == "0"
    assert len(set(taken.fields["msgId"].split(","))) == 10_000
