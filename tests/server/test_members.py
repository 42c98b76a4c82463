"""Members of groups: who is there, who is told, who has locked what, and how far a group is."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from wirepeer import message

import reput
from reput_client.remoting import (
    Command,
    ConsumerData,
    GroupNamed,
    GroupOf,
    Heartbeat,
    QueueOf,
    RequestCode,
    ResponseCode,
    Subscription,
    Unregister,
    UpdateGroupOffset,
    parse_body,
    write_body,
)
from reput_consumer import SubscriptionMismatchError
from reput_consumer.backend.embeddedbackend import EmbeddedBackend

GROUP = "billing"


def heartbeat(client_id, *topics, version=1, **options):
    subscriptions = tuple(Subscription(topic=topic, version=version) for topic in topics)
    data = ConsumerData(group=GROUP, subscriptions=subscriptions, **options)
    return Heartbeat(client_id=client_id, producer_groups=("p",), consumers=(data,)).encode()


def join(served, client_id, *topics):
    peer = served.peer()
    answer = peer.ask(RequestCode.HEART_BEAT, body=heartbeat(client_id, *topics))
    assert (answer.code, answer.version) == (0, 479)
    return peer


def members(peer):
    answer = peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupOf(consumer_group=GROUP))
    return parse_body(answer.body, "members")["consumerIdList"] if answer.code == 0 else answer


def notified(peer):
    """How often the peer was told that its group has changed, by now."""
    peer.ask(RequestCode.GET_MIN_OFFSET, QueueOf(topic="orders", queue_id=0))
    told, peer.told = peer.told, []
    assert {each.code for each in told} <= {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
    assert all(each.is_one_way for each in told)
    return len(told)


def test_a_heartbeat_makes_members_a_group_and_its_retry_topic(served):
    peer = join(served, "one", "orders")
    join(served, "two", "orders")

    plugin = served.store.plugin("consumer")
    assert members(peer) == ["one", "two"]
    assert plugin.subscription_groups.get(GROUP) is not None
    assert plugin.topics.get("%RETRY%billing").write_queue_nums == 1


def test_who_comes_and_goes_is_told_to_the_others(served):
    one = join(served, "one", "orders")
    notified(one)

    two = join(served, "two", "orders")
    came = notified(one)
    two.ask(RequestCode.UNREGISTER_CLIENT, Unregister(client_id="two", consumer_group=GROUP))
    left = members(one)
    went = notified(one)

    assert (came >= 1, went >= 1) == (True, True)
    assert left == ["one"]


def test_the_same_heartbeat_again_tells_nobody(served):
    one = join(served, "one", "orders")
    notified(one)

    for _ in range(3):
        one.ask(RequestCode.HEART_BEAT, body=heartbeat("one", "orders"))

    assert notified(one) == 0
    one.ask(RequestCode.HEART_BEAT, body=heartbeat("one", "orders", "bills", version=2))
    assert notified(one) >= 1


def test_a_connection_that_closes_takes_its_member_along(served):
    one = join(served, "one", "orders")
    two = join(served, "two", "orders")

    two.socket.close()

    for _ in range(1_000):
        if members(one) == ["one"]:
            break
    assert members(one) == ["one"]


def test_a_client_that_comes_back_on_another_connection_stays_when_the_first_closes(served):
    first = join(served, "one", "orders")
    second = join(served, "one", "orders")

    first.socket.close()
    service = served.server.service
    for _ in range(10_000):
        if len(service.peers) == 1:
            break
        served.on_loop(lambda: None)

    assert len(service.peers) == 1
    assert members(second) == ["one"]


def test_a_client_that_is_silent_for_long_is_no_member(served):
    one = join(served, "one", "orders")
    groups = served.server.broker.groups
    now = served.server.broker.context.clock()

    served.on_loop(lambda: groups.expire(now + 119_000))
    before = members(one)
    served.on_loop(lambda: groups.expire(now + 121_000))

    assert before == ["one"]
    assert members(one).code == ResponseCode.SYSTEM_ERROR
    assert groups.producers == {}


def test_consumers_of_this_process_are_in_the_same_group(served):
    peer = join(served, "far", "orders")
    served.store.put(reput.Message("orders", b"x"))

    with served.store.plugin("consumer").consumer(GROUP, "orders", name="near"):
        both = members(peer)

    assert both == ["far", "near"]
    assert members(peer) == ["far"]


def test_clients_that_subscribe_differently_are_members_with_a_warning(served, caplog):
    def beat(peer, name, **topics):
        wants = tuple(Subscription(topic=topic, expression=tags) for topic, tags in topics.items())
        data = ConsumerData(group=GROUP, subscriptions=wants)
        body = Heartbeat(client_id=name, producer_groups=(), consumers=(data,)).encode()
        assert peer.ask(RequestCode.HEART_BEAT, body=body).code == 0

    progress = served.store.plugin("consumer").progress
    one, two = served.peer(), served.peer()
    beat(one, "one", orders="a||b")
    beat(two, "two", orders="b || a")
    assert not progress(GROUP).is_mixed
    beat(two, "two", orders="b")
    assert members(one) == ["one", "two"]
    assert progress(GROUP).is_mixed
    text = "members of a group subscribe differently"
    assert caplog.text.count(text) == 1
    with pytest.raises(SubscriptionMismatchError):
        served.store.consumer(GROUP, {"orders": "a"})
    beat(one, "one", bills="*")
    notified(one), notified(two)
    for peer, name, topics in 2 * ((one, "one", {"bills": "*"}), (two, "two", {"orders": "b"})):
        beat(peer, name, **topics)  # nothing is new
    assert (notified(one), notified(two)) == (0, 0)
    assert caplog.text.count(text) == 2


@pytest.mark.parametrize(
    ("kind", "expression", "code"),
    [("TAG", "a", 0), ("SQL92", "a > 5", 0), ("SQL92", "a >", 23), ("OTHER", "a", 23)],
)
def test_a_subscription_is_checked_before_it_is_used(served, kind, expression, code):
    body = write_body(
        {
            "clientId": "c",
            "group": GROUP,
            "subscriptionData": {"topic": "t", "subString": expression, "expressionType": kind},
        }
    )

    assert served.peer().ask(RequestCode.CHECK_CLIENT_CONFIG, body=body).code == code


def test_a_heartbeat_that_is_none_is_refused(served):
    answer = served.peer().ask(RequestCode.HEART_BEAT, body=b'{"producerDataSet":[]}')

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "'clientID' is missing; a text expected" in answer.remark


# --------------------------------------------------------------------------- offsets


def test_no_offset_overtakes_a_newer_one(served, monkeypatch):
    peer, commit, noted = served.peer(), EmbeddedBackend.commit, []
    has_second_come, are_both_there = threading.Event(), threading.Event()
    peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupNamed(group=GROUP))

    def slow_at_first(port, group, offsets, **options):
        if 1 in offsets.values():
            has_second_come.wait(0.5)  # in vain, as it has to come after
        commit(port, group, offsets, **options)
        noted.extend(offsets.values())
        has_second_come.set()
        if len(noted) == 2:
            are_both_there.set()

    monkeypatch.setattr(EmbeddedBackend, "commit", slow_at_first)
    for offset in (1, 2):
        update = UpdateGroupOffset(
            consumer_group=GROUP, topic="orders", queue_id=0, commit_offset=offset
        )
        peer.send(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, update, one_way=True))

    assert are_both_there.wait(20)
    assert noted == [1, 2]


def test_the_first_offset_of_a_group_is_in_the_file_before_it_is_answered(served):
    peer = served.peer()
    peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupNamed(group=GROUP))

    update = UpdateGroupOffset(consumer_group=GROUP, topic="orders", queue_id=0, commit_offset=1)
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update).code == 0

    file = Path(served.store.root) / "config" / "consumerOffset.json"
    assert '"orders@billing":{0:1' in file.read_text()


def test_an_offset_that_no_queue_has_is_refused(served):
    update = UpdateGroupOffset(consumer_group=GROUP, topic="orders", queue_id=0, commit_offset=-1)
    peer = served.peer()
    peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupNamed(group=GROUP))

    answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "no queue has it" in answer.remark
