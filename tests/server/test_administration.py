"""What operators ask: topics, groups, connections, how far groups are, how the broker is."""

from __future__ import annotations

import json

import pytest
from wirepeer import message

import reput
from reput_client.remoting import (
    ConsumeStatsOf,
    CreateTopic,
    DeleteGroup,
    Heartbeat,
    QueueName,
    QueueOf,
    RequestCode,
    ResponseCode,
    TopicOf,
    TopicRouteOf,
    UpdateGroupOffset,
    parse_body,
    write_body,
)
from reput_server.broker.statistics.ratemeter import RateMeter


def body_of(answer):
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return parse_body(answer.body, "answer")


def create(topic="orders", **options):
    wanted = {"read_queue_nums": 3, "write_queue_nums": 2, "perm": 6, **options}
    return CreateTopic(topic=topic, **wanted)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (create("a b"), "letters, digits"),
        (create("TBW102"), "is conflict with system topic"),
        (create("SCHEDULE_TOPIC_XXXX"), "is conflict with system topic"),
        (create(read_queue_nums=0), "read_queue_nums"),
        (create(perm=99), "perm"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(served, header, said):
    answer = served.peer().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert said in answer.remark


def test_a_topic_keeps_its_kind_of_queues(served):
    peer, code = served.peer(), RequestCode.UPDATE_AND_CREATE_TOPIC
    served.store.put(reput.Message("plain", b"x", queue_id=0))

    made = peer.ask(code, create("batches", attributes="+queue.type=BatchCQ"))
    again = peer.ask(code, create("batches", attributes="+queue.type=BatchCQ"))
    changed = peer.ask(code, create("batches", attributes="+queue.type=SimpleCQ"))
    removed = peer.ask(code, create("batches", attributes="-queue.type"))
    filled = peer.ask(code, create("plain", attributes="+queue.type=BatchCQ"))
    deleted = peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicOf(topic="batches"))

    assert (made.code, again.code) == (ResponseCode.SUCCESS, ResponseCode.SUCCESS)
    assert "a topic keeps its kind of queues, which is BatchCQ" in changed.remark
    assert removed.remark == changed.remark
    assert "plain queues already" in filled.remark
    assert "delete the topic with the broker" in deleted.remark
    topics = served.store.plugin("consumer").topics
    assert topics.get("batches").has_batch_queues
    assert topics.get("plain") is None


def test_topics_are_made_together_or_not_at_all(served):
    peer, code = served.peer(), RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    attributes = "+message.type=FIFO,+reserve.time=5"
    changed = {"-message.type": "", "+cleanup.policy": "DELETE"}
    peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create("bills", attributes=attributes))
    rows = [
        {"topicName": "orders", "readQueueNums": 3, "writeQueueNums": 3},
        {"topicName": "bills", "perm": 4, "attributes": changed},
    ]

    refused = peer.ask(code, body=write_body({"topicConfigList": [*rows, {"topicName": "TBW102"}]}))
    before = served.store.plugin("consumer").topics.get("orders")
    made = peer.ask(code, body=write_body({"topicConfigList": rows}))

    found = served.store.plugin("consumer").topics
    assert (refused.code, before) == (ResponseCode.INVALID_PARAMETER, None)
    assert made.code == ResponseCode.SUCCESS
    assert found.get("orders").read_queue_nums == 3
    bills = found.get("bills")
    assert bills.perm == 4
    assert bills.attributes == {"reserve.time": "5", "cleanup.policy": "DELETE"}


def test_groups_are_made_together_or_not_at_all(served):
    peer, code = served.peer(), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    rows = [{"groupName": "billing", "retryMaxTimes": 3}, {"groupName": "audit"}]

    refused = peer.ask(code, body=write_body({"groupConfigList": [*rows, {"groupName": "a b"}]}))
    before = served.store.plugin("consumer").subscription_groups.names()
    made = peer.ask(code, body=write_body({"groupConfigList": rows}))

    assert (refused.code, before) == (ResponseCode.SYSTEM_ERROR, [])
    assert made.code == ResponseCode.SUCCESS
    assert served.store.plugin("consumer").subscription_groups.get("billing").retry_max_times == 3


def test_all_producers_are_named(served):
    peer = served.peer()
    heartbeat = Heartbeat(client_id="me", producer_groups=("makers",))
    peer.ask(RequestCode.HEART_BEAT, body=heartbeat.encode())

    (found,) = body_of(peer.ask(RequestCode.GET_ALL_PRODUCER_INFO))["data"]["makers"]

    assert (found["clientId"], found["language"], found["version"]) == ("me", "PYTHON", 479)
    assert found["remoteIP"] == "{}:{}".format(*peer.socket.getsockname())


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("x=y", "+NAME=VALUE or -NAME expected"),
        ("+color=red", "unsupported key: color"),
        ("-color", "unsupported key: color"),
        ("+message.type=RED", "value is not in set"),
    ],
)
def test_an_attribute_that_no_topic_has_is_refused(served, attributes, said):
    header = create(attributes=attributes)

    answer = served.peer().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert said in answer.remark


def test_nothing_is_changed_on_a_store_for_reading(serve):
    serve().store.close()
    peer = serve(mode="r").peer()

    code = RequestCode
    answers = [
        peer.ask(code.UPDATE_AND_CREATE_TOPIC, create()),
        peer.ask(code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"g"}'),
        peer.ask(code.DELETE_TOPIC_IN_BROKER, TopicOf(topic="orders")),
        peer.ask(code.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="g")),
        peer.ask(code.CLEAN_UNUSED_TOPIC),
        peer.ask(code.DELETE_EXPIRED_COMMITLOG),
    ]
    options = peer.ask(code.UPDATE_BROKER_CONFIG, body=b"autoCreateTopicEnable=true")

    assert {each.code for each in answers} == {ResponseCode.NO_PERMISSION}
    assert options.code == ResponseCode.INVALID_PARAMETER
    assert "opened for reading" in options.remark


def test_queues_of_a_topic_tell_what_they_hold(served):
    peer = served.peer()
    peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders", 1), body=b"x")
    served.store.wait_dispatched()
    (stored,) = served.store.read("orders", 1, 0)

    table = body_of(peer.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicOf(topic="orders")))[
        "offsetTable"
    ]

    queue = QueueOf(topic="orders", queue_id=1)
    earliest = peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, queue).fields
    assert earliest == {"timestamp": str(stored.store_timestamp)}
    empty = {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert table == {QueueName("orders", "broker-a", number): empty for number in (0, 2, 3)} | {
        QueueName("orders", "broker-a", 1): {
            "lastUpdateTimestamp": stored.store_timestamp,
            "maxOffset": 1,
            "minOffset": 0,
        }
    }


# --------------------------------------------------------------------------- groups


def test_clients_are_told_of_each_queue_that_failed_messages_come_to(served):
    peer, names = served.peer(), served.names()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    topics = served.store.plugin("consumer").topics
    body = {"groupName": "billing", "consumeEnable": True}
    served.store.plugin("consumer").subscription_groups.ensure("billing")

    peer.ask(code, body=write_body({**body, "retryQueueNums": 3}))

    assert topics.get("%RETRY%billing").read_queue_nums == 3
    answer = names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRouteOf(topic="%RETRY%billing"))
    (queues,) = body_of(answer)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"]) == (3, 3)


def test_how_far_a_group_is_is_told_by_queue(served):
    peer = served.peer()
    served.store.put_many([reput.Message(topic, b"x") for topic in ("orders", "orders", "bills")])
    served.store.wait_dispatched()
    peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=b'{"groupName":"billing"}')
    for topic, offset in (("orders", 1), ("bills", 1)):
        update = UpdateGroupOffset(
            consumer_group="billing", topic=topic, queue_id=0, commit_offset=offset
        )
        peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)

    def table(**options):
        asked = ConsumeStatsOf(consumer_group="billing", **options)
        return body_of(peer.ask(RequestCode.GET_CONSUME_STATS, asked))["offsetTable"]

    orders = table()[QueueName("orders", "broker-a", 0)]
    assert (orders["brokerOffset"], orders["consumerOffset"]) == (2, 1)
    first = served.store.read("orders", 0, 0).messages[0]
    assert orders["lastTimestamp"] == first.store_timestamp  # of what was consumed last
    assert orders["pullOffset"] == 1
    assert {queue.topic for queue in table()} == {"orders", "bills"}
    assert {queue.topic for queue in table(topic="bills")} == {"bills"}
    assert {queue.topic for queue in table(topic_list="orders;none")} == {"orders"}
    readers = peer.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicOf(topic="bills"))
    assert body_of(readers) == {"groupList": ["billing"]}
    wrong = peer.ask(RequestCode.GET_CONSUME_STATS, ConsumeStatsOf(consumer_group="a b"))
    assert wrong.code == ResponseCode.SYSTEM_ERROR


# --------------------------------------------------------------------------- the broker


def test_the_broker_tells_how_it_is(served):
    peer = served.peer()
    empty = body_of(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
    served.wait_counted()

    table = body_of(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]

    assert empty["earliestMessageTimeStamp"] == "-1"
    assert {type(value) for value in table.values()} == {str}
    assert table["brokerVersionDesc"] == "V5_3_3"
    assert table["msgPutTotalTodayNow"] == "1"
    assert float(table["putTps"].split()[0]) > 0
    assert 0 < float(table["commitLogDiskRatio"]) < 1
    assert int(table["commitLogMaxOffset"]) == served.store.log.max_physical_offset
    (stored,) = served.store.read("orders", 0, 0)
    assert table["putMessageSizeTotal"] == str(stored.size)
    assert table["putMessageEntireTimeMax"].isdigit()
    assert table["runtime"].startswith("[ 0 days, 0 hours, ")
    assert table["commitLogDirCapacity"].startswith("Total : ")
    assert table["sendThreadPoolQueueSize"] == table["pageCacheLockTimeMills"] == "0"
    assert table["earliestMessageTimeStamp"] == str(stored.store_timestamp)
    assert json.loads(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)


def test_a_rate_is_that_of_its_span():
    rate = RateMeter()
    for second in range(600):
        rate.add(5, second * 1_000)

    assert rate.text(599_999) == "5.0005 5.0001 5.0000"
    assert rate.text(609_999).split()[0] == "0.0005"
    assert rate.text(5_000_000) == "0.0000 0.0000 0.0000"
    assert rate.total == 3_000
