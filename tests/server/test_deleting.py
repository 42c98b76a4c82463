"""Operators delete topics and groups, and nothing brings them back by itself."""

from __future__ import annotations

import pytest
import wirescript
from wirepeer import message

from reput_client.remoting import (
    CreateTopic,
    GroupOffset,
    OffsetAnswer,
    PullAnswer,
    QueueName,
    QueueOf,
    RequestCode,
    ResponseCode,
    TopicOf,
    UpdateGroupOffset,
    parse_body,
)


def put(served, *bodies, topic="orders"):
    peer = served.peer()
    for body in bodies:
        answer = peer.ask(RequestCode.SEND_MESSAGE_V2, message(topic), body=body)
        assert answer.code == ResponseCode.SUCCESS
    assert served.store.wait_dispatched(20)


def pull(peer, offset, topic="orders", group="billing"):
    header = wirescript.pull(offset, topic=topic, consumer_group=group)
    answer = peer.ask(RequestCode.PULL_MESSAGE, header)
    found = answer.header(PullAnswer) if answer.fields else None
    return answer.code, found and found.next_begin_offset


def commit(peer, offset, topic="orders", group="billing"):
    header = UpdateGroupOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=offset)
    return peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def committed(peer, topic="orders", group="billing"):
    header = GroupOffset(consumer_group=group, topic=topic, queue_id=0, set_zero_if_not_found=False)
    answer = peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
    return answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else None


def topics(served):
    body = served.names().ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body
    return set(parse_body(body, "topics")["topicList"])


def test_a_deleted_topic_has_no_route_no_messages_and_no_offsets(served):
    put(served, b"1", b"2")
    peer = served.peer()
    commit(peer, 1)
    assert "orders" in topics(served)

    deleted = peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders"))
    at_names = served.names().ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, TopicOf(topic="orders"))

    assert (deleted.code, at_names.code) == (ResponseCode.SUCCESS, ResponseCode.SUCCESS)
    assert "orders" not in topics(served)
    route = served.names().ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicOf(topic="orders"))
    assert route.code == ResponseCode.TOPIC_NOT_EXIST
    assert pull(peer, 0)[0] == ResponseCode.TOPIC_NOT_EXIST
    assert committed(peer) is None


def test_what_is_sent_later_makes_the_topic_anew(served):
    put(served, b"old 1", b"old 2")
    peer = served.peer()
    peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders"))

    put(served, b"new")

    assert pull(peer, 0) == (ResponseCode.PULL_OFFSET_MOVED, 2)
    assert pull(peer, 2) == (ResponseCode.SUCCESS, 3)
    queue = QueueOf(topic="orders", queue_id=0)
    assert peer.ask(RequestCode.GET_MIN_OFFSET, queue).header(OffsetAnswer).offset == 2
    stats = peer.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicOf(topic="orders")).body
    found = parse_body(stats, "stats")["offsetTable"][QueueName("orders", "broker-a", 0)]
    assert (found["minOffset"], found["maxOffset"]) == (2, 3)


def test_a_new_group_begins_at_the_first_message_of_a_topic_that_came_back(served):
    put(served, b"old 1", b"old 2")
    peer = served.peer()
    peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders"))
    asked = GroupOffset(consumer_group="new", topic="orders", queue_id=0)
    strict = GroupOffset(
        consumer_group="new", topic="orders", queue_id=0, set_zero_if_not_found=False
    )
    assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked).code == 22  # the end is the beginning

    put(served, b"new 1", b"new 2")

    assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked).fields == {"offset": "2"}
    assert peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, strict).code == 22
    assert pull(peer, 2, group="new") == (ResponseCode.SUCCESS, 4)


def test_members_that_commit_late_do_not_bring_a_topic_back(served):
    put(served, b"1")
    peer = served.peer()
    peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders"))

    late = commit(peer, 1)

    assert (late.code, late.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic orders not exist!")
    assert "orders" not in topics(served)


def test_a_topic_without_a_message_is_deleted(served):
    peer = served.peer()
    create = CreateTopic(topic="empty", read_queue_nums=3, write_queue_nums=3, perm=6)
    peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create)

    for _ in range(2):  # a topic that there is not is deleted as well
        answer = peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="empty"))
        assert answer.code == ResponseCode.SUCCESS

    assert "empty" not in topics(served)


def test_a_deleted_topic_takes_no_message_where_sends_make_no_topics(serve):
    served = serve(creates_topics=False)
    peer = served.peer()
    create = CreateTopic(topic="orders", read_queue_nums=1, write_queue_nums=1, perm=6)
    peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create)
    put(served, b"1")

    peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders"))

    answer = peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"2")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "orders" not in topics(served)


@pytest.mark.parametrize("topic", [" ", "TBW102", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX", "a/b"])
def test_a_topic_that_no_user_has_is_not_deleted(served, topic):
    answer = served.peer().ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic=topic))

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark


def test_what_is_unused_is_cleaned(served):
    put(served, b"1")
    peer = served.peer()
    peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders"))
    served.store.plugin("consumer").deleted.note("gone", {0: 7})

    codes = [
        peer.ask(code).code
        for code in (
            RequestCode.CLEAN_UNUSED_TOPIC,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
            RequestCode.DELETE_EXPIRED_COMMITLOG,
        )
    ]

    assert codes == [ResponseCode.SUCCESS] * 3
    assert served.store.plugin("consumer").deleted.names() == ["orders"]
