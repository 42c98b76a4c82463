"""Lite topics over gRPC: many small topics in one, to which a consumer subscribes."""

from __future__ import annotations

import pytest

from reput_consumer import ConsumerPlugin
from reput_server.grpc.messagetypes import m

OK, NONE, VOID, FORBIDDEN = 20000, 40401, 40013, 40300
ADD, REMOVE, ADD_ALL, REMOVE_ALL = range(4)
LITE = 5


@pytest.fixture
def names(broker, request):
    """A topic with lite topics, and a group bound to it."""
    name = request.node.name.partition("[")[0][-50:]
    broker.create_topic(name, message_type="LITE")
    broker.create_group(f"g_{name}", parent=name)
    return f"g_{name}", name


def subscribe(client, group, topic, action, *lite_topics, **option):
    request = m.SyncLiteSubscriptionRequest(
        action=action,
        group=m.Resource(name=group),
        topic=m.Resource(name=topic),
        lite_topic_set=lite_topics,
    )
    if option:
        request.offset_option.CopyFrom(m.OffsetOption(**option))
    return client.call("SyncLiteSubscription", request).status.code


def consumer(client, name, group, topic, *lite_topics):
    found = client(name)
    told = found.consume(group, topic, kind=LITE)
    assert told.settings.subscription.lite_subscription_quota == 2_000
    assert told.settings.subscription.max_lite_topic_size == 64
    assert subscribe(found, group, topic, ADD_ALL, *lite_topics) == OK
    return found


def send(client, topic, lite_topic, *bodies):
    client.produce(topic)
    return client.send(topic, *bodies, lite_topic=lite_topic).status.code


def texts(messages):
    return [(each.system_properties.lite_topic, each.body.decode()) for each in messages]


def test_a_consumer_gets_the_messages_of_its_lite_topics_in_order(broker, client, names):
    group, topic = names
    me = client("producer")
    assert send(me, topic, "a", "1", "2") == send(me, topic, "b", "3") == OK
    assert send(me, topic, "c", "4") == OK
    broker.store.wait_dispatched()
    reader = consumer(client, "reader", group, topic, "a", "b")

    code, found = reader.take(group, topic)

    assert (code, sorted(texts(found))) == (OK, [("a", "1"), ("a", "2"), ("b", "3")])
    assert {each.topic.name for each in found} == {topic}
    assert {each.system_properties.message_type for each in found} == {LITE}
    assert not any(each.user_properties for each in found)
    assert reader.ack(group, topic, *found).status.code == OK
    assert reader.ack(group, topic, *found).status.code == VOID
    assert reader.receive(group, topic) == (NONE, [])
    settings = broker.store.plugin(ConsumerPlugin).topics
    assert {each for each in settings.names() if topic in each} == {topic, f"%RETRY%{group}"}


def test_a_message_that_comes_later_wakes_a_consumer_that_waits(broker, client, names):
    group, topic = names
    reader = consumer(client, "reader", group, topic, "a")
    waiting = reader.stream(
        reader.request(group, topic, long_polling_timeout=m.Duration(seconds=20))
    )
    assert send(client("producer"), topic, "a", "1") == OK

    found = [each.message for each in waiting if each.WhichOneof("content") == "message"]

    assert texts(found) == [("a", "1")]


def test_a_lite_topic_waits_for_its_messages_that_are_out(broker, client, names):
    group, topic = names
    reader, me = consumer(client, "reader", group, topic, "a"), client("producer")
    send(me, topic, "a", "1")
    _, (first,) = reader.take(group, topic)
    send(me, topic, "a", "2")
    broker.store.wait_dispatched()
    assert reader.receive(group, topic) == (NONE, [])

    broker.forward(31)  # it comes again in its place
    _, (again,) = reader.take(group, topic, batch_size=1)

    assert again.system_properties.delivery_attempt == 2
    assert texts([first, again]) == [("a", "1")] * 2
    renewed = reader.change(group, topic, again, 100)
    assert renewed.status.code == OK
    again.system_properties.receipt_handle = renewed.receipt_handle
    assert reader.ack(group, topic, again).status.code == OK
    assert texts(reader.take(group, topic)[1]) == [("a", "2")]


def test_subscriptions_end(broker, client, names):
    group, topic = names
    reader, me = consumer(client, "reader", group, topic, "a", "b"), client("producer")
    assert subscribe(reader, group, topic, REMOVE, "a") == OK
    assert subscribe(reader, group, topic, ADD, "c") == OK
    for each in "abc":
        send(me, topic, each, each)
    broker.store.wait_dispatched()
    found = reader.take(group, topic)[1]
    assert sorted(texts(found)) == [("b", "b"), ("c", "c")]
    reader.ack(group, topic, *found)

    assert subscribe(reader, group, topic, REMOVE_ALL) == OK
    send(me, topic, "b", "later")
    broker.store.wait_dispatched()

    assert reader.receive(group, topic) == (NONE, [])


@pytest.mark.parametrize(
    ("option", "expected"),
    [({"policy": 2}, []), ({"policy": 1}, ["0", "1", "2"]), ({"offset": 1}, ["1", "2"])],
)
def test_a_subscription_says_where_the_group_goes_on(broker, client, names, option, expected):
    group, topic = names
    lite_topic = "-".join(map(str, option.popitem()))
    kind, _, value = lite_topic.partition("-")
    assert send(client("producer"), topic, lite_topic, "0", "1", "2") == OK
    broker.store.wait_dispatched()
    reader = consumer(client, "reader", group, topic)

    assert subscribe(reader, group, topic, ADD, lite_topic, **{kind: int(value)}) == OK
    found = reader.receive(group, topic)[1]

    assert [each.body.decode() for each in found] == expected


def test_in_an_exclusive_group_the_last_subscriber_has_a_lite_topic(broker, client, names):
    group, topic = names
    groups = broker.store.plugin(ConsumerPlugin).subscription_groups
    settings = groups.get(group)
    settings.attributes["lite.sub.model"] = "Exclusive"
    groups.put(settings)
    first = consumer(client, "first", group, topic, "a", "b")
    second = consumer(client, "second", group, topic)

    assert subscribe(second, group, topic, ADD, "a") == OK

    told = first.commands.get(timeout=20)
    assert told.notify_unsubscribe_lite_command.lite_topic == "a"
    send(client("producer"), topic, "a", "1")
    assert texts(second.take(group, topic)[1]) == [("a", "1")]
    assert first.receive(group, topic) == (NONE, [])


@pytest.mark.parametrize(("quota", "shown"), [("-1", 2**31 - 1), ("5", 5), ("9" * 18, 2**31 - 1)])
def test_a_consumer_is_shown_how_many_lite_topics_it_may_have(broker, client, names, quota, shown):
    group, topic = names
    groups = broker.store.plugin(ConsumerPlugin).subscription_groups
    settings = groups.get(group)
    settings.attributes["lite.sub.client.quota"] = quota
    groups.put(settings)

    told = client("reader").consume(group, topic, kind=LITE)

    assert told.settings.subscription.lite_subscription_quota == shown


def test_what_is_refused(broker, client, names):
    group, topic = names
    broker.create_topic("normal")
    me, reader = client("producer"), consumer(client, "reader", group, topic)
    assert me.produce(topic).status.code == OK
    assert me.send(topic, "1", lite_topic="a$b").status.code == 40020
    assert me.send(topic, "1", lite_topic="a" * 65).status.code == 40020
    assert me.send(topic, "1").status.code == 40014
    assert me.send("normal", "1", lite_topic="a").status.code == 40014
    assert subscribe(reader, "g_other", topic, ADD, "a") == FORBIDDEN
    assert subscribe(reader, group, "normal", ADD, "a") == FORBIDDEN
    assert subscribe(reader, group, topic, ADD, "a/b") == FORBIDDEN
    assert subscribe(reader, group, topic, ADD, *map(str, range(2_001))) == 42902
    assert reader.receive(group, "normal")[0] == FORBIDDEN


def test_the_priority_of_a_message_is_its_queue(broker, client):
    broker.create_topic("urgent", message_type="PRIORITY", queues=4)
    me, reader = client("producer"), client("reader")
    me.produce("urgent")
    reader.consume("g_urgent", "urgent")
    for each in (1, 9, 0):
        assert me.send("urgent", str(each), priority=each).status.code == OK
    broker.store.wait_dispatched()

    _, found = reader.take("g_urgent", "urgent")

    rows = [(each.system_properties.queue_id, each.body.decode()) for each in found]
    assert rows == [(3, "9"), (1, "1"), (0, "0")]
    assert [each.system_properties.priority for each in found] == [9, 1, 0]
    assert me.send("urgent", "1").status.code == 40014
    assert me.send("urgent", "1", priority=-1).status.code == 40000
