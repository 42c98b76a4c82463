"""Lite topics over remoting: sends, subscriptions, pops, acknowledgements and operators' tools."""

from __future__ import annotations

import asyncio
import json

import attrs
import pytest
import wirescript
from wirepeer import message, views

from reput.errors import CorruptFileError
from reput_client.remoting import (
    Ack,
    ChangeInvisible,
    ChangeInvisibleAnswer,
    Command,
    LiteClientOf,
    LiteGroupOf,
    LitePop,
    LiteTopicOf,
    LiteUnsubscribed,
    LiteWake,
    PopAnswer,
    PullAnswer,
    RequestCode,
    ResponseCode,
    TopicOf,
)
from reput_consumer import GroupSettings, PopService, TopicSettings
from reput_server.broker.lite import litesubscriptions
from reput_server.broker.lite.liteexpiry import LiteExpiry
from reput_server.broker.lite.litesubscriptions import LiteSubscriptions

TOPIC, GROUP = "parent", "readers"
ATTRIBUTES = {"lite.bind.topic": TOPIC, "lite.sub.client.quota": "3"}
OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION
WRONG = ResponseCode.INVALID_PARAMETER
MINUTE = 60_000
SECTIONS = {"commitlog": {"file_size": 1 << 20, "max_light_queues": 3}}


@pytest.fixture
def served(serve):
    found = serve(sections=SECTIONS)
    set_up(found)
    return found


def set_up(served, **attributes):
    plugin = served.store.plugin("consumer")
    plugin.topics.put(
        TopicSettings(
            topic=TOPIC,
            attributes={"message.type": "LITE", "lite.topic.expiration": "60"},
        )
    )
    plugin.subscription_groups.put(
        GroupSettings(group=GROUP, attributes={**ATTRIBUTES, **attributes})
    )


def send(peer, lite_topic, body=b"1"):
    properties = f"UNIQ_KEY\x01key-{lite_topic}\x02__LITE_TOPIC\x01{lite_topic}\x02"
    header = message(TOPIC, properties=properties)
    return peer.ask(RequestCode.SEND_MESSAGE_V2, header, body=body).code


def subscribe(peer, *lite_topics, action="PARTIAL_ADD", client="one", **more):
    entry = {
        "action": action,
        "clientId": client,
        "group": GROUP,
        "topic": TOPIC,
        "liteTopicSet": lite_topics,
        **more,
    }
    body = json.dumps({"subscriptionSet": [entry]}).encode()
    return peer.ask(RequestCode.LITE_SUBSCRIPTION_CTL, body=body).code


def pop(**options):
    asked = LitePop(
        client_id="one",
        consumer_group=GROUP,
        topic=TOPIC,
        max_msg_num=32,
        invisible_time=60_000,
        poll_time=20_000,
    )
    return attrs.evolve(asked, **options)


def taken(peer, **options):
    return peer.ask(RequestCode.POP_LITE_MESSAGE, pop(**options))


def place_of(answer, view):
    """What a proxy says of a message: a handle of the answer, and the offset in the light queue."""
    header = answer.header(PopAnswer)
    offset = int(view.properties["INNER_MULTI_QUEUE_OFFSET"])
    words = offset, header.pop_time, header.invisible_time, header.revive_qid, 0, "b", 0, offset
    return {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": 0,
        "extra_info": " ".join(map(str, words)),
        "offset": offset,
        "lite_topic": view.properties["__LITE_TOPIC"],
    }


def asked(peer, code, header):
    return json.loads(peer.ask(code, header).body)


def test_messages_of_lite_topics_come_to_their_subscriber_once(served):
    peer = served.peer()
    assert [send(peer, each) for each in "abc"] == [OK] * 3
    served.wait_counted()
    assert subscribe(peer, "a", "b") == OK
    answer = taken(peer)
    found = views(answer)
    assert sorted(each.properties["__LITE_TOPIC"] for each in found) == ["a", "b"]
    assert {each.properties["INNER_MULTI_DISPATCH"] for each in found} == {
        "%LMQ%$parent$a",
        "%LMQ%$parent$b",
    }
    assert answer.header(PopAnswer).order_count_info == "0;0"

    first, second = (place_of(answer, each) for each in found)
    assert peer.ask(RequestCode.ACK_MESSAGE, Ack(**first)).code == OK
    assert peer.ask(RequestCode.ACK_MESSAGE, Ack(**first)).code == ResponseCode.NO_MESSAGE
    longer = ChangeInvisible(**second, invisible_time=0)
    changed = peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, longer)
    assert changed.code == OK
    assert changed.header(ChangeInvisibleAnswer).invisible_time == 0

    again = taken(peer)

    assert [each.properties["__LITE_TOPIC"] for each in views(again)] == [second["lite_topic"]]
    assert again.header(PopAnswer).order_count_info == "1"
    assert taken(peer, poll_time=0).code == ResponseCode.POLLING_TIMEOUT
    assert not any("$" in each for each in served.server.broker.topics())


def test_a_pull_may_name_a_lite_topic(served):
    peer = served.peer()
    for each in "abb":
        send(peer, each, each.encode())
    served.wait_counted()
    options = {"consumer_group": GROUP, "topic": TOPIC, "lite_topic": "b"}
    asked = wirescript.pull(1, hold_ms=20_000, **options)

    answer = peer.ask(RequestCode.PULL_MESSAGE, asked)

    assert [each.body for each in views(answer)] == [b"b"]
    assert answer.header(PullAnswer).next_begin_offset == 2
    held = peer.send(Command.request(RequestCode.PULL_MESSAGE, attrs.evolve(asked, queue_offset=2)))
    send(served.peer(), "b", b"later")
    assert [each.body for each in views(peer.answer_to(held))] == [b"later"]
    elsewhere = attrs.evolve(asked, queue_id=1, queue_offset=0, suspend_timeout_millis=0)
    assert peer.ask(RequestCode.PULL_MESSAGE, elsewhere).code == ResponseCode.PULL_NOT_FOUND
    wrong = attrs.evolve(asked, lite_topic="a$")
    assert peer.ask(RequestCode.PULL_MESSAGE, wrong).code == WRONG


def test_a_group_of_another_topic_gets_nothing_by_the_name_of_a_client(served):
    plugin = served.store.plugin("consumer")
    plugin.topics.put(TopicSettings(topic="other", attributes={"message.type": "LITE"}))
    plugin.subscription_groups.put(
        GroupSettings(group="others", attributes={"lite.bind.topic": "other"})
    )
    peer = served.peer()
    send(peer, "a")
    served.wait_counted()
    assert subscribe(peer, "a") == OK

    answer = taken(served.peer(), consumer_group="others", topic="other", poll_time=0)

    assert answer.code == ResponseCode.POLLING_TIMEOUT
    assert len(views(taken(peer))) == 1


def test_a_lite_topic_that_cannot_be_read_holds_up_no_other(served, monkeypatch):
    def failing(self, request, pop=PopService.pop):
        if request.topic.endswith("$a"):
            raise CorruptFileError("a", 0, "bad")
        return pop(self, request)

    peer = served.peer()
    for each in "ab":
        send(peer, each, each.encode())
    served.wait_counted()
    assert subscribe(peer, "a", "b") == OK
    with monkeypatch.context() as patch:
        patch.setattr(PopService, "pop", failing)
        found = views(taken(peer))
        assert taken(peer).code == ResponseCode.SYSTEM_ERROR

    assert [each.body for each in [*found, *views(taken(peer))]] == [b"b", b"a"]


def test_a_repeated_attempt_gets_the_same_messages(served):
    peer = served.peer()
    send(peer, "a")
    served.wait_counted()
    assert subscribe(peer, "a") == OK
    assert len(views(taken(peer, attempt_id="x"))) == 1

    again = taken(peer, attempt_id="x", poll_time=0)

    assert taken(peer, attempt_id="y", poll_time=0).code == ResponseCode.POLLING_TIMEOUT
    assert peer.ask(RequestCode.ACK_MESSAGE, Ack(**place_of(again, views(again)[0]))).code == OK


def test_what_is_refused(served):
    peer = served.peer()
    groups = served.store.plugin("consumer").subscription_groups
    groups.put(GroupSettings(group="plain"))
    assert send(peer, "a$b") == ResponseCode.MESSAGE_ILLEGAL
    assert [send(peer, each) for each in "abcd"] == [OK] * 3 + [ResponseCode.LMQ_QUOTA_EXCEEDED]
    quota = ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert subscribe(peer, *"abcd") == quota
    assert subscribe(peer, *"abc") == OK
    assert subscribe(peer, "d") == quota
    assert subscribe(peer, "d", action="COMPLETE_ADD") == OK
    assert subscribe(peer, "a", group="plain") == REFUSED
    assert subscribe(peer, "a", topic="other") == REFUSED
    assert subscribe(peer, "a", action="OTHER") == REFUSED
    assert subscribe(peer, "a", client="c" * 256) == quota
    assert peer.ask(RequestCode.LITE_SUBSCRIPTION_CTL, body=b"{}").code == REFUSED
    assert taken(peer, topic="other").code == ResponseCode.TOPIC_NOT_EXIST
    assert taken(peer, max_msg_num=33).code == WRONG
    assert taken(peer, consumer_group="plain").code == WRONG
    assert taken(peer, consumer_group="no").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_lite_topics_of_a_deleted_topic_do_not_count(serve):
    served = serve(sections=SECTIONS)
    set_up(served)
    peer = served.peer()
    assert [send(peer, each) for each in "abcd"] == [OK] * 3 + [ResponseCode.LMQ_QUOTA_EXCEEDED]
    served.wait_counted()

    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic=TOPIC)).code == OK
    set_up(served)

    assert [send(peer, each) for each in "addef"] == [OK] * 4 + [ResponseCode.LMQ_QUOTA_EXCEEDED]
    served._open.close()
    served = serve(sections=SECTIONS)
    assert [send(served.peer(), each) for each in "ag"] == [OK, ResponseCode.LMQ_QUOTA_EXCEEDED]


def test_lite_topics_expire_without_messages(serve):
    served = serve(sections=SECTIONS)
    set_up(served)
    peer, expiry = served.peer(), served.server.expiry
    assert [send(peer, each) for each in "ab"] == [OK] * 2
    served.wait_counted()
    assert subscribe(peer, "a") == OK
    assert len(views(taken(peer))) == 1
    assert subscribe(peer, "b") == OK
    now = served.server.broker.context.clock()

    assert expiry.expire(now + 59 * MINUTE) == []
    assert expiry.expire(now + 61 * MINUTE) == ["%LMQ%$parent$b"]  # a message of a is out

    subscriptions = served.server.broker.lite.subscriptions
    assert subscriptions.find("one")[1] == ["%LMQ%$parent$a"]
    assert [send(peer, each) for each in "bcd"] == [OK] * 2 + [ResponseCode.LMQ_QUOTA_EXCEEDED]
    assert subscribe(peer, "b") == OK
    assert [each.queue_offset for each in views(taken(peer))] == [2]  # the third of its topic
    served.store.plugin("consumer").topics.put(
        TopicSettings(topic=TOPIC, attributes={"message.type": "LITE"})
    )
    assert expiry.expire(now + 61 * MINUTE) == []


def test_expiry_goes_on_after_an_error_and_ends_with_the_server(served, monkeypatch):
    expiry, looks = served.server.expiry, []
    monkeypatch.setattr(LiteExpiry, "_later", lambda self, seconds: looks.append(seconds))

    def failing(self):
        raise OSError("full")

    monkeypatch.setattr(LiteExpiry, "expire", failing)
    asyncio.run_coroutine_threadsafe(expiry.look(), expiry.context.loop).result(60)
    assert looks == [120.0]

    timer = expiry._timer
    served.on_loop(expiry.stop)
    assert timer.cancelled()
    asyncio.run_coroutine_threadsafe(expiry.look(), expiry.context.loop).result(60)
    assert looks == [120.0]


def test_other_requests_come_between_the_parts_of_a_large_subscription(serve, monkeypatch):
    served = serve(sections=SECTIONS)
    set_up(served, **{"lite.sub.client.quota": "-1"})
    names, parts = [f"n{number}" for number in range(2_600)], []
    begin = LiteSubscriptions._begin

    def begun(self, client, light_queues):
        parts.append(len(light_queues))
        begin(self, client, light_queues)

    monkeypatch.setattr(LiteSubscriptions, "_begin", begun)
    peer, subscriptions = served.peer(), served.server.broker.lite.subscriptions
    waiting = served.store.plugin("consumer").popper.waiting

    assert subscribe(peer, *names) == OK
    assert (parts, subscriptions.count, len(waiting)) == ([500] * 5 + [100], 2_600, 2_600)
    assert subscribe(peer, *names[:10], "more", action="COMPLETE_ADD") == OK
    assert (subscriptions.count, len(waiting)) == (11, 11)
    monkeypatch.setattr(litesubscriptions, "_ALL_MAX", 12)
    assert subscribe(peer, "b", "c", client="two") == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert subscribe(peer, "b", client="two") == OK


def test_a_client_that_is_dropped_while_it_subscribes_has_nothing(served):
    subscriptions = served.server.broker.lite.subscriptions
    queues = [f"%LMQ%$parent$n{number}" for number in range(600)]
    steps = subscriptions.add("one", GROUP, TOPIC, queues, print, -1, is_complete=True)

    next(steps)
    assert subscriptions.count == 500
    subscriptions.drop("one")

    assert list(steps) == []
    assert (subscriptions.count, len(served.store.plugin("consumer").popper.waiting)) == (0, 0)


def test_a_store_without_light_queues_takes_no_lite_topics(serve):
    served = serve()
    set_up(served)
    assert send(served.peer(), "a") == ResponseCode.LMQ_QUOTA_EXCEEDED


def test_the_last_subscriber_of_an_exclusive_group_has_a_lite_topic(served):
    set_up(served, **{"lite.sub.model": "Exclusive", "lite.sub.reset.offset.exclusive": "true"})
    peer, other = served.peer(), served.peer()
    assert send(peer, "a") == OK
    assert subscribe(peer, "a") == OK
    answer = taken(peer)
    assert peer.ask(RequestCode.ACK_MESSAGE, Ack(**place_of(answer, views(answer)[0]))).code == OK

    assert subscribe(other, "a", client="two") == OK

    told = peer.receive()
    assert told.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE
    expected = LiteUnsubscribed(lite_topic="a", consumer_group=GROUP, client_id="one")
    assert told.header(LiteUnsubscribed) == expected
    assert len(views(taken(other, client_id="two"))) == 1  # the group begins again
    assert taken(peer, poll_time=0).code == ResponseCode.POLLING_TIMEOUT


def test_a_client_that_is_silent_for_long_is_forgotten(served):
    peer, subscriptions = served.peer(), served.server.broker.lite.subscriptions
    assert subscribe(peer, "a", "b") == OK

    subscriptions.expire(subscriptions.clock() + 100_000)
    assert subscriptions.count == 2
    subscriptions.expire(subscriptions.clock() + 190_000)

    assert (subscriptions.count, subscriptions.clients()) == (0, [])
    assert len(served.store.plugin("consumer").popper.waiting) == 0


def test_operators_see_lite_topics(served):
    peer = served.peer()
    for each in "aab":
        send(peer, each)
    assert subscribe(peer, "a", "b", "c") == OK
    answer = taken(peer, max_msg_num=1)
    (first,) = views(answer)
    peer.ask(RequestCode.ACK_MESSAGE, Ack(**place_of(answer, first)))
    served.wait_counted()

    broker = asked(peer, RequestCode.GET_BROKER_LITE_INFO, None)
    assert (broker["maxLmqNum"], broker["currentLmqNum"], broker["liteSubscriptionCount"]) == (
        3,
        2,
        3,
    )
    assert (broker["topicMeta"], broker["groupMeta"]) == ({TOPIC: 60}, {TOPIC: [GROUP]})
    parent = asked(peer, RequestCode.GET_PARENT_TOPIC_INFO, TopicOf(topic=TOPIC))
    assert parent == {
        "groups": [GROUP],
        "liteTopicCount": 2,
        "lmqNum": 2,
        "topic": TOPIC,
        "ttl": 60,
    }
    header = LiteTopicOf(parent_topic=TOPIC, lite_topic="a")
    lite_topic = asked(peer, RequestCode.GET_LITE_TOPIC_INFO, header)
    assert lite_topic["subscriber"] == [{"clientId": "one", "group": GROUP}]
    assert (lite_topic["topicOffset"]["minOffset"], lite_topic["topicOffset"]["maxOffset"]) == (
        0,
        2,
    )
    header = LiteClientOf(parent_topic=TOPIC, group=GROUP, client_id="one", max_count=2)
    client = asked(peer, RequestCode.GET_LITE_CLIENT_INFO, header)
    assert (client["liteTopicCount"], client["liteTopicSet"]) == (
        3,
        ["%LMQ%$parent$a", "%LMQ%$parent$b"],
    )
    assert client["lastAccessTime"] > 0
    lite = first.properties["__LITE_TOPIC"]
    header = LiteGroupOf(group=GROUP, lite_topic=lite)
    group = asked(peer, RequestCode.GET_LITE_GROUP_INFO, header)
    end = {"a": 2, "b": 1}[lite]
    assert group["totalLagCount"] == end - 1
    wrapper = group["liteTopicOffsetWrapper"]
    assert (wrapper["brokerOffset"], wrapper["consumerOffset"]) == (end, 1)
    assert wrapper["lastTimestamp"] == first.store_timestamp
    whole = asked(peer, RequestCode.GET_LITE_GROUP_INFO, LiteGroupOf(group=GROUP, top_k=5))
    assert whole["totalLagCount"] == end - 1
    assert [each["liteTopic"] for each in whole["lagCountTopK"]] == [lite] * (end > 1)
    for code, header, expected in (
        (RequestCode.TRIGGER_LITE_DISPATCH, LiteWake(group=GROUP), OK),
        (RequestCode.TRIGGER_LITE_DISPATCH, LiteWake(group="no"), 26),
        (RequestCode.GET_PARENT_TOPIC_INFO, TopicOf(topic="no"), 17),
        (RequestCode.GET_LITE_TOPIC_INFO, LiteTopicOf(parent_topic=TOPIC), WRONG),
        (RequestCode.GET_LITE_CLIENT_INFO, LiteClientOf(parent_topic=TOPIC, group="no"), 26),
    ):
        assert peer.ask(code, header).code == expected
    served.on_loop(lambda: None)
    assert len(served.server.broker.lite.subscriptions.take_ready("one", GROUP, TOPIC)) == 3


def test_operators_see_nothing_of_a_deleted_topic(served):
    peer = served.peer()
    for each in "aab":
        send(peer, each)
    served.wait_counted()
    assert served.store.plugin("consumer").delete_topic(TOPIC)
    set_up(served)
    send(peer, "a")
    served.wait_counted()

    parent = asked(peer, RequestCode.GET_PARENT_TOPIC_INFO, TopicOf(topic=TOPIC))
    header = LiteTopicOf(parent_topic=TOPIC, lite_topic="a")
    offsets = asked(peer, RequestCode.GET_LITE_TOPIC_INFO, header)["topicOffset"]

    assert parent["liteTopicCount"] == 1
    assert (offsets["minOffset"], offsets["maxOffset"]) == (2, 3)


def test_attributes_of_groups_change_and_are_shown(served):
    peer = served.peer()

    def put(**attributes):
        body = json.dumps({"groupName": "made", "attributes": attributes}).encode()
        return peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code

    assert put(**{"+lite.bind.topic": TOPIC, "+lite.sub.client.quota": "7"}) == OK
    assert put(**{"-lite.sub.client.quota": "", "+lite.sub.model": "Exclusive"}) == OK
    assert put() == OK

    found = served.store.plugin("consumer").subscription_groups.get("made")
    assert found.attributes == {"lite.bind.topic": TOPIC, "lite.sub.model": "Exclusive"}
    answer = peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert json.loads(answer.body)["subscriptionGroupTable"]["made"]["attributes"] == dict(
        found.attributes
    )
    for name, value in (
        ("other", "1"),
        ("lite.sub.model", "Some"),
        ("lite.sub.client.quota", "-2"),
        ("lite.bind.topic", ""),
        ("lite.sub.wildcard", "true"),
    ):
        assert put(**{f"+{name}": value}) == ResponseCode.SYSTEM_ERROR


def test_attributes_that_operators_set_at_once_are_all_kept(served):
    names = ("lite.sub.reset.offset.exclusive", "lite.sub.reset.offset.unsubscribe")
    peers, code = [served.peer() for _ in names], RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    sent = []
    for peer, name in zip(peers, names, strict=True):
        body = json.dumps({"groupName": "made", "attributes": {f"+{name}": "true"}}).encode()
        sent.append(peer.send(Command.request(code, body=body)))

    assert [peer.answer_to(at).code for peer, at in zip(peers, sent, strict=True)] == [OK, OK]
    found = served.store.plugin("consumer").subscription_groups.get("made")
    assert found.attributes == dict.fromkeys(names, "true")
