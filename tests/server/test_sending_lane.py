"""Sends that are taken from the bytes of a connection: by both engines the same, of any bytes."""

from __future__ import annotations

import random
import threading

import attrs
import pytest
import sendlanes
import wiremutants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sendlanes import ADDRESS, USUAL, both_places, frame_of, place_of
from wirepeer import message

from reput.engine import ENGINE
from reput_client.remoting import Command, HeaderKind, RequestCode, ResponseCode, encode_frame
from reput_server.broker.send.fastpath import SendFastPath, send_lane

SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    with both_places(tmp_path_factory.mktemp("lanes")) as found:
        yield found


def test_the_engine_runs_its_own_lane(places):
    assert isinstance(places[0].lane, SendFastPath) == (ENGINE.name == "python")


def assert_same(places, data, address=ADDRESS):
    one, other = (place.take(data, 0, address) for place in places)
    assert one == other
    return one


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(sendlanes.streams())
@pytest.mark.costly
def test_both_engines_take_the_same_of_any_bytes(places, data):
    assert_same(places, data)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_both_engines_take_the_same_of_mutated_requests(places, chance):
    assert_same(places, b"".join(wiremutants.frames(chance) for _ in range(3)))


def ordinary(opaque=7, kind=HeaderKind.JSON, body=b"body", **changed):
    return encode_frame(Command(SEND, {**USUAL, **changed}, body, opaque), kind)


@pytest.mark.parametrize("kind", HeaderKind)
def test_ordinary_sends_are_taken_and_all_else_stays(places, kind):
    data = ordinary(kind=kind) + ordinary(8, e="3")
    for rest in (b"", b"\0", ordinary(e="4"), ordinary(i=""), ordinary(b="unknown")):
        answers, end, count, unknown, log, _ = assert_same(places, data + rest)

        assert (end, count) == (len(data), 2)
        assert unknown == ("unknown" if b"unknown" in rest else None)
        assert answers.count(b'"code":0') == log.count(b"body") == 2


def test_a_stream_is_taken_wherever_it_is_cut(places):
    data = ordinary() + ordinary(kind=HeaderKind.BINARY)
    size = len(ordinary())
    for cut in range(len(data)):
        assert assert_same(places, data[:cut])[1] == (size if cut >= size else 0)


def test_only_peers_with_an_ipv4_address_are_taken(places):
    data = ordinary()

    assert assert_same(places, data, ("10.255.0.1", 65_535))[2] == 1
    for address in [("::1", 1), ("", 0), ("1.2.3", 4), ("01.2.3.4", 5)]:
        assert assert_same(places, data, address)[2] == 0


def test_a_header_of_too_many_fields_or_bytes_is_left(places):
    many = {**USUAL, **{f"x{number}": "" for number in range(20)}}
    assert assert_same(places, encode_frame(Command(SEND, many)))[2] == 1
    assert assert_same(places, encode_frame(Command(SEND, {**many, "one": ""})))[2] == 0
    long = frame_of(b'{"code":310,"remark":"%s"}' % (b"x" * sendlanes.SIZES.header_max), b"")
    assert assert_same(places, long)[2] == 0


@pytest.mark.parametrize("make", [send_lane, SendFastPath])
def test_what_the_store_has_no_room_for_is_left(tmp_path, make):
    with place_of(make, tmp_path / "store") as place:
        place.store.close()

        answers, end, count, unknown = place.lane.take(ordinary(), 0, ADDRESS)

    assert (answers, end, count, unknown) == (b"", 0, 0, None)


@pytest.mark.parametrize("make", [send_lane, SendFastPath])
def test_the_reader_of_the_log_hears_of_what_was_taken(tmp_path, make):
    with place_of(make, tmp_path / "store") as place:
        for _ in range(3):
            assert place.lane.take(ordinary() * 5, 0, ADDRESS)[2] == 5
            assert place.store.wait_dispatched(timeout=20)

        assert len(place.store.read("orders", 0, 0, 100)) == 15


@pytest.mark.skipif(ENGINE.name == "python", reason="the error goes to the caller of a put")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_of_whom_an_append_wakes_loses_no_answer(tmp_path):
    with place_of(send_lane, tmp_path / "store") as place:
        appender, calls = place.store.log._appender, []
        place.store.wait_dispatched(timeout=20)

        def wake():
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("not now")

        appender.ask_to_wake(wake)
        taken = [place.lane.take(ordinary(), 0, ADDRESS)[2] for _ in range(2)]

    assert taken == [1, 1]
    assert len(calls) == 2


# --------------------------------------------------------------------------- in a server


@pytest.fixture
def from_bytes(served):
    """How many requests were taken from bytes."""
    service = served.server.service
    served.server.broker.sends.clock = lambda: 0.0  # no put is slow
    (before, pulls), counts = service._handlers.from_bytes, []

    def noted(peer, data):
        taken = before(peer, data)
        counts.append(taken[2])
        return taken

    noted.direct = before
    service._handlers = attrs.evolve(service._handlers, from_bytes=(noted, pulls))
    served.peer().ask(SEND, message("orders"), body=b"")  # makes the topic
    return counts


def send_all(peer, count, rest=b""):
    data = b"".join(ordinary(1_000 + at, body=b"%d" % at) for at in range(count))
    peer.socket.sendall(data + rest)


@pytest.mark.costly
def test_all_are_stored_in_their_order_where_files_end(served, from_bytes):
    peer, count = served.peer(), 6_000  # three files of a megabyte
    for _ in range(count // 500):
        send_all(peer, 500)
        answers = [peer.receive() for _ in range(500)]
        assert [each.opaque for each in answers] == list(range(1_000, 1_500))
        assert {each.code for each in answers} == {ResponseCode.SUCCESS}

    assert sum(from_bytes) > count / 2
    assert served.store.wait_dispatched(timeout=20)
    found = [each.body for each in served.store.read("orders", 0, 0, 10_000)]
    while len(found) < count + 1:
        found += [each.body for each in served.store.read("orders", 0, len(found), 10_000)]
    assert found[1:] == [b"%d" % at for at in range(500)] * (count // 500)


def test_a_send_in_small_pieces_is_taken_when_it_is_whole(served, from_bytes):
    peer, data = served.peer(), ordinary(body=b"x" * 40)

    for at in range(0, len(data), 100):
        peer.socket.sendall(data[at : at + 100])
    peer.socket.sendall(data)
    answers = [peer.receive() for _ in range(2)]

    assert [each.fields["queueOffset"] for each in answers] == ["1", "2"]
    assert sum(from_bytes) == 2
    held = []
    served.on_loop(lambda: held.append(served.server.service.held_bytes))
    assert held == [0]


def test_the_loop_does_not_wait_for_a_put_of_another_thread(served, from_bytes, monkeypatch):
    begun, let_go = threading.Event(), threading.Event()
    sends, log_class = served.server.broker.sends, type(served.store.log)
    real = log_class._new_file

    def slow(log, base):
        begun.set()
        assert let_go.wait(60)
        return real(log, base)

    slow_peer, peer, other = served.peer(), served.peer(), served.peer()
    large = message("orders", properties="UNIQ_KEY\x01u\x02")
    assert slow_peer.ask(SEND, large, body=b"x" * 600_000).code == ResponseCode.SUCCESS
    monkeypatch.setattr(log_class, "_new_file", slow)
    sends._slow_until = 1.0  # the next round is put on a thread
    sent = slow_peer.send(Command.request(SEND, large, body=b"x" * 600_000))
    try:
        assert begun.wait(20)
        sends._slow_until = 0.0
        send_all(peer, 3)
        send_all(peer, 1)
        peers = [served.peer(), other]
        codes = [each.ask(RequestCode.GET_BROKER_CONFIG).code for each in peers]
    finally:
        let_go.set()

    assert codes == [ResponseCode.SUCCESS] * 2
    assert slow_peer.answer_to(sent).code == ResponseCode.SUCCESS
    assert [peer.receive().code for _ in range(4)] == [ResponseCode.SUCCESS] * 4


def test_answers_keep_their_order_when_a_store_is_no_longer_slow(served):
    sends, peer = served.server.broker.sends, served.peer()
    peer.ask(SEND, message("orders"), body=b"")  # makes the topic
    begun, let_go, real, times = threading.Event(), threading.Event(), sends.puts.put_one, [0.0]

    def slow_once(message, **options):
        if not begun.is_set():
            begun.set()
            assert let_go.wait(60)
        return real(message, **options)

    def change():
        sends.clock, sends._slow_until, sends.puts.put_one = lambda: times[0], 1.0, slow_once

    served.on_loop(change)
    peer.socket.sendall(ordinary(1))
    assert begun.wait(20)
    peer.socket.sendall(ordinary(2))
    served.wait_until(lambda: sends.waiting_count)
    times[0] = 2.0  # the second one is put on the loop

    let_go.set()

    assert [peer.receive().opaque for _ in range(2)] == [1, 2]


class Forgetful:
    """A lane that has no memory for another topic."""

    def __init__(self, lane):
        self.take = lane.take

    def allow(self, topic, queue_count):
        raise MemoryError


def test_what_is_stored_is_answered_without_memory_for_the_next_topic(served, from_bytes):
    from reput_consumer import TopicSettings

    served.store.plugin("consumer").topics.put(TopicSettings(topic="late"))
    peer, sends = served.peer(), served.server.broker.sends
    peer.socket.sendall(ordinary(1))  # the lane knows the topic from now on
    assert peer.receive().opaque == 1
    direct = served.server.service._handlers.from_bytes[0].direct.__self__
    direct._lane = Forgetful(direct._lane)
    rounds = sends.put_count

    peer.socket.sendall(ordinary(2) + ordinary(3, b="late"))
    answers = [peer.receive() for _ in range(2)]

    assert [each.opaque for each in answers] == [2, 3]
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    assert sum(from_bytes) == 2
    assert sends.put_count == rounds + 2  # and both are counted


def test_signed_sends_take_another_way(serve):
    served = serve(access_keys={"a": "b"})
    taken = []
    served.on_loop(lambda: taken.append(served.server.service.take_bytes(None, ordinary())))

    assert taken == [(b"", 0, 0)]


def test_what_a_plugin_wants_to_see_it_sees(served, from_bytes):
    from reput_consumer import TopicSettings

    served.store.plugin("consumer").topics.put(TopicSettings(topic="late"))
    peer = served.peer()
    header = message("late", properties="UNIQ_KEY\x01a\x02DELAY\x011\x02")

    answer = peer.ask(SEND, header, body=b"x")

    assert answer.code == ResponseCode.SUCCESS
    assert sum(from_bytes) == 0
    assert served.store.get(int(answer.fields["msgId"][-16:], 16)).topic == "SCHEDULE_TOPIC_XXXX"


def test_times_of_sends_are_counted(served, from_bytes):
    times = served.server.broker.sends.times
    before = sum(times.answers.counts)
    peer = served.peer()

    send_all(peer, 50)
    for _ in range(50):
        peer.receive()

    assert sum(times.answers.counts) - before == 50
    assert served.server.service.request_count >= 51


def test_seeded_mutants_are_taken_alike(places):
    chance = random.Random(29)
    for _ in range(300):
        assert_same(places, wiremutants.frames(chance) + ordinary())
