"""Pulls: what is there is answered at once, what is not when it has come."""

from __future__ import annotations

import pytest
import wirescript
from wirepeer import message, views

import reput
from reput_client.remoting import (
    Command,
    ConsumerData,
    Heartbeat,
    PullAnswer,
    PullFlag,
    QueueLocks,
    QueueName,
    QueueOf,
    RequestCode,
    ResponseCode,
    Subscription,
    decode_locked,
    write_body,
)
from reput_consumer import MessageQueue

PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_MESSAGE_V2
GROUP = "billing"


def pull(offset=0, **options):
    return wirescript.pull(offset, **{"suspend_timeout_millis": 15_000, **options})


WAITING = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND


def put(served, *tags):
    served.store.put_many(
        [reput.Message("orders", b"%d" % at, 0, tags=tag) for at, tag in enumerate(tags)]
    )
    served.store.wait_dispatched()


def bodies(answer):
    return [each.body for each in views(answer)]


def test_no_more_bytes_come_than_are_wanted(served):
    put(served, "a", "b", "a")

    answer = served.peer().ask(PULL, pull(max_msg_bytes=1))

    assert bodies(answer) == [b"0"]
    assert answer.header(PullAnswer).next_begin_offset == 1


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (pull(subscription="a = = b", expression_type="SQL92"), 23, "subscription failed"),
        (pull(subscription="x", expression_type="XPATH"), 23, "'XPATH' is not known"),
        (pull(subscription="||"), 23, "no tag"),
    ],
)
def test_an_expression_that_is_none_is_refused_with_a_word(served, asked, code, said):
    put(served, "a")

    answer = served.peer().ask(PULL, asked)

    assert answer.code == code
    assert said in answer.remark


def test_conditions_need_the_plugin_that_compiles_them(serve):
    served = serve(plugins=frozenset({"consumequeue", "consumer"}))
    put(served, "a", "b")
    peer = served.peer()

    tags = peer.ask(PULL, pull(subscription="b"))
    condition = peer.ask(PULL, pull(subscription="TAGS = 'b'", expression_type="SQL92"))

    assert bodies(tags) == [b"1"]
    assert condition.code == ResponseCode.SYSTEM_ERROR
    assert "does not support consumer to filter message by SQL92" in condition.remark
    assert "the plugin filter" in condition.remark


# --------------------------------------------------------------------------- waiting


def test_a_pull_waits_also_where_the_queue_was_longer_before(served):
    from reput_consumer import TopicSettings

    served.store.plugin("consumer").topics.put(TopicSettings(topic="orders"))
    held = served.server.broker.held
    queue = MessageQueue("orders", "broker-a", 0)
    served.on_loop(lambda: held._watched.update({queue: 7}))
    consumer = served.peer()

    consumer.send(Command.request(PULL, pull(0, sys_flag=WAITING)))
    until(lambda: len(held) == 1, served)

    served.peer().ask(SEND, message("orders"), body=b"first")
    assert bodies(consumer.receive()) == [b"first"]


def test_one_message_after_the_other_reaches_one_who_waits(served):
    put(served, "a")
    consumer, producer = served.peer(), served.peer()
    found = []

    for at in range(50):
        consumer.send(Command.request(PULL, pull(1 + at, sys_flag=WAITING)))
        producer.ask(SEND, message("orders"), body=b"%d" % at)
        found += bodies(consumer.receive())

    assert found == [b"%d" % at for at in range(50)]


def test_a_pull_may_not_wait_for_ever(served):
    """Old clients give nanoseconds: the server's limit is below what a client waits for."""
    put(served, "a")
    peer, held = served.peer(), served.server.broker.held
    peer.send(Command.request(PULL, pull(1, sys_flag=WAITING, suspend_timeout_millis=1 << 60)))
    until(lambda: len(held) == 1, served)

    (waiting,) = next(iter(held._held.values()))

    # A difference of two times of a loop may be a rounding error above what was added.
    assert waiting.timer.when() - served.server.service.loop.time() < 25.001


def until(is_so, served):
    for _ in range(10_000):
        if is_so():
            return
        served.on_loop(lambda: None)
    assert is_so()


GROUPS = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
TOPICS = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
OPTIONS = RequestCode.UPDATE_BROKER_CONFIG


def of_topic(perm):
    row = {"topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": perm}
    return write_body({"topicConfigList": [row]})


@pytest.mark.parametrize(
    ("code", "off", "on"),
    [
        (
            GROUPS,
            b'{"groupName":"billing","consumeEnable":false}',
            b'{"groupName":"billing","consumeEnable":true}',
        ),
        (TOPICS, of_topic(2), of_topic(6)),
        (OPTIONS, b"brokerPermission=2", b"brokerPermission=6"),
    ],
    ids=["group", "topic", "broker"],
)
def test_an_ordered_member_that_waits_gets_nothing_once_it_may_not_read(served, code, off, on):
    put(served, "a")
    one, other, operator = served.peer(), served.peer(), served.peer()
    held, queue = served.server.broker.held, QueueName("orders", "broker-a", 0)

    def locked(peer, client_id):
        asked = QueueLocks(group=GROUP, client_id=client_id, queues=frozenset({queue}))
        return decode_locked(peer.ask(RequestCode.LOCK_BATCH_MQ, body=asked.encode()).body)

    assert locked(one, "one") == {queue}
    one.send(Command.request(PULL, pull(1, sys_flag=WAITING)))
    until(lambda: len(held) == 1, served)
    assert operator.ask(code, body=off).code == ResponseCode.SUCCESS
    put(served, "b")

    assert one.receive().code == ResponseCode.NO_PERMISSION
    assert (locked(one, "one"), locked(other, "other")) == ({queue}, set())
    assert operator.ask(code, body=on).code == ResponseCode.SUCCESS
    assert len(bodies(one.ask(PULL, pull(1, sys_flag=WAITING)))) == 1


def test_a_pull_ends_with_its_connection(served):
    put(served, "a")
    peer, held = served.peer(), served.server.broker.held
    peer.send(Command.request(PULL, pull(1, sys_flag=WAITING)))
    until(lambda: len(held) == 1, served)

    peer.socket.close()

    until(lambda: len(held) == 0, served)


def test_what_waits_costs_no_other_request_its_place(serve):
    from reput_server import Limits

    served = serve(limits=Limits(requests_per_peer=4))
    put(served, "a")
    peer = served.peer()
    for _ in range(20):
        peer.send(Command.request(PULL, pull(1, sys_flag=WAITING)))

    answer = peer.ask(PULL, pull())

    assert bodies(answer) == [b"0"]


def test_a_pull_that_may_not_be_held_any_more_is_answered_at_once(serve):
    from reput_server import Limits

    served = serve(limits=Limits(held_pulls=1))
    put(served, "a")
    first, second = served.peer(), served.peer()
    first.send(Command.request(PULL, pull(1, sys_flag=WAITING)))
    until(lambda: len(served.server.broker.held) == 1, served)

    assert second.ask(PULL, pull(1, sys_flag=WAITING)).code == ResponseCode.PULL_NOT_FOUND


def test_what_a_group_wants_is_known_from_its_heartbeat(served):
    put(served, "a", "b")
    peer = served.peer()
    wanted = Subscription(topic="orders", expression="b", tags=("b",), version=10)
    heartbeat = Heartbeat(
        client_id="c", consumers=(ConsumerData(group=GROUP, subscriptions=(wanted,)),)
    )
    peer.ask(RequestCode.HEART_BEAT, body=heartbeat.encode())

    found = peer.ask(PULL, pull(sys_flag=0, sub_version=10))
    newer = peer.ask(PULL, pull(sys_flag=0, sub_version=11))
    other = peer.ask(PULL, pull(sys_flag=0, topic="%RETRY%billing"))

    assert bodies(found) == [b"1"]
    assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert other.code == ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_a_store_for_reading_is_pulled_from(serve):
    first = serve()
    put(first, "a")
    first.store.close()
    served = serve(mode="r")

    answer = served.peer().ask(PULL, pull(consumer_group="new"))

    assert bodies(answer) == [b"0"]
    assert served.store.plugin("consumer").subscription_groups.get("new") is None


def test_a_pull_that_waits_is_answered_when_another_writer_has_put_a_message(serve, tmp_path):
    plugins = frozenset({"consumequeue", "consumer"})
    sizes = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
    with reput.open(tmp_path / "store", plugins=plugins, config=sizes) as writer:
        writer.put(reput.Message("orders", b"before", 0))
        writer.wait_dispatched()
        served = serve(plugins, mode="r")
        consumer = served.peer()
        # It may wait for longer than the peer does.
        asked = pull(1, sys_flag=WAITING, suspend_timeout_millis=25_000)
        held = consumer.send(Command.request(PULL, asked))
        served.wait_until(lambda: len(served.server.broker.held) == 1)
        for _ in range(50):  # by then, all threads of the server have done what the pull needs
            served.peer().ask(RequestCode.GET_MAX_OFFSET, QueueOf(topic="orders", queue_id=0))

        writer.put(reput.Message("orders", b"meanwhile", 0))
        answer = consumer.receive()

    assert (answer.opaque, answer.code) == (held.opaque, ResponseCode.SUCCESS)
    assert bodies(answer) == [b"meanwhile"]
