"""Receive, acknowledge, change, dead letters, order: over gRPC, by bare stubs."""

from __future__ import annotations

import threading
import time

import pytest

from reput_consumer import ConsumerPlugin
from reput_server.grpc.messagetypes import MessageType, m, milliseconds_of

OK, NONE, VOID = 20000, 40401, 40013


@pytest.fixture
def names(broker, request):
    """A topic and a group of the test's own."""
    name = request.node.name.partition("[")[0][-60:]
    broker.create_topic(name)
    return f"g_{name}", name


def bodies(messages):
    return [message.body.decode() for message in messages]


def wait_until(holds):
    """Wait for what the server does when it gets to it."""
    pause, end = threading.Event(), time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        pause.wait(0.005)


def test_a_message_is_received_and_acknowledged_once(broker, client, names):
    group, topic = names
    me = client()
    me.produce(topic)
    sent = me.send(topic, "1", tag="paid", keys=["a", "b"])
    other = client("consumer")
    other.consume(group, topic)

    code, (message,) = other.take(group, topic)

    assert (code, message.body, message.topic.name) == (OK, b"1", topic)
    system = message.system_properties
    assert system.message_id == sent.entries[0].message_id
    assert (system.tag, list(system.keys), system.delivery_attempt) == ("paid", ["a", "b"], 1)
    assert (system.body_digest.type, system.body_digest.checksum) == (
        2,
        "C4CA4238A0B923820DCC509A6F75849B",
    )
    assert other.receive(group, topic) == (NONE, [])
    assert other.ack(group, topic, message).status.code == OK
    assert other.ack(group, topic, message).status.code == VOID
    broker.forward(3_600)
    assert other.receive(group, topic) == (NONE, [])


def test_a_message_that_is_not_acknowledged_comes_again(broker, client, names):
    group, topic = names
    me = client()
    me.consume(group, topic)
    broker.put(*[broker_message(topic, "1")])

    _, (first,) = me.take(group, topic)
    broker.forward(31)
    broker.store.wait_dispatched()
    _, (again,) = me.receive(group, topic, long_polling_timeout=m.Duration(seconds=10))

    assert again.system_properties.delivery_attempt == 2
    assert again.topic.name == topic
    mixed = me.ack(group, topic, first, again)
    assert [each.status.code for each in mixed.entries] == [VOID, OK]
    assert mixed.status.code == 30000


def broker_message(topic, body, **more):
    from reput import Message

    return Message(topic, body.encode(), **{"queue_id": 0, **more})


def test_what_a_4x_producer_puts_a_5x_consumer_receives(broker, client, names):
    group, topic = names
    broker.put(broker_message(topic, "1", tags="t", properties={"own": "kept"}))
    me = client()
    me.consume(group, topic)

    _, (message,) = me.take(group, topic)

    assert dict(message.user_properties) == {"own": "kept"}
    assert message.system_properties.tag == "t"


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "g"}, MessageType.FIFO),
        ({"TRAN_MSG": "true"}, MessageType.TRANSACTION),
        ({"TRAN_MSG": "false", "DELAY": "0"}, MessageType.NORMAL),
    ],
)
def test_a_message_is_of_the_kind_that_its_properties_make_it(
    broker, client, names, properties, kind
):
    group, topic = names
    if kind is MessageType.TRANSACTION:
        with broker.store.plugin("transaction").transaction() as block:
            block.put(broker_message(topic, "1"))
    else:
        broker.put(broker_message(topic, "1", properties=properties))
    me = client()
    me.consume(group, topic)

    _, (message,) = me.take(group, topic)

    assert message.system_properties.message_type == kind
    assert not message.system_properties.HasField("delivery_timestamp")


@pytest.mark.parametrize(
    "asked",
    [
        {"DELAY": "1"},
        {"TIMER_DELAY_SEC": "2"},
        {"TIMER_DELAY_MS": "2000", "TIMER_DELIVER_MS": "9000000000000"},
        {"TIMER_DELIVER_MS": "in 2 s"},
    ],
)
def test_what_a_4x_producer_delays_is_of_that_kind_and_has_its_time(broker, client, names, asked):
    group, topic = names
    before = broker._clock()
    asked = {name: text.replace("in 2 s", str(before + 2_000)) for name, text in asked.items()}
    broker.put(broker_message(topic, "1", properties=asked))
    put_by = broker._clock()
    me = client()
    me.consume(group, topic)
    broker.forward(4)
    broker.store.wait_dispatched()

    _, (message,) = me.take(group, topic)

    system = message.system_properties
    assert system.message_type == MessageType.DELAY
    if "DELAY" in asked:
        assert not system.HasField("delivery_timestamp")
    else:
        at = milliseconds_of(system.delivery_timestamp) - 2_000
        assert before - 1_000 <= at <= put_by  # timers are parked at whole seconds


@pytest.mark.parametrize("delay_ms", [300, 5 * 86_400_000])
def test_a_time_from_the_send_on_is_shown_after_any_wait(broker, client, names, delay_ms):
    """Less than a tick of the timer wheel, and more than one turn of it."""
    group, topic = names
    before = broker._clock()
    broker.put(broker_message(topic, "1", properties={"TIMER_DELAY_MS": str(delay_ms)}))
    put_by = broker._clock()
    me = client()
    me.consume(group, topic)
    for _ in range(6):
        broker.forward(1 + delay_ms / 5_000)
        broker.store.wait_dispatched()

    _, (message,) = me.take(group, topic)
    me.ack(group, topic, message)

    at = milliseconds_of(message.system_properties.delivery_timestamp) - delay_ms
    assert before - 1_000 <= at <= put_by


def test_a_poll_waits_for_a_message(broker, client, names):
    group, topic = names
    me = client()
    me.consume(group, topic)
    assert me.receive(group, topic) == (NONE, [])
    found = []

    def poll():
        found.append(me.receive(group, topic, long_polling_timeout=m.Duration(seconds=20)))

    thread = threading.Thread(target=poll)
    thread.start()
    broker.put(broker_message(topic, "1"))
    thread.join(30)

    assert bodies(found[0][1]) == ["1"]


def test_a_poll_that_is_cancelled_takes_nothing(broker, client, names):
    group, topic = names
    me = client()
    me.consume(group, topic)
    waiting = broker.store.plugin(ConsumerPlugin).popper.waiting
    for number in range(5):
        poll = me.stream(me.request(group, topic, long_polling_timeout=m.Duration(seconds=20)))
        wait_until(lambda: len(waiting) == 1)
        poll.cancel()
        wait_until(lambda: len(waiting) == 0)
        broker.put(broker_message(topic, str(number)))
        _, (message,) = me.receive(group, topic, long_polling_timeout=m.Duration(seconds=10))
        assert message.body == b"%d" % number
        assert message.system_properties.delivery_attempt == 1


def test_a_handle_is_another_one_after_a_change(broker, client, names):
    group, topic = names
    broker.put(broker_message(topic, "1"))
    me = client()
    me.consume(group, topic)
    _, (message,) = me.take(group, topic)

    changed = me.change(group, topic, message, 60)

    assert changed.status.code == OK
    assert me.ack(group, topic, message).status.code == VOID
    broker.forward(40)
    assert me.receive(group, topic) == (NONE, [])
    message.system_properties.receipt_handle = changed.receipt_handle
    assert me.ack(group, topic, message).status.code == OK


@pytest.mark.parametrize("seconds", [0, 9, 43_201])
def test_invisible_durations_have_bounds(broker, client, names, seconds):
    group, topic = names
    me = client()
    me.consume(group, topic)
    code, _ = me.receive(group, topic, invisible_duration=m.Duration(seconds=seconds))
    assert code == 40011


def test_a_dead_letter_is_made_on_receive_and_by_its_own_call(broker, client, names):
    group, topic = names
    broker.create_group(group, retries=1)
    broker.put(broker_message(topic, "1"), broker_message(topic, "2"))
    me = client()
    answer = me.consume(group, topic)
    assert answer.settings.backoff_policy.max_attempts == 2

    _, found = me.receive(group, topic)
    second = next(each for each in found if each.body == b"2")
    forward = m.ForwardMessageToDeadLetterQueueRequest(
        group=m.Resource(name=group),
        topic=m.Resource(name=topic),
        receipt_handle=second.system_properties.receipt_handle,
    )
    assert me.call("ForwardMessageToDeadLetterQueue", forward).status.code == OK
    assert me.call("ForwardMessageToDeadLetterQueue", forward).status.code == VOID
    for _ in range(2):
        broker.forward(31)
        broker.store.wait_dispatched()
        me.receive(group, topic, long_polling_timeout=m.Duration(seconds=1))

    assert sorted(bodies(broker.messages(f"%DLQ%{group}"))) == ["1", "2"]


def test_tags_and_conditions_select(broker, client, names):
    group, topic = names
    broker.put(broker_message(topic, "1", tags="paid", properties={"n": "1"}))
    broker.put(broker_message(topic, "2", tags="open", properties={"n": "2"}))
    me = client()
    me.consume(group, topic)

    def found(group, kind, expression):
        me.consume(group, topic)
        selector = m.FilterExpression(type=kind, expression=expression)
        return me.receive(group, topic, filter_expression=selector)

    assert bodies(found(group, 1, "paid || due")[1]) == ["1"]
    assert bodies(found(f"{group}2", 2, "n > 1")[1]) == ["2"]
    assert found(f"{group}3", 2, "n >")[0] == 40010
    assert found(f"{group}4", 1, "||")[0] == 40010


def test_an_ordered_group_is_blocked_and_an_attempt_gets_its_batch_again(broker, client, names):
    group, topic = names
    broker.create_group(group, ordered=True)
    for body in "123":
        broker.put(broker_message(topic, body))
    me = client()
    assert me.consume(group, topic).settings.subscription.fifo

    _, one = me.receive(group, topic, batch_size=2, attempt_id="a")
    assert me.receive(group, topic, attempt_id="b") == (NONE, [])
    _, again = me.receive(group, topic, batch_size=2, attempt_id="a")

    assert bodies(one) == bodies(again) == ["1", "2"]
    assert me.ack(group, topic, *one).status.code == OK
    assert bodies(me.receive(group, topic, attempt_id="c")[1]) == ["3"]


def test_messages_of_a_push_consumer_are_kept_while_it_is_connected(broker, client, names):
    group, topic = names
    broker.put(broker_message(topic, "1"))
    pusher, other = client("pusher"), client("other")
    pusher.consume(group, topic, kind=2)
    other.consume(group, topic)
    _, (message,) = pusher.take(group, topic, auto_renew=True)
    assert not message.system_properties.HasField("invisible_duration")

    for _ in range(3):
        broker.forward(61)
    assert other.receive(group, topic) == (NONE, [])
    assert pusher.call("NotifyClientTermination", m.NotifyClientTerminationRequest()).status.code
    broker.forward(61)
    broker.store.wait_dispatched()
    _, (again,) = other.receive(group, topic, long_polling_timeout=m.Duration(seconds=10))
    assert again.system_properties.delivery_attempt == 2


def test_members_that_pull_and_clients_that_pop_do_not_mix(broker, client, names):
    group, topic = names
    me = client()
    with broker.store.consumer(group, topic):
        assert "pull" in me.consume(group, topic).details()
    assert me.consume(group, topic).status.code == OK


def test_a_client_that_subscribes_differently_is_a_member(broker, client, names):
    group, topic = names
    plugin = broker.store.plugin(ConsumerPlugin)
    with broker.store.pop_consumer(group, {topic: "a"}, name="near"):
        assert client("far").consume(group, topic, tags="b||a").status.code == OK
        assert plugin.progress(group).is_mixed
        assert client("far").consume(group, topic, tags="a").status.code == OK
        wait_until(lambda: not plugin.progress(group).is_mixed)


def test_the_store_knows_the_clients_and_what_is_out(broker, client, names):
    group, topic = names
    broker.put(broker_message(topic, "1"))
    me = client("somebody")
    me.consume(group, topic)
    me.receive(group, topic)

    progress = broker.store.plugin(ConsumerPlugin).progress(group)

    assert [each.member for each in progress.members] == ["somebody"]
    assert progress.members[0].pops
    assert progress.out_count == 1
