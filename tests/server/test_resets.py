"""Operators move groups, with clients and without, and look at what groups read."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import wirescript
from wirepeer import message

import reput
from reput_client.remoting import (
    CloneOffsets,
    Command,
    ConsumerData,
    ConsumeTimesOf,
    CorrectionOf,
    GroupNamed,
    GroupOffset,
    Heartbeat,
    Language,
    OffsetAnswer,
    PullAnswer,
    PullFlag,
    QueueEntries,
    QueueName,
    RequestCode,
    ResetOffset,
    ResponseCode,
    Subscription,
    UpdateGroupOffset,
    parse_body,
)

QUEUE = QueueName("orders", "broker-a", 0)


@pytest.fixture
def peer(served):
    """A connection to a broker with five messages in one queue, of which a group has read three."""
    found = served.peer()
    for number in range(5):
        found.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"%d" % number)
    assert served.store.wait_dispatched(20)
    found.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"billing"}')
    commit(found, 3)
    return found


def commit(peer, offset, group="billing"):
    peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupNamed(group=group))  # makes it
    header = UpdateGroupOffset(
        consumer_group=group, topic="orders", queue_id=0, commit_offset=offset
    )
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header).code == ResponseCode.SUCCESS


def committed(peer, group="billing"):
    header = GroupOffset(
        consumer_group=group, topic="orders", queue_id=0, set_zero_if_not_found=False
    )
    answer = peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
    return answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else None


def question(offset, *, flags=PullFlag.SUBSCRIPTION, wait_ms=0, commit_to=0):
    options = {"commit_offset": commit_to, "suspend_timeout_millis": wait_ms}
    return wirescript.pull(offset, sys_flag=flags, **options)


def place(answer):
    return answer.code, answer.header(PullAnswer).next_begin_offset


def join(peer, client_id="me"):
    wanted = Subscription(topic="orders", expression="*", version=5)
    data = ConsumerData(group="billing", subscriptions=(wanted,))
    heartbeat = Heartbeat(client_id=client_id, consumers=(data,))
    assert peer.ask(RequestCode.HEART_BEAT, body=heartbeat.encode()).code == 0


def reset(peer, timestamp=0, *, version=479, language=Language.JAVA, **options):
    wanted = {"topic": "orders", "group": "billing", "is_force": True, **options}
    command = Command.request(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset(timestamp=timestamp, **wanted)
    )
    sent = peer.send(attrs.evolve(command, version=version, language=language))
    while (answer := peer.receive()).opaque != sent.opaque or not answer.is_response:
        peer.told.append(answer)
    return answer


def offset_of(answer):
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return parse_body(answer.body, "answer")["offsetTable"][QUEUE]


# --------------------------------------------------------------------------- moving


def test_the_new_place_is_durable(served, peer):
    reset(peer)

    file = Path(served.store.root, "config", "consumerOffset.json")
    assert '"orders@billing":{0:0' in file.read_text()


def reset_by(way, served, peer):
    if way == "request":
        reset(peer)
    else:
        served.server.broker.context.plugin.reset_offsets("billing", "orders", "earliest")


@pytest.mark.parametrize("way", ["request", "library"])
def test_a_client_is_told_by_its_next_pull_and_not_heard_until_then(served, peer, way):
    reset_by(way, served, peer)

    commit(peer, 4)  # what it had read before it was told
    assert committed(peer) == 0
    flags = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET
    told = peer.ask(RequestCode.PULL_MESSAGE, question(5, flags=flags, commit_to=5))
    assert (place(told), told.remark) == ((ResponseCode.PULL_OFFSET_MOVED, 0), "OFFSET_RESET")
    assert committed(peer) == 0
    assert place(peer.ask(RequestCode.PULL_MESSAGE, question(0))) == (ResponseCode.SUCCESS, 5)
    commit(peer, 2)
    assert committed(peer) == 2


@pytest.mark.parametrize("kind", ["consumer", "pop_consumer"])
def test_a_client_is_heard_where_another_member_has_gone_on_since_the_reset(served, peer, kind):
    reset(peer)
    with getattr(served.store, kind)("billing", "orders", idle=0) as consumer:
        read = [each.body for each in consumer] if kind == "consumer" else popped(consumer)
    assert len(read) == 5

    assert place(peer.ask(RequestCode.PULL_MESSAGE, question(5))) == (
        ResponseCode.PULL_NOT_FOUND,
        5,
    )
    commit(peer, 4)
    assert committed(peer) == 4


def popped(consumer):
    """Return the bodies of what a member is handed, and acknowledge it."""
    found = consumer.receive(32, 0)
    assert all(each.ack() for each in found)
    return [each.body for each in found]


def test_a_client_that_begins_at_the_new_place_need_not_be_told(peer):
    reset(peer)

    assert place(peer.ask(RequestCode.PULL_MESSAGE, question(0))) == (ResponseCode.SUCCESS, 5)
    commit(peer, 5)
    assert committed(peer) == 5


@pytest.mark.parametrize("way", ["request", "library"])
def test_a_pull_that_waits_is_answered_at_once(served, peer, way):
    waiting = served.peer()
    flags = PullFlag.SUBSCRIPTION | PullFlag.SUSPEND
    waiting.send(
        Command.request(RequestCode.PULL_MESSAGE, question(5, flags=flags, wait_ms=20_000))
    )
    waiting.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # the pull has been taken by now

    reset_by(way, served, peer)

    while not (answer := waiting.receive()).is_response:
        pass
    assert place(answer) == (ResponseCode.PULL_OFFSET_MOVED, 0)


def test_what_there_is_not_is_not_moved(serve, peer):
    assert reset(peer, topic="none").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(peer, group="none").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert reset(peer, group="a b").code == ResponseCode.INVALID_PARAMETER


def test_members_in_the_same_process_move_too(served, peer):
    with served.store.consumer("billing", "orders", explicit=True, idle=0) as consumer:
        first = next(iter(consumer))
        reset(peer)
        again = next(iter(consumer))

    assert (first.body, again.body) == (b"3", b"0")


# --------------------------------------------------------------------------- tools before 5.0

OLD = 409  # 4.9.8


def test_an_old_tool_has_clients_told_by_a_request(served, peer):
    client = served.peer()
    join(client)

    assert offset_of(reset(peer, version=OLD)) == 0

    while (told := client.receive()).code != RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
        pass
    header = told.header(ResetOffset)
    assert (header.topic, header.group, told.is_one_way) == ("orders", "billing", True)
    assert parse_body(told.body, "told") == {
        "offsetTable": {QueueName("orders", "broker-a", number): 0 for number in range(4)}
    }
    assert committed(peer) == 0


def test_clients_in_cpp_are_told_by_a_list(served, peer):
    client = served.peer()
    join(client)

    reset(peer, version=OLD, language=Language.CPP)

    while (told := client.receive()).code != RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
        pass
    table = parse_body(told.body, "told")["offsetTable"]
    assert {"brokerName": "broker-a", "offset": 0, "queueId": 0, "topic": "orders"} in table


def test_an_old_tool_moves_forward_only_by_force(served, peer):
    client = served.peer()
    join(client)

    assert offset_of(reset(peer, -1, version=OLD, is_force=False)) == 3
    assert offset_of(reset(peer, -1, version=OLD, is_force=True)) == 5


def test_an_old_tool_is_told_when_nobody_is_there(peer):
    answer = reset(peer, version=OLD)

    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert answer.remark.startswith("Consumer not online, so can not reset offset, Group: billing")
    assert committed(peer) == 3
    assert reset(peer, version=OLD, topic="none").code == ResponseCode.SYSTEM_ERROR


# --------------------------------------------------------------------------- cloning


def test_all_topics_are_cloned_but_those_that_the_group_has_left(served, peer):
    for topic in ("left", "gone"):
        served.store.put(reput.Message(topic, b"x"))
    served.store.wait_dispatched()
    client = served.peer()
    join(client)
    plugin = served.store.plugin("consumer")
    plugin.port.offsets.commit("billing", {("left", 0): 1})
    for dest_group, offline in (("online", False), ("offline", True)):
        header = CloneOffsets(src_group="billing", dest_group=dest_group, offline=offline)
        peer.ask(RequestCode.CLONE_GROUP_OFFSET, header)

    assert plugin.port.offsets.topics_of("online") == ["orders"]
    assert plugin.port.offsets.topics_of("offline") == ["left", "orders"]
    wrong = CloneOffsets(src_group="billing", dest_group="a b")
    assert peer.ask(RequestCode.CLONE_GROUP_OFFSET, wrong).code == ResponseCode.INVALID_PARAMETER


# --------------------------------------------------------------------------- looking


def body_of(answer):
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return parse_body(answer.body, "answer")


def test_times_of_what_is_there_and_what_was_read_are_told(served, peer):
    stored = [each.store_timestamp for each in served.store.read("orders", 0, 0)]
    asked = ConsumeTimesOf(topic="orders", group="billing")

    rows = body_of(peer.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, asked))["consumeTimeSpanSet"]

    read, *empty = sorted(rows, key=lambda row: row["messageQueue"]["queueId"])
    assert (read["minTimeStamp"], read["maxTimeStamp"]) == (stored[0], stored[-1])
    assert read["consumeTimeStamp"] == stored[2]
    assert read["consumeTimeStampStr"].endswith(f":{stored[2] % 1000:03d}")
    assert read["delayTime"] >= 0
    assert {(row["minTimeStamp"], row["maxTimeStamp"], row["delayTime"]) for row in empty} == {
        (-1, -1, 0)
    }
    none = ConsumeTimesOf(topic="none", group="billing")
    answer = peer.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, none)
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_group_is_corrected_to_the_slowest_of_the_others(peer):
    commit(peer, 1, "slow")
    commit(peer, 2, "mine")

    def ask(compared, left_out=None):
        header = CorrectionOf(topic="orders", compare_group=compared, filter_groups=left_out)
        return body_of(peer.ask(RequestCode.QUERY_CORRECTION_OFFSET, header))["correctionOffsets"]

    assert ask("mine") == {"0": 1}
    assert ask("mine", "slow,other") == {"0": 2}
    assert ask("slow", "slow") == {"0": (1 << 63) - 1}
    assert committed(peer, "slow") == 1


def test_entries_of_a_queue_are_told(served, peer):
    stored = list(served.store.read("orders", 0, 0))
    asked = QueueEntries(topic="orders", queue_id=0, index=1, count=2, consumer_group="billing")

    body = body_of(peer.ask(RequestCode.QUERY_CONSUME_QUEUE, asked))

    assert (body["minQueueIndex"], body["maxQueueIndex"]) == (0, 5)
    assert [(row["physicOffset"], row["physicSize"]) for row in body["queueData"]] == [
        (each.physical_offset, each.size) for each in stored[1:3]
    ]
    assert body["filterData"] == "billing@orders is not online!"
    none = QueueEntries(topic="none", queue_id=7, index=0, count=1)
    answer = peer.ask(RequestCode.QUERY_CONSUME_QUEUE, none)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "7@none is not exist!")


def test_topics_offsets_and_subscriptions_of_a_group_are_told(served, peer):
    join(served.peer())
    named = GroupNamed(group="billing", topic="orders")

    topics = body_of(peer.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, named))
    wanted = body_of(peer.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, named))
    nobody = body_of(peer.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupNamed(group="none")))
    offsets = body_of(peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET))

    assert topics["topicList"] == ["orders"]
    assert wanted["subscriptionData"]["subString"] == "*"
    assert nobody == {"group": "none", "topic": ""}
    assert offsets["offsetTable"] == {"orders@billing": {"0": 3}}
