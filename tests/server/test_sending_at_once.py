"""Sends that are taken from bytes, or at once: as those that go the longer way."""

from __future__ import annotations

import threading

import attrs
import pytest
from wirepeer import message

from reput_client.remoting import Command, RequestCode, ResponseCode, encode_frame
from reput_server.wire.requestdispatcher import RequestDispatcher

SEND = RequestCode.SEND_MESSAGE_V2
KEY = "UNIQ_KEY\x01u\x02"


@pytest.fixture(params=["from bytes", "at once"])
def way(request):
    """How ordinary sends are taken."""
    return request.param


@pytest.fixture
def taken(served, monkeypatch, way):
    """One for each request that was taken that way, and no longer way."""
    found, take = [], RequestDispatcher.take
    service = served.server.service
    from_bytes = service._handlers.from_bytes[0]
    served.server.broker.sends.clock = lambda: 0.0  # no put is slow

    def noted_bytes(peer, data):
        taken = from_bytes(peer, data)
        found.extend([way] * taken[2])
        return taken

    def noted(handlers, request):
        is_taken = take(handlers, request)
        if is_taken and way == "at once":
            found.append(way)
        return is_taken

    served.peer().ask(SEND, message("orders"), body=b"")  # makes the topic
    change = (noted_bytes,) if way == "from bytes" else ()
    service._handlers = attrs.evolve(service._handlers, from_bytes=change)
    monkeypatch.setattr(RequestDispatcher, "take", noted)
    return found


def send_all(peer, commands):
    """Send requests in one piece; their numbers begin with 1,000."""
    numbered = [attrs.evolve(each, opaque=1_000 + at) for at, each in enumerate(commands)]
    peer.socket.sendall(b"".join(map(encode_frame, numbered)))


ORDINARY = [
    {},
    {"queue_id": 3},
    {"flag": 7, "sys_flag": 9, "reconsume_times": 2, "max_reconsume_times": 5},
    {"sys_flag": 4},
    {"properties": "UNIQ_KEY\x01u\x02"},
    {"properties": "KEYS\x01k\x02UNIQ_KEY\x017F00\x02TAGS\x01paid"},
    {"properties": "UNIQ_KEY\x01"},
    {"properties": 'UNIQ_KEY\x01a "b" \\ \x03\x02'},
    {"properties": "NO_UNIQ_KEY\x01x\x02"},
    {"properties": "UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02"},
    {"properties": "UNIQ_KEY\x01é\x02TAGS\x01é\x02"},
    {"properties": "TAGS\x01\ud800\x02"},
    {"properties": "DELAY\x010\x02"},
    {"properties": None},
    {"properties": ""},
    {"flag": -1},
    {"flag": 2**31 - 1},
    {"born_timestamp": -1},
    {"unit_mode": True},
    {"batch": False},
    {"queue_id": 4},
    {"queue_id": 2**31 - 1},
    {"topic": "bad topic"},
    {"topic": "SCHEDULE_TOPIC_XXXX"},
    {"topic": "%RETRY%nobody"},
    {"properties": "k\x01" + "v" * 32_740 + "\x02"},
    {"properties": "k\x01" + "v" * 32_741 + "\x02"},
]


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, SEND])
def test_both_ways_store_and_answer_the_same(served, taken, code):
    peer, answers = served.peer(), {}

    for is_at_once in (True, False):
        if not is_at_once:
            served.server.service.answer_through(lambda handler: handler)
        answers[is_at_once] = []
        for options in ORDINARY:
            header = attrs.evolve(message("orders", properties=KEY), **options)
            if code is RequestCode.SEND_MESSAGE:
                header = header.spelled_out()
            answers[is_at_once].append(peer.ask(code, header, body=b"body"))

    assert len(taken) >= (8 if code == SEND else 7)
    for options, *pair in zip(ORDINARY, answers[True], answers[False], strict=True):
        first, second = (attrs.evolve(each, fields={}, opaque=0) for each in pair)
        assert first == second, options
        assert list(pair[0].fields) == list(pair[1].fields), options
        if first.code == ResponseCode.SUCCESS:
            (same, place, record) = zip(*(parts(each, served.store) for each in pair), strict=True)
            assert same[0] == same[1], options
            assert place[0] != place[1]
            assert record[0] == record[1], options


def parts(answer, store):
    """What two answers and records have in common, and where they differ."""
    fields = dict(answer.fields)
    place = fields.pop("msgId"), fields.pop("queueOffset")
    view = store.get(int(place[0][-16:], 16))
    names = [
        "topic",
        "body",
        "queue_id",
        "properties",
        "flag",
        "sys_flag",
        "born_timestamp",
        "reconsume_times",
    ]
    record = {name: getattr(view, name) for name in names}
    key = fields["transactionId"]
    if key.startswith("7F000001"):  # made by the broker, another one each time
        assert record["properties"]["UNIQ_KEY"] == key
        fields["transactionId"] = "made"
        record["properties"] = {**record["properties"], "UNIQ_KEY": "made"}
    return fields, place, record


def test_none_overtakes_one_that_goes_the_longer_way(served, taken):
    peer = served.peer()
    rows = [KEY, "UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02", KEY, "DELAY\x010\x02", ""] * 20

    send_all(
        peer,
        [
            Command.request(SEND, message("orders", properties=properties), body=b"%d" % at)
            for at, properties in enumerate(rows)
        ],
    )
    answers = [peer.receive() for _ in rows]

    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
    assert taken
    served.store.wait_dispatched()
    found = [each.body for each in served.store.read("orders", 0, 1, 1_000)]
    assert found == [b"%d" % at for at in range(len(rows))]


def test_settings_that_change_are_seen_by_the_next_send(served, taken):
    from reput_consumer import TopicSettings

    peer, topics = served.peer(), served.store.plugin("consumer").topics
    codes = []
    for permissions in (6, 4, 6):
        topics.put(TopicSettings(topic="orders", perm=permissions))
        codes.append(peer.ask(SEND, message("orders", properties=KEY), body=b"x").code)

    assert codes == [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS]
    assert len(taken) == 2


def test_permissions_of_the_broker_that_change_are_seen_by_the_next_send(served, taken):
    from reput_consumer import TopicSettings

    peer, context = served.peer(), served.server.broker.context
    served.store.plugin("consumer").topics.put(TopicSettings(topic="orders", order=True))
    codes = []
    for permissions in (6, 4, 6):
        context.options.change(context.config, permissions)
        codes.append(peer.ask(SEND, message("orders", properties=KEY), body=b"x").code)

    assert codes == [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS]
    assert len(taken) == 2


def test_one_way_sends_are_stored_and_not_answered(served, taken):
    peer = served.peer()
    one_way = Command.request(SEND, message("orders", properties=KEY), body=b"x", one_way=True)

    send_all(
        peer,
        [one_way, one_way, Command.request(SEND, message("orders", properties=KEY), body=b"y")],
    )
    answer = peer.receive()

    assert answer.opaque == 1_002
    assert len(taken) == 3
    assert answer.fields["queueOffset"] == "3"
    worked_on = []
    served.on_loop(lambda: worked_on.append(served.server.service.request_bytes))
    assert worked_on == [0]


@pytest.mark.parametrize("way", ["at once"])
def test_a_store_that_was_slow_is_waited_for_on_a_thread(served, taken):
    peer, sends = served.peer(), served.server.broker.sends
    put_one, threads = sends.puts.put_one, []

    def noted(found, **options):
        threads.append(threading.current_thread().name)
        return put_one(found, **options)

    times = iter([0.0, 0.0, 0.1])  # the send comes, its round begins, and ends

    sends.puts.put_one, sends.clock, sends._slow_until = noted, lambda: next(times, 0.2), 0.0
    codes = [peer.ask(SEND, message("orders", properties=KEY), body=b"x").code for _ in range(2)]

    assert codes == [ResponseCode.SUCCESS] * 2
    assert len(taken) == 2
    assert threads[0] != threads[1]
    assert threads[1].startswith("reput-serve-put")


@pytest.mark.parametrize("way", ["at once"])
def test_whatever_the_store_raises_is_answered(served, taken):
    peer, sends = served.peer(), served.server.broker.sends

    def broken(found, **options):
        raise RuntimeError("out of order")

    sends.puts.put_one = broken
    answer = peer.ask(SEND, message("orders", properties=KEY), body=b"x")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "out of order" in answer.remark
    assert len(taken) == 1
