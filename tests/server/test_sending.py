"""Sends: what is stored, what is refused, and how many are stored together."""

from __future__ import annotations

import math
import threading

import attrs
import pytest
from wirepeer import message

import reput
from reput.record import parse_properties
from reput_aio import flushwaiters
from reput_client.remoting import (
    BatchEntry,
    Command,
    QueueOf,
    RequestCode,
    ResponseCode,
    SendBack,
    encode_batch,
    encode_frame,
)
from reput_consumer import TopicSettings
from reput_server import Limits
from reput_server.broker.send import sendbatcher
from reput_server.broker.topictable import TopicTable

SEND = RequestCode.SEND_MESSAGE_V2
"""Properties that a broker adds."""


def ask_together(peer, commands):
    """The answers to requests that come in one piece, in their order."""
    numbered = [attrs.evolve(each, opaque=1_000 + at) for at, each in enumerate(commands)]
    peer.socket.sendall(b"".join(map(encode_frame, numbered)))
    answers = {answer.opaque: answer for answer in (peer.receive() for _ in numbered)}
    return [answers[each.opaque] for each in numbered]


TRACED = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""What a broker adds to the properties of each message."""


def stored(served, topic, queue_id=0):
    served.store.wait_dispatched()
    return list(served.store.read(topic, queue_id, 0, 1_000))


@pytest.mark.parametrize("has_key", [True, False])
def test_a_batch_to_a_topic_with_batch_queues_is_one_record_if_it_has_a_key(served, has_key):
    topics = served.store.plugin("consumer").topics
    topics.put(TopicSettings(topic="b", attributes={"queue.type": "BatchCQ"}))
    entries = [BatchEntry(b"%d" % at, f"UNIQ_KEY\x01u{at}\x02".encode(), at) for at in range(3)]
    header = message("b", batch=True, properties="UNIQ_KEY\x01all\x02" if has_key else "")
    peer, body = served.peer(), encode_batch(entries)

    answers = [peer.ask(RequestCode.SEND_BATCH_MESSAGE, header, body=body) for _ in range(2)]

    found = stored(served, "b")
    assert [each.body for each in found] == [b"0", b"1", b"2"] * 2
    assert [each.queue_offset for each in found] == list(range(6))
    assert [each.unique_key for each in found] == ["u0", "u1", "u2"] * 2
    assert [each.fields["queueOffset"] for each in answers] == ["0", "3"]
    assert [each.fields.get("batchUniqId") for each in answers] == ["all" if has_key else None] * 2
    offset = int(answers[1].fields["msgId"][-16:], 16)
    served.store.plugin("consumer").subscription_groups.ensure("billing")
    back = SendBack(offset=offset, group="billing", delay_level=0)
    code = peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code
    record = served.store.get(offset)
    if has_key:
        assert code == ResponseCode.MESSAGE_ILLEGAL  # the client sends the message itself
        assert record.body == body
        assert record.sys_flag & 0xC0 == 0xC0
        assert record.properties == {
            "UNIQ_KEY": "all",
            "INNER_NUM": "3",
            "INNER_BASE": "3",
            **TRACED,
        }
    else:
        assert code == ResponseCode.SUCCESS
        assert len({each.physical_offset for each in found}) == 6


def test_a_message_of_a_batch_has_its_own_properties_only(served):
    own = [b"KEYS\x01ka\x02", b"KEYS\x01kb", b"", b"k\x01v\x02UNIQ_KEY\x01own\x02"]
    body = encode_batch([BatchEntry(b"x", properties) for properties in own])
    header = message("orders", batch=True, properties="a\x01b\x02UNIQ_KEY\x01all\x02")

    served.peer().ask(RequestCode.SEND_BATCH_MESSAGE, header, body=body)

    assert [bytes(each.properties_text) for each in stored(served, "orders")] == own
    served.store.wait_dispatched()
    counts = [len(list(served.store.query("orders", key))) for key in ("own", "ka", "all")]
    assert counts == [1, 1, 0]


@pytest.mark.parametrize(
    ("body", "topic", "said"),
    [
        (b"", "orders", "a batch without messages"),
        (b"x" * 30, "orders", "batch of messages"),
        (encode_batch([BatchEntry(b"x")]), "%RETRY%g", "does not support retry group"),
    ],
)
def test_what_is_no_batch_is_refused(served, body, topic, said):
    served.peer().ask(SEND, message("%RETRY%g"), body=b"x")  # so that the topic is there
    served.store.plugin("consumer").subscription_groups.ensure("g")

    answer = served.peer().ask(RequestCode.SEND_BATCH_MESSAGE, message(topic), body=body)

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert said in answer.remark


def test_one_message_that_is_refused_takes_no_other_with_it(serve):
    served = serve(sections={"commitlog": {"file_size": 1 << 20, "max_message_size": 10_000}})
    peer = served.peer()
    sizes = [10, 20_000, 30]

    for size in sizes:
        peer.send(Command.request(SEND, message("orders"), body=bytes(size)))

    codes = {answer.opaque: answer.code for answer in (peer.receive() for _ in sizes)}
    assert codes == {1: 0, 2: ResponseCode.MESSAGE_ILLEGAL, 3: 0}
    assert [len(each.body) for each in stored(served, "orders")] == [10, 30]


def test_no_send_overtakes_the_one_that_makes_its_topic(served, monkeypatch):
    is_made, may_end = threading.Event(), threading.Event()
    ensure = TopicTable.ensure

    def slowly(table, settings):
        made = ensure(table, settings)
        is_made.set()
        assert may_end.wait(20)
        return made

    monkeypatch.setattr(TopicTable, "ensure", slowly)
    peer = served.peer()
    peer.send(Command.request(SEND, message("orders"), body=b"1"))
    assert is_made.wait(20)
    peer.send(Command.request(SEND, message("orders"), body=b"2"))

    unknown = peer.ask(30_000)  # which was read after both
    may_end.set()

    assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert [peer.receive().code for _ in range(2)] == [0, 0]
    assert [each.body for each in stored(served, "orders")] == [b"1", b"2"]


def test_a_negative_queue_is_any_queue(served):
    answers = [served.peer().ask(SEND, message("orders", -1), body=b"x") for _ in range(20)]

    assert {int(answer.fields["queueId"]) for answer in answers} <= {0, 1, 2, 3}
    assert sum(len(stored(served, "orders", queue_id)) for queue_id in range(4)) == 20


def test_without_new_topics_only_those_that_are_there_are_stored(serve):
    served = serve(creates_topics=False)
    topics = served.store.plugin("consumer").topics
    peer = served.peer()

    assert peer.ask(SEND, message("orders"), body=b"x").code == ResponseCode.TOPIC_NOT_EXIST

    from reput_consumer import TopicSettings

    topics.put(TopicSettings(topic="orders"))
    topics.put(TopicSettings(topic="shut", perm=4))
    assert peer.ask(SEND, message("orders"), body=b"x").code == ResponseCode.SUCCESS
    assert peer.ask(SEND, message("shut"), body=b"x").code == ResponseCode.NO_PERMISSION


DAYS_3 = 259_200


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        (f"TIMER_DELAY_SEC\x01{DAYS_3 - 9}\x02", False),
        (f"TIMER_DELAY_SEC\x01{DAYS_3 + 9}\x02", True),
        (f"TIMER_DELAY_MS\x01{DAYS_3 * 1_000 + 9_000}\x02", True),
        ("TIMER_DELIVER_MS\x019000000000000\x02", True),
        ("TIMER_DELIVER_MS\x01soon\x02", True),
        ("TIMER_DELIVER_MS\x019000000000000\x02TRAN_MSG\x01true\x02", True),
        ("TIMER_DELIVER_MS\x019000000000000\x02DELAY\x011\x02", False),  # the level counts
    ],
)
def test_a_timed_message_is_due_within_the_time_of_the_server(served, properties, refused):
    topics, peer = served.store.plugin("consumer").topics, served.peer()
    topics.put(TopicSettings(topic="late"))
    end = served.store.log.max_physical_offset
    batch = encode_batch([BatchEntry(b"x", b""), BatchEntry(b"y", properties.encode())])

    one = peer.ask(SEND, message("late", properties=properties), body=b"x")
    many = peer.ask(RequestCode.SEND_BATCH_MESSAGE, message("late", batch=True), body=batch)

    expected = ResponseCode.MESSAGE_ILLEGAL if refused else ResponseCode.SUCCESS
    assert (one.code, many.code) == (expected, expected)
    assert (served.store.log.max_physical_offset == end) == refused
    if refused and "soon" not in properties:
        assert f"timerMaxDelaySec={DAYS_3}" in one.remark


def test_an_operator_lets_timed_messages_be_due_later(serve):
    served = serve(limits=Limits(timer_delay_seconds=60))
    peer, header = served.peer(), message("late", properties="TIMER_DELAY_SEC\x0190\x02")

    before = peer.ask(SEND, header, body=b"x").code
    peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"timerMaxDelaySec=120")

    assert before == ResponseCode.MESSAGE_ILLEGAL
    assert peer.ask(SEND, header, body=b"x").code == ResponseCode.SUCCESS


def test_a_late_message_needs_the_plugin_that_keeps_it(serve):
    served = serve(plugins=frozenset({"consumequeue", "consumer"}))
    peer = served.peer()

    late = peer.ask(SEND, message("orders", properties="DELAY\x013\x02"), body=b"x")
    half = peer.ask(SEND, message("orders", properties="TRAN_MSG\x01true\x02"), body=b"x")

    assert "delays need the plugin schedule" in late.remark
    assert "transactions need the plugin transaction" in half.remark
    assert {late.code, half.code} == {ResponseCode.SYSTEM_ERROR}
    assert list(served.store.scan()) == []


def test_sends_that_come_together_are_put_together(served):
    peer = served.peer()
    sends = served.server.broker.sends
    peer.ask(SEND, message("orders"), body=b"first")  # makes the topic
    before = sends.put_count

    answers = ask_together(peer, [Command.request(SEND, message("orders"), body=b"x")] * 200)

    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
    assert sends.put_count - before < 100
    offsets = [int(answer.fields["queueOffset"]) for answer in answers]
    assert offsets == list(range(1, 201))  # as they were sent


def test_a_store_that_is_too_slow_is_told_of(serve):
    served = serve(limits=Limits(waiting_sends=2))
    sends = served.server.broker.sends
    sends._slow_until = math.inf  # the loop goes on meanwhile
    peer = served.peer()
    peer.ask(SEND, message("orders"), body=b"first")

    goes_on = threading.Event()

    def slowly(put):
        return lambda *args, **kwargs: goes_on.wait(60) and put(*args, **kwargs)

    sends.puts.put_one, sends.puts.put_many = (
        slowly(sends.puts.put_one),
        slowly(sends.puts.put_many),
    )
    for _ in range(10):
        peer.send(Command.request(SEND, message("orders"), body=b"x"))

    refused = [peer.receive() for _ in range(6)]  # two wait, and two at most are being put
    goes_on.set()
    others = [peer.receive().code for _ in range(4)]

    assert {answer.code for answer in refused} == {ResponseCode.SYSTEM_BUSY}
    assert "[OVERLOAD]" in refused[0].remark
    assert others.count(ResponseCode.SUCCESS) >= 2


@pytest.mark.parametrize(("together_", "codes"), [(4_096, [0, 0, 0]), (1, [0, 0, 2])])
def test_a_slow_disk_refuses_only_what_others_were_taken_before(
    serve, monkeypatch, together_, codes
):
    monkeypatch.setattr(sendbatcher, "_ROUND_COUNT", together_)
    served = serve(limits=Limits(send_wait_ms=1))
    sends, peer, other = served.server.broker.sends, served.peer(), served.peer()
    sends._slow_until = math.inf  # the loop goes on meanwhile
    peer.ask(SEND, message("orders"), body=b"first")
    began, goes_on = threading.Event(), threading.Event()

    def slowly(put):
        def slow(*args, **kwargs):
            began.set()
            assert goes_on.wait(20)
            return put(*args, **kwargs)

        return slow

    sends.puts.put_one, sends.puts.put_many = (
        slowly(sends.puts.put_one),
        slowly(sends.puts.put_many),
    )
    peer.send(Command.request(SEND, message("orders"), body=b"x"))
    assert began.wait(20)
    for _ in range(2):
        peer.send(Command.request(SEND, message("orders"), body=b"x"))
    while sends.waiting_count < 2 or sends.head_wait_ms < 20:
        other.ask(RequestCode.GET_MIN_OFFSET, QueueOf(topic="orders", queue_id=0))
    goes_on.set()
    answers = sorted((peer.receive() for _ in codes), key=lambda answer: answer.opaque)

    assert [answer.code for answer in answers] == codes
    if 2 in codes:
        assert answers[2].remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")


def test_a_store_for_reading_takes_nothing(serve):
    serve().store.close()
    served = serve(mode="r")

    answer = served.peer().ask(SEND, message("orders"), body=b"x")

    assert answer.code == ResponseCode.NO_PERMISSION
    assert "--read-only" in answer.remark


def test_with_sync_flush_a_message_that_is_acknowledged_is_on_disk(serve):
    served = serve(sections={"commitlog": {"file_size": 1 << 20, "flush": "sync"}})

    answer = served.peer().ask(SEND, message("orders"), body=b"x")

    (found,) = stored(served, "orders")
    end = found.physical_offset + found.size
    assert answer.code == ResponseCode.SUCCESS
    assert served.store.log.flushed_offset >= end


def test_a_message_that_is_late_on_disk_is_answered_with_its_place(serve):
    options = {"file_size": 1 << 20, "flush": "sync", "flush_timeout_ms": 1}
    served, disk = serve(sections={"commitlog": options}), threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flushwaiters._Counter, "watch", lambda *_: None)  # the log is called
        patch.setattr(served.store.log, "wait_flushed", lambda *_: disk.wait())
        answer = served.peer().ask(SEND, message("orders"), body=b"x")
    disk.set()

    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert answer.fields["queueOffset"] == "0"
    assert len(stored(served, "orders")) == 1


# --------------------------------------------------------------------------- what comes back


@pytest.mark.parametrize(
    ("group", "offset", "code", "said"),
    [("a b", 0, 26, "subscription group not exist"), ("billing", 12_345, 1, "look message")],
)
def test_what_cannot_come_back_is_refused(served, group, offset, code, said):
    served.store.plugin("consumer").subscription_groups.ensure("billing")

    answer = served.peer().ask(
        RequestCode.CONSUMER_SEND_MSG_BACK, SendBack(offset=offset, group=group, delay_level=0)
    )

    assert answer.code == code
    assert said in answer.remark


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ("a\x01b", {"a": "b"}),  # without an end
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
        ("a\x01\x02", {}),
        ("POP_CK\x011 2\x02", {}),
        ("CLUSTER\x01mine\x02TRACE_ON\x01false\x02", {}),
    ],
)
@pytest.mark.parametrize("key", ["", "UNIQ_KEY\x01u\x02"])
def test_properties_are_stored_as_a_broker_stores_them(served, sent, found, key):
    answer = served.peer().ask(SEND, message("orders", properties=key + sent), body=b"x")

    (one,) = stored(served, "orders")
    properties = parse_properties(one.properties_text)
    assert answer.fields["transactionId"] == properties.pop("UNIQ_KEY")
    assert properties == found | TRACED


def test_a_message_without_a_key_gets_one_of_its_own(served):
    peer = served.peer()

    keys = {peer.ask(SEND, message("orders"), body=b"x").fields["transactionId"] for _ in range(3)}

    assert len(keys) == 3
    assert {one.unique_key for one in stored(served, "orders")} == keys


def test_a_store_that_cannot_be_served_is_named(tmp_path):
    from reput_server import ServerConfig, ServerError, serving

    with reput.open(tmp_path, plugins={"consumequeue"}) as store:
        with pytest.raises(ServerError, match=r"plugins=\{.consumequeue., .consumer., …\}"):
            with serving(store, ServerConfig(listen=("127.0.0.1", 0), name_server=None)):
                pass


def test_a_put_beside_the_server_takes_turns_over_the_queues_that_a_topic_has_now(served):
    topics, found = served.store.plugin("consumer").topics, []
    served.server.broker.context.topics.watch(lambda: None)  # as a server registers elsewhere
    for count in (2, 3):
        topics.put(TopicSettings(topic="wide", read_queue_nums=count, write_queue_nums=count))
        receipts = [served.store.put(reput.Message("wide", b"x")) for _ in range(2 * count)]
        found.append({each.queue_id for each in receipts})

    assert found == [{0, 1}, {0, 1, 2}]
