"""Routes, sends and their refusals, transactions, recall: over gRPC, by bare stubs."""

from __future__ import annotations

import base64
import time

import grpc
import pytest
from grpcclient import WAIT

from reput_server.grpc.messagetypes import m

OK = 20000
IDENTIFIED = m.SystemProperties(message_id="id")
RECOVERY = {"orphaned_transaction_recovery_duration": m.Duration(seconds=3_601)}


@pytest.fixture(scope="module", autouse=True)
def topics(running):
    running.create_topic("orders", queues=3)
    for name in ("FIFO", "DELAY", "TRANSACTION", "MIXED"):
        running.create_topic(name.lower(), message_type=name)


@pytest.fixture
def producer(client):
    found = client("producer")
    found.produce("orders", "fifo", "delay", "transaction", "mixed")
    return found


def soon(seconds=3_600):
    return m.Timestamp(seconds=int(time.time()) + seconds)


def test_a_route_names_all_queues_and_where_to_dial(broker, producer):
    found = producer.call("QueryRoute", m.QueryRouteRequest(topic=m.Resource(name="orders")))

    assert found.status.code == OK
    assert [queue.id for queue in found.message_queues] == [0, 1, 2]
    (address,) = found.message_queues[0].broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == broker.endpoints
    assert list(found.message_queues[0].accept_message_types) == [1]
    mixed = producer.call("QueryRoute", m.QueryRouteRequest(topic=m.Resource(name="mixed")))
    assert list(mixed.message_queues[0].accept_message_types) == [1, 2, 3, 4]


def test_a_route_names_the_address_that_its_client_dialled(producer):
    dialled = m.Endpoints(scheme=3, addresses=[m.Address(host="shop.example", port=18_081)])
    request = m.QueryRouteRequest(topic=m.Resource(name="orders"), endpoints=dialled)

    found = producer.call("QueryRoute", request)

    assert found.message_queues[0].broker.endpoints == dialled


@pytest.mark.parametrize(
    "addresses",
    [
        [m.Address(host="h" * 256, port=1)],
        [m.Address(host="h", port=1)] * 9,
        [m.Address(host="h", port=1), m.Address(port=1)],
    ],
)
def test_a_route_repeats_no_address_that_is_too_long(broker, producer, addresses):
    request = m.QueryRouteRequest(
        topic=m.Resource(name="orders"), endpoints=m.Endpoints(scheme=3, addresses=addresses)
    )

    found = producer.call("QueryRoute", request)

    (address,) = found.message_queues[0].broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == broker.endpoints


def test_a_route_repeats_no_field_that_is_not_known(producer):
    strange = b"\xfa\x07\x64" + b"x" * 100  # field 127, a hundred bytes
    dialled = m.Endpoints(scheme=3, addresses=[m.Address(host="shop.example", port=1)])
    request = m.QueryRouteRequest(
        topic=m.Resource.FromString(m.Resource(name="orders").SerializeToString() + strange),
        endpoints=m.Endpoints.FromString(dialled.SerializeToString() + strange),
    )

    found = producer.call("QueryRoute", request)

    assert found.message_queues[0].broker.endpoints == dialled
    assert b"x" * 100 not in found.SerializeToString()


def test_each_message_of_a_call_is_checked_for_its_type(producer):
    request = m.SendMessageRequest()
    for at, more in enumerate([{}, {"message_group": "g"}]):
        system = m.SystemProperties(message_type=1, message_id=f"mixed-{at}", **more)
        request.messages.add(topic=m.Resource(name="orders"), body=b"x", system_properties=system)

    assert producer.call("SendMessage", request).status.code == 40014


@pytest.mark.parametrize(
    ("topic", "code"),
    [("nowhere", 40402), ("", 40002), ("a b", 40002), ("BenchmarkTest", 40002), ("TBW102", 40002)],
)
def test_topics_without_a_route(producer, topic, code):
    found = producer.call("QueryRoute", m.QueryRouteRequest(topic=m.Resource(name=topic)))
    assert found.status.code == code


def test_an_assignment_is_the_broker_or_each_queue_in_order(broker, client):
    broker.create_group("in_order", ordered=True)
    me = client()

    def ids(group):
        request = m.QueryAssignmentRequest(
            topic=m.Resource(name="orders"), group=m.Resource(name=group)
        )
        return [each.message_queue.id for each in me.call("QueryAssignment", request).assignments]

    assert ids("any") == [-1]
    assert ids("in_order") == [0, 1, 2]


def test_settings_are_answered_with_what_the_server_decides(client):
    me = client()
    answer = me.produce("orders")
    assert answer.status.code == OK
    assert answer.settings.backoff_policy.max_attempts == 3
    assert answer.settings.publishing.max_body_size == 4 << 20
    again = me.produce("orders", "fifo")
    assert len(again.settings.publishing.topics) == 2


@pytest.mark.parametrize(
    "settings",
    [
        m.Settings(client_type=1),
        m.Settings(client_type=1, publishing=m.Publishing(topics=[m.Resource(name="a b")])),
        m.Settings(client_type=1, subscription=m.Subscription(group=m.Resource(name="g"))),
    ],
)
def test_settings_that_are_not_taken_end_the_stream(client, settings):
    ended = client().tell(settings)

    assert isinstance(ended, grpc.RpcError)
    assert ended.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("topic", "body", "system", "code"),
    [
        ("orders", "", {}, 41302),
        ("orders", "x" * ((4 << 20) + 1), {}, 41301),
        ("orders", "x", {"tag": "a|b"}, 40004),
        ("orders", "x", {"tag": " "}, 40004),
        ("orders", "x", {"tag": "a\x85b"}, 40004),
        ("orders", "x", {"keys": [" "]}, 40005),
        ("orders", "x", {"message_group": "g"}, 40014),
        ("orders", "x", {"message_type": 2, "message_group": "g"}, 40014),
        ("orders", "x", {"message_id": ""}, 40009),
        ("orders", "x", {"message_id": "a\x01b"}, 40009),
        ("fifo", "x", {"message_type": 2}, 40014),
        ("fifo", "x", {"message_type": 2, "message_group": " "}, 40006),
        ("fifo", "x", {"message_type": 2, "message_group": "g" * 64}, 40006),
        ("delay", "x", {"message_type": 3, "delivery_timestamp": soon(90_000)}, 40012),
        ("delay", "x", {"message_type": 3}, 40014),
        ("transaction", "x", {"message_type": 4, **RECOVERY}, 40000),
        ("nowhere", "x", {}, 40402),
    ],
)
def test_sends_that_are_refused(producer, topic, body, system, code):
    assert producer.send(topic, body, **system).status.code == code


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"UNIQ_KEY": "x"}, 40007),
        ({"a\x01b": "x"}, 40007),
        ({"a": "x\x02"}, 40007),
        ({"a": "x" * (16 << 10)}, 43101),
        ({str(number): "x" for number in range(129)}, 43101),
    ],
)
def test_properties_that_are_refused(producer, properties, code):
    request = m.SendMessageRequest()
    request.messages.add(topic=m.Resource(name="orders"), body=b"x", system_properties=IDENTIFIED)
    request.messages[0].user_properties.update(properties)
    assert producer.call("SendMessage", request).status.code == code


def test_messages_of_one_call_have_one_topic(producer):
    request = m.SendMessageRequest()
    request.messages.add(topic=m.Resource(name="orders"), body=b"x")
    request.messages.add(topic=m.Resource(name="mixed"), body=b"x")
    assert producer.call("SendMessage", request).status.code == 40016
    assert producer.call("SendMessage", m.SendMessageRequest()).status.code == 40016


def test_messages_of_a_group_go_to_one_queue(broker, producer):
    for number in range(5):
        sent = producer.send("fifo", str(number), message_type=2, message_group="g")
        assert sent.entries[0].offset == number
    assert len({each.queue_id for each in broker.messages("fifo")}) == 1


def test_a_delayed_message_comes_when_it_is_due_unless_it_is_recalled(broker, producer):
    sent = producer.send("delay", "kept", message_type=3, delivery_timestamp=soon())
    recalled = producer.send("delay", "recalled", message_type=3, delivery_timestamp=soon())
    assert sent.status.code == OK
    request = m.RecallMessageRequest(
        topic=m.Resource(name="delay"), recall_handle=recalled.entries[0].recall_handle
    )
    answer = producer.call("RecallMessage", request)
    assert (answer.status.code, answer.message_id) == (OK, recalled.entries[0].message_id)
    request.recall_handle = "nonsense"
    assert producer.call("RecallMessage", request).status.code == 40000
    parts = base64.urlsafe_b64decode(sent.entries[0].recall_handle).split(b" ")
    for at in soon(300_000).seconds, 9_000_000_000:  # no broker has handed out such a handle
        far = b" ".join((*parts[:3], b"%d000" % at, parts[4]))
        request.recall_handle = base64.urlsafe_b64encode(far).decode()
        answer = producer.call("RecallMessage", request)
        assert (answer.status.code, "timerMaxDelaySec" in answer.status.message) == (40000, True)

    assert broker.messages("delay") == []
    broker.forward(3_700)
    producer.consume("late", "delay")
    _, (message,) = producer.receive("late", "delay", long_polling_timeout=m.Duration(seconds=20))
    assert message.body == b"kept"


def end(producer, transaction_id, resolution):
    request = m.EndTransactionRequest(
        topic=m.Resource(name="transaction"), transaction_id=transaction_id, resolution=resolution
    )
    return producer.call("EndTransaction", request).status.code


def test_transactions_are_committed_rolled_back_and_asked_for(broker, producer):
    ids = [
        producer.send("transaction", body, message_type=4).entries[0].transaction_id
        for body in ("committed", "rolled back", "orphan")
    ]
    assert broker.messages("transaction") == []
    assert end(producer, "", 1) == 40008
    assert end(producer, "nonsense", 1) == 40008
    assert end(producer, ids[0], 1) == OK
    assert end(producer, ids[1], 2) == OK
    assert [each.body for each in broker.messages("transaction")] == [b"committed"]

    broker.forward(600)
    asked = producer.commands.get(timeout=WAIT).recover_orphaned_transaction_command

    assert asked.message.body == b"orphan"
    assert asked.message.topic.name == "transaction"
    assert end(producer, asked.transaction_id, 1) == OK
    found = [each.body for each in broker.messages("transaction")]
    assert found == [b"committed", b"orphan"]


def test_topics_and_groups_of_a_namespace_are_others(broker, client):
    broker.create_topic("space%orders")
    me = client()
    resource = m.Resource(resource_namespace="space", name="orders")
    me.tell(m.Settings(client_type=1, publishing=m.Publishing(topics=[resource])))
    request = m.SendMessageRequest()
    request.messages.add(topic=resource, body=b"x", system_properties=IDENTIFIED)
    assert me.call("SendMessage", request).status.code == OK

    assert [each.body for each in broker.messages("space%orders")] == [b"x"]


@pytest.mark.parametrize("name", ["UpdateOffset", "GetOffset", "QueryOffset"])
def test_calls_that_are_not_supported_say_so(client, name):
    assert client().call(name, m.NothingRequest()).status.code == 50100


def test_a_message_is_stored_as_rocketmqs_proxy_stores_it(broker, producer):
    broker.create_topic("kept", queues=1)
    producer.send(
        "kept",
        "x",
        message_id="id",
        born_host="host",
        born_timestamp=m.Timestamp(seconds=7),
        trace_context="trace",
        delivery_attempt=2,
    )

    (kept,) = broker.messages("kept")

    assert dict(kept.properties) == {
        "UNIQ_KEY": "id",
        "CLUSTER": "DefaultCluster",
        "PGROUP": "kept",
        "RECONSUME_TIME": "2",
        "BORN_TIMESTAMP": "7000",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "__BORNHOST": "host",
        "TRACE_CONTEXT": "trace",
    }
    assert kept.born_timestamp == 7_000


def test_a_message_without_a_host_is_born_where_its_sender_is(broker, producer):
    broker.create_topic("hosts", queues=1)
    producer.send("hosts", "x")

    (kept,) = broker.messages("hosts")

    assert kept.properties["__BORNHOST"].startswith("127.0.0.1:")


def test_what_counts_is_what_a_message_has_and_not_its_type(producer):
    assert producer.send("orders", "x", message_type=2).status.code == OK
    assert producer.send("fifo", "x", message_group="g").status.code == OK


def test_a_message_that_is_due_has_no_handle_to_recall_it(producer):
    sent = producer.send("delay", "x", message_type=3, delivery_timestamp=m.Timestamp(seconds=1))

    assert (sent.status.code, sent.entries[0].recall_handle) == (OK, "")


def test_dead_letters_have_a_route(broker, producer):
    broker.create_topic("%DLQ%g")
    found = producer.call("QueryRoute", m.QueryRouteRequest(topic=m.Resource(name="%DLQ%g")))

    assert found.status.code == OK
