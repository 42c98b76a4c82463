"""Pop over remoting: messages one by one, until a deadline, with handles as clients make them."""

from __future__ import annotations

import json
import threading

import attrs
import pytest
from wirepeer import message, views

import reput
from reput_client.remoting import (
    Ack,
    AckedQueue,
    AssignmentOf,
    ChangeInvisible,
    ChangeInvisibleAnswer,
    Command,
    ConsumerData,
    Heartbeat,
    ModeOf,
    Notification,
    NotificationAnswer,
    PollingInfo,
    PollingInfoAnswer,
    Pop,
    PopAnswer,
    RequestCode,
    ResponseCode,
    Subscription,
    encode_acks,
)
from reput_consumer import GroupSettings, PopService, TopicSettings
from reput_server import LocalBroker, ServerConfig

POP = RequestCode.POP_MESSAGE
GROUP = "billing"
FOUND = (ResponseCode.SUCCESS, "FOUND")
NONE = (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")


def pop(**options):
    asked = Pop(
        consumer_group=GROUP,
        topic="orders",
        queue_id=-1,
        max_msg_nums=32,
        invisible_time=60_000,
        poll_time=0,
        init_mode=0,
        exp_type="TAG",
        exp="*",
        order=False,
    )
    return attrs.evolve(asked, **options)


def put(served, *tags, **options):
    topics = served.store.plugin("consumer").topics
    if topics.get("orders") is None:
        topics.put(TopicSettings(topic="orders"))
    served.store.put_many(
        [
            reput.Message("orders", b"%d" % at, **{"queue_id": 0, "tags": tag, **options})
            for at, tag in enumerate(tags)
        ]
    )
    served.store.wait_dispatched()


def code(answer):
    return answer.code, answer.remark


def bodies(answer):
    return sorted(each.body for each in views(answer))


def acks(answer):
    """What a client acknowledges an answer's messages with.

    Source: RocketMQ ``MQClientAPIImpl.processPopResponse``, ``DefaultMQPushConsumerImpl.ackAsync``.
    """
    header, found = answer.header(PopAnswer), []
    starts, offsets = (
        {tuple(entry.split(" ")[:2]): entry.split(" ")[2] for entry in text.split(";")}
        for text in (header.start_offset_info, header.msg_offset_info)
    )
    seen = {key: [] for key in offsets}
    for each in views(answer):
        kind = "1" if each.topic.startswith("%RETRY%") else "0"
        key = kind, str(each.queue_id)
        seen[key].append(each.queue_offset)
        own = int(offsets[key].split(",")[len(seen[key]) - 1])
        assert own == each.queue_offset
        assert int(starts[key]) <= own
        words = (starts[key], header.pop_time, header.invisible_time, header.revive_qid, kind)
        found.append(
            Ack(
                consumer_group=GROUP,
                topic=each.topic,
                queue_id=each.queue_id,
                extra_info=" ".join(map(str, (*words, "broker-a", each.queue_id, own))),
                offset=own,
            )
        )
    return found


def change(ack, invisible_time):
    return ChangeInvisible(**attrs.asdict(ack), invisible_time=invisible_time)


def after(ack, header):
    """The same with the handle that a change has answered."""
    words = ack.extra_info.split(" ")
    words[1:4] = map(str, (header.pop_time, header.invisible_time, header.revive_qid))
    return attrs.evolve(ack, extra_info=" ".join(words))


def committed(served, topic="orders", queue_id=0):
    return served.store.plugin("consumer").port.offsets.get(GROUP, topic, queue_id)


def begun(peer):
    """Have the group begin to read."""
    assert code(peer.ask(POP, pop())) == NONE


# --------------------------------------------------------------------------- one by one


def test_messages_are_invisible_until_they_are_acknowledged(served):
    put(served, "a", "b", "a")
    one, other = served.peer(), served.peer()

    first = one.ask(POP, pop(max_msg_nums=2))
    second = other.ask(POP, pop())
    third = other.ask(POP, pop())

    assert code(first) == code(second) == FOUND
    assert (bodies(first), bodies(second)) == ([b"0", b"1"], [b"2"])
    assert code(third) == NONE
    assert third.header(PopAnswer).rest_num == 0  # the client reads the header whatever the code is
    (last,) = acks(second)
    assert other.ask(RequestCode.ACK_MESSAGE, last).code == ResponseCode.SUCCESS
    assert committed(served) == 0
    for each in acks(first):
        assert one.ask(RequestCode.ACK_MESSAGE, each).code == ResponseCode.SUCCESS
    assert committed(served) == 3
    assert one.ask(RequestCode.ACK_MESSAGE, last).code == ResponseCode.NO_MESSAGE


def test_messages_come_again_at_once_if_their_answer_cannot_be_made(served, monkeypatch):
    put(served, "a", "b")
    peer = served.peer()
    returned = threading.Event()
    give_back = PopService.give_back

    def fail(*_, **__):
        raise MemoryError

    def note(*arguments):
        give_back(*arguments)
        returned.set()

    monkeypatch.setattr(PopService, "give_back", note)
    with monkeypatch.context() as patched:
        patched.setattr("reput_server.broker.pop.pophandlers.answer_of", fail)
        assert peer.ask(POP, pop()).code == ResponseCode.SYSTEM_ERROR

    assert returned.wait(10)
    assert bodies(peer.ask(POP, pop())) == [b"0", b"1"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"exp": "a"}, [b"0", b"2"]),
        ({"exp": "TAGS = 'b'", "exp_type": "SQL92"}, [b"1"]),
        ({"exp": None, "exp_type": None}, [b"0", b"1", b"2"]),
        ({"queue_id": 0, "max_msg_nums": 1}, [b"0"]),
        ({"queue_id": 0, "max_msg_nums": 0}, [b"0"]),
        ({"init_mode": 1}, [b"0", b"1", b"2"]),  # the log has all of the topic still
    ],
)
def test_as_many_come_as_are_wanted(served, options, found):
    put(served, "a", "b", "a")

    assert bodies(served.peer().ask(POP, pop(**options))) == found


def test_messages_of_one_queue_come_alone(served):
    put(served, "a")
    put(served, "b", queue_id=1)

    answer = served.peer().ask(POP, pop(queue_id=1))

    assert [(each.queue_id, each.tags) for each in views(answer)] == [(1, "b")]


@pytest.mark.parametrize(
    ("asked", "number", "said"),
    [
        (pop(topic="none"), 17, "not exist"),
        (pop(queue_id=7), 29, "queueId[7] is illegal"),
        (pop(max_msg_nums=33), 29, "greater than 32"),
        (pop(exp="a = = b", exp_type="SQL92"), 23, "subscription failed"),
        (pop(exp="a" * 10_001), 23, "has 10001 characters; 10000 at most"),
        (pop(exp="x", exp_type="XPATH"), 23, "'XPATH' is not known"),
        (pop(consumer_group="shut"), 16, "no permission"),
        (pop(consumer_group="a b"), 26, "not exist"),
        (pop(topic="unread"), 16, "is forbidden"),
        (pop(consumer_group="g" * 200), 1, "at most 255"),
    ],
)
def test_what_may_not_be_popped_is_refused_with_a_word(served, asked, number, said):
    plugin = served.store.plugin("consumer")
    plugin.subscription_groups.put(GroupSettings(group="shut", consume_enable=False))
    plugin.topics.put(TopicSettings(topic="unread", perm=2))
    put(served, "a", queue_id=0)
    if "at most" in said:
        plugin.topics.put(TopicSettings(topic="t" * 100))
        asked = attrs.evolve(asked, topic="t" * 100)

    answer = served.peer().ask(POP, asked)

    assert answer.code == number
    assert said in answer.remark


def test_nothing_is_popped_of_a_store_that_is_read_only(serve, tmp_path):
    plugins = frozenset({"consumequeue", "consumer"})
    sections = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
    with reput.open(tmp_path / "store", plugins=plugins, config=sections) as store:
        store.put(reput.Message("orders", b"0", 0))
    served = serve(plugins=plugins, mode="r")

    answer = served.peer().ask(POP, pop())

    assert (answer.code, "read-only" in answer.remark) == (ResponseCode.NO_PERMISSION, True)


def test_many_messages_are_acknowledged_by_one_request(served):
    put(served, *"abcde")
    peer = served.peer()
    answer = peer.ask(POP, pop())
    header = answer.header(PopAnswer)
    acked = AckedQueue(
        group=GROUP,
        topic="orders",
        kind="0",
        queue_id=0,
        pop_time=header.pop_time,
        revive_qid=header.revive_qid,
        queue_offsets=(0, 1, 2, 4),
    )

    first = peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=encode_acks("broker-a", [acked]))
    again = peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=encode_acks("broker-a", [acked]))
    empty = peer.ask(RequestCode.BATCH_ACK_MESSAGE)

    assert first.code == ResponseCode.SUCCESS
    assert committed(served) == 3
    assert again.code == empty.code == ResponseCode.NO_MESSAGE


def test_one_request_acknowledges_a_bounded_number_of_messages(served):
    put(served, "a")
    many = AckedQueue(
        group=GROUP,
        topic="orders",
        kind="0",
        queue_id=0,
        pop_time=1,
        revive_qid=0,
        queue_offsets=tuple(range(40_000)),
    )

    answer = served.peer().ask(
        RequestCode.BATCH_ACK_MESSAGE, body=encode_acks("broker-a", [many, many])
    )

    assert "more than 65536 messages are acknowledged" in answer.remark


def test_a_handle_that_is_not_valid_is_refused(served):
    put(served, "a")
    peer = served.peer()
    (ack,) = acks(peer.ask(POP, pop()))
    words = ack.extra_info.split(" ")
    wrong = ("", "x y", " ".join([words[0], "x", *words[2:]]), " ".join([*words[:4], "2", "b"]))

    found = [
        peer.ask(RequestCode.ACK_MESSAGE, attrs.evolve(ack, extra_info=text)) for text in wrong
    ]
    void = [
        attrs.evolve(ack, offset=1),
        attrs.evolve(ack, queue_id=1),
        attrs.evolve(ack, extra_info=" ".join([words[0], "1", *words[2:]])),
        attrs.evolve(ack, extra_info=" ".join([*words[:3], "1000", *words[4:]])),
    ]

    assert {each.code for each in found} == {ResponseCode.SYSTEM_ERROR}
    assert all("not a valid handle" in each.remark for each in found)
    for each in void:
        assert peer.ask(RequestCode.ACK_MESSAGE, each).code == ResponseCode.NO_MESSAGE
    none = peer.ask(RequestCode.ACK_MESSAGE, attrs.evolve(ack, topic="none"))
    assert none.code == ResponseCode.TOPIC_NOT_EXIST
    beyond = peer.ask(RequestCode.ACK_MESSAGE, attrs.evolve(ack, queue_id=99))
    assert beyond.code == ResponseCode.MESSAGE_ILLEGAL
    assert peer.ask(RequestCode.ACK_MESSAGE, ack).code == ResponseCode.SUCCESS


# --------------------------------------------------------------------------- again


def test_a_refused_message_comes_from_the_retry_topic_after_its_delay(served):
    put(served, "a")
    peer = served.peer()
    (ack,) = acks(peer.ask(POP, pop()))

    changed = peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change(ack, 0))
    again = peer.ask(POP, pop(poll_time=20_000))

    header = changed.header(ChangeInvisibleAnswer)
    assert (changed.code, header.invisible_time) == (ResponseCode.SUCCESS, 0)
    (record,) = views(again)
    assert (record.topic, record.reconsume_times) == ("%RETRY%billing_orders", 1)
    assert again.header(PopAnswer).msg_offset_info == "1 0 0"
    (retried,) = acks(again)
    assert peer.ask(RequestCode.ACK_MESSAGE, ack).code == ResponseCode.NO_MESSAGE
    assert peer.ask(RequestCode.ACK_MESSAGE, retried).code == ResponseCode.SUCCESS
    assert committed(served, "%RETRY%billing_orders") == 1


def test_a_message_that_is_renewed_has_another_handle(served):
    put(served, "a")
    peer = served.peer()
    (ack,) = acks(peer.ask(POP, pop()))

    header = peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change(ack, 90_000)).header(
        ChangeInvisibleAnswer
    )
    late = peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change(ack, 90_000))

    assert header.invisible_time == 90_000
    assert (late.code, late.header(ChangeInvisibleAnswer).pop_time) == (ResponseCode.NO_MESSAGE, 0)
    assert peer.ask(RequestCode.ACK_MESSAGE, after(ack, header)).code == ResponseCode.SUCCESS


def test_a_group_in_order_gets_a_queue_again_when_it_is_done(served):
    put(served, "a", "b")
    peer = served.peer()
    first = peer.ask(POP, pop(order=True, max_msg_nums=1, attempt_id="one"))
    same = peer.ask(POP, pop(order=True, max_msg_nums=1, attempt_id="one"))
    other = peer.ask(POP, pop(order=True, attempt_id="two"))

    (ack,) = acks(first)
    assert (bodies(first), acks(same)) == ([b"0"], [ack])
    assert code(other) == NONE
    changed = peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change(ack, 0))
    assert changed.code == ResponseCode.SUCCESS
    again = peer.ask(POP, pop(order=True, max_msg_nums=1, poll_time=20_000))
    assert again.header(PopAnswer).order_count_info == "0 qo0%0 1"
    for each in acks(again):
        assert peer.ask(RequestCode.ACK_MESSAGE, each).code == ResponseCode.SUCCESS
    assert bodies(peer.ask(POP, pop(order=True))) == [b"1"]


# --------------------------------------------------------------------------- waiting


def test_a_pop_waits_until_a_message_comes(served):
    put(served)
    consumer, producer = served.peer(), served.peer()
    begun(consumer)

    held = consumer.send(Command.request(POP, pop(poll_time=20_000)))
    producer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"new")
    answer = consumer.answer_to(held)

    assert bodies(answer) == [b"new"]


def test_a_pop_that_waits_gets_nothing_once_its_group_is_paused(served):
    put(served)
    consumer, operator = served.peer(), served.peer()
    begun(consumer)
    held = consumer.send(Command.request(POP, pop(poll_time=20_000)))
    wait_for(served, 1)

    body = b'{"groupName":"%s","consumeEnable":false}' % GROUP.encode()
    operator.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    put(served, "new")

    assert consumer.answer_to(held).code == ResponseCode.NO_PERMISSION


def test_a_pop_that_waits_gets_nothing_while_nothing_may_be_read_of_the_broker(served):
    put(served)
    consumer, operator = served.peer(), served.peer()
    begun(consumer)
    held = consumer.send(Command.request(POP, pop(poll_time=20_000)))
    wait_for(served, 1)

    operator.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=2")
    put(served, "early")
    served.on_loop(lambda: None)  # the request was woken before, and has looked after it
    operator.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6")
    put(served, "late")

    assert len(bodies(consumer.answer_to(held))) == 2


def test_a_pop_that_waits_in_vain_is_answered(served):
    put(served)

    answer = served.peer().ask(POP, pop(poll_time=20))

    assert code(answer) == NONE


def test_no_more_wait_than_are_allowed(serve):
    served = serve(limits=attrs.evolve(ServerConfig().limits, held_pulls=1))
    put(served)
    one, other = served.peer(), served.peer()
    begun(one)
    one.send(Command.request(POP, pop(poll_time=20_000)))
    wait_for(served, 1)

    answer = other.ask(POP, pop(poll_time=20_000))
    notified = other.ask(RequestCode.NOTIFICATION, notification(poll_time=20_000))

    assert answer.code == ResponseCode.POLLING_FULL
    assert answer.header(PopAnswer).rest_num == 0
    assert notified.header(NotificationAnswer) == NotificationAnswer(polling_full=True)


def test_a_pop_of_a_client_that_goes_takes_no_message_along(served):
    put(served)
    gone, other = served.peer(), served.peer()
    begun(gone)
    gone.send(Command.request(POP, pop(poll_time=20_000)))
    wait_for(served, 1)

    gone.socket.close()
    wait_for(served, 0)
    other.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"new")

    assert bodies(other.ask(POP, pop(poll_time=20_000))) == [b"new"]


def wait_for(served, count):
    """Wait until so many requests wait, as an operator sees it."""
    peer, pause = served.peer(), threading.Event()
    asked = PollingInfo(consumer_group=GROUP, topic="orders", queue_id=-1)
    for _ in range(10_000):
        answer = peer.ask(RequestCode.POLLING_INFO, asked)
        if answer.header(PollingInfoAnswer).polling_num == count:
            return
        pause.wait(0.002)
    pytest.fail(f"{count} requests do not wait")


def notification(**options):
    asked = Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=0)
    return attrs.evolve(asked, **options)


def test_a_notification_says_that_there_are_messages_and_takes_none(served):
    put(served)
    peer, producer = served.peer(), served.peer()

    def has(**options):
        answer = peer.ask(RequestCode.NOTIFICATION, notification(**options))
        return answer.header(NotificationAnswer).has_msg

    assert not has()
    held = peer.send(Command.request(RequestCode.NOTIFICATION, notification(poll_time=20_000)))
    producer.ask(RequestCode.SEND_MESSAGE_V2, message("orders", 1), body=b"new")
    assert peer.answer_to(held).header(NotificationAnswer).has_msg
    assert has()
    assert has(queue_id=1)
    assert not has(queue_id=0)
    (ack,) = acks(peer.ask(POP, pop(order=True)))
    assert not has()
    producer.ask(RequestCode.SEND_MESSAGE_V2, message("orders", 1), body=b"next")
    served.store.wait_dispatched()
    assert not has(order=True)
    assert peer.ask(RequestCode.ACK_MESSAGE, ack).code == ResponseCode.SUCCESS
    assert has(order=True)
    assert peer.ask(RequestCode.NOTIFICATION, notification(topic="none")).code == 17


# --------------------------------------------------------------------------- who reads what


def assigned(peer, **options):
    asked = AssignmentOf(topic="orders", group=GROUP, client_id="c0", strategy="AVG")
    answer = peer.ask(RequestCode.QUERY_ASSIGNMENT, body=attrs.evolve(asked, **options).encode())
    found = json.loads(answer.body).get("messageQueueAssignments")
    return found and [(it["messageQueue"]["queueId"], it["mode"]) for it in found]


def set_mode(peer, pops=True, share=0, topic="orders", group=GROUP):
    asked = ModeOf(topic=topic, group=group, pops=pops, share_queues=share)
    return peer.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=asked.encode()).code


def beat(peer, client_id):
    data = ConsumerData(group=GROUP, subscriptions=(Subscription(topic="orders"),))
    body = Heartbeat(client_id=client_id, consumers=(data,)).encode()
    assert peer.ask(RequestCode.HEART_BEAT, body=body).code == ResponseCode.SUCCESS


def test_members_are_assigned_their_queues(served):
    put(served)
    peer = served.peer()

    nobody = assigned(peer)
    for number in range(3):
        beat(peer, f"c{number}")

    assert nobody is None
    assert assigned(peer) == [(0, "PULL"), (1, "PULL")]
    assert assigned(peer, client_id="c2") == [(3, "PULL")]
    assert assigned(peer, strategy="AVG_BY_CIRCLE") == [(0, "PULL"), (3, "PULL")]
    assert assigned(peer, client_id="unknown") == []
    assert len(assigned(peer, client_id="unknown", is_broadcasting=True)) == 4
    assert assigned(peer, strategy="x") is None
    assert assigned(peer, topic="none") is None


def test_a_group_pops_once_an_operator_has_said_so(served):
    put(served, "a")
    peer = served.peer()
    for number in range(3):
        beat(peer, f"c{number}")
    refused = peer.ask(POP, pop())

    done = set_mode(peer)

    assert (refused.code, "pull" in refused.remark) == (ResponseCode.NO_PERMISSION, True)
    assert done == ResponseCode.SUCCESS
    assert assigned(peer) == [(-1, "POP")]
    assert bodies(peer.ask(POP, pop())) == [b"0"]
    assert set_mode(peer, share=1) == ResponseCode.SUCCESS
    assert assigned(peer, client_id="c2") == [(3, "POP"), (0, "POP"), (1, "POP")]
    assert set_mode(peer, share=2) == ResponseCode.SUCCESS
    assert assigned(peer, client_id="c2") == [(-1, "POP")]
    assert set_mode(peer, pops=False) == ResponseCode.SUCCESS
    assert assigned(peer) == [(0, "PULL"), (1, "PULL")]
    assert peer.ask(POP, pop()).code == ResponseCode.NO_PERMISSION


def test_more_members_than_queues_share_them(served):
    put(served)
    peer = served.peer()
    for number in range(6):
        beat(peer, f"c{number}")
    set_mode(peer, share=1)

    assert assigned(peer, client_id="c5") == [(1, "POP")]


def test_the_mode_of_a_group_is_kept(serve):
    served = serve()
    put(served)
    peer = served.peer()
    beat(peer, "c0")
    path = served.store.root + "/config/messageRequestMode.json"

    assert set_mode(peer) == ResponseCode.SUCCESS

    with open(path) as file:
        found = json.load(file)["messageRequestModeMap"]
    assert found == {
        "orders": {
            GROUP: {
                "consumerGroup": GROUP,
                "mode": "POP",
                "popShareQueueNum": 0,
                "topic": "orders",
            }
        }
    }
    answer = peer.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    assert json.loads(answer.body)["messageRequestModeMap"] == found
    modes = served.store.plugin("consumer").popper.modes
    modes._modes = {}
    modes.load()
    assert modes.get("orders", GROUP).pops
    assert set_mode(peer, topic="%RETRY%billing") == ResponseCode.NO_PERMISSION
    assert set_mode(peer, topic="none") == ResponseCode.TOPIC_NOT_EXIST
    assert set_mode(peer, group="nobody") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_time_that_passes_at_once_counts_for_pops(tmp_path):
    from wirepeer import WirePeer

    with LocalBroker() as broker:
        broker.create_topic("orders")
        host, port = broker.address.rsplit(":", 1)
        with WirePeer((host, int(port))) as peer:
            broker.put(reput.Message("orders", b"0", 0))
            (ack,) = acks(peer.ask(POP, pop()))
            broker.forward(61)
            again = peer.ask(POP, pop(poll_time=20_000))
            assert views(again)[0].reconsume_times == 1
            assert peer.ask(RequestCode.ACK_MESSAGE, ack).code == ResponseCode.NO_MESSAGE
            (ack,) = acks(again)
            assert peer.ask(RequestCode.ACK_MESSAGE, ack).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("kind", ["PRIORITY", "NORMAL"])
def test_a_priority_chooses_the_queue_and_pop_begins_with_the_highest(kind, served):
    topics, peer = served.store.plugin("consumer").topics, served.peer()
    topics.put(TopicSettings(topic="orders", attributes={"message.type": kind}))
    sent = {
        b"low": ("0", 0),
        b"high": ("2", 2),
        b"beyond": ("9", 3),
        b"delayed never": ("1\x02DELAY\x010", None),
        b"ordered": ("1\x02__SHARDINGKEY\x01k", None),
        b"no number": ("-1", None),
    }
    for body, (priority, queue_id) in sent.items():
        properties = f"UNIQ_KEY\x01u\x02_SYS_MSG_PRIORITY_\x01{priority}\x02"
        header = message("orders", 1, properties=properties)
        answer = peer.ask(RequestCode.SEND_MESSAGE_V2, header, body=body)
        assert answer.code == ResponseCode.SUCCESS
        assert answer.fields["queueId"] == str(1 if queue_id is None else queue_id), body
    served.store.wait_dispatched()

    found = [views(peer.ask(POP, pop(max_msg_nums=1)))[0] for _ in sent]

    kept = {each.body for each in found if "_SYS_MSG_PRIORITY_" in each.properties}
    assert kept == sent.keys() - {b"delayed never", b"ordered"}
    if kind == "PRIORITY":
        assert [each.queue_id for each in found] == [3, 2, 1, 1, 1, 0]
