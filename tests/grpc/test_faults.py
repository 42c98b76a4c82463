"""Faults of a test's broker for clients of RocketMQ 5, and time that goes by."""

from __future__ import annotations

import time

import grpc
import pytest
from grpcclient import GrpcClient

from reput import Message
from reput_server.grpc.messagetypes import m
from reput_server.testing.__main__ import answers
from reput_server.testing.localbroker import LocalBroker


@pytest.fixture
def broker():
    with LocalBroker(grpc=True) as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture
def me(broker):
    with GrpcClient(broker.endpoints) as client:
        yield client


def bodies(broker):
    return [bytes(each.body).decode() for each in broker.messages("orders")]


def code_of(call):
    with pytest.raises(grpc.RpcError) as failed:
        call()
    return failed.value.code()


def test_a_busy_broker_stores_nothing(broker, me):
    me.produce("orders")
    broker.call_faults.refuse(1)

    assert [me.send("orders", str(n)).status.code for n in range(2)] == [42900, 20000]
    assert bodies(broker) == ["1"]


def test_an_answer_is_lost_and_the_message_is_stored(broker, me):
    me.produce("orders")
    broker.call_faults.lose_answers(1)

    assert code_of(lambda: me.send("orders", "1")) == grpc.StatusCode.UNAVAILABLE
    assert me.send("orders", "1").status.code == 20000
    assert bodies(broker) == ["1", "1"]


def test_a_call_is_cut_and_does_nothing(broker, me):
    me.produce("orders")
    broker.call_faults.cut_at(1)

    assert code_of(lambda: me.send("orders", "1")) == grpc.StatusCode.UNAVAILABLE
    assert bodies(broker) == []


def test_messages_of_a_lost_receive_come_again_when_their_time_is_over(broker, me):
    broker.put(Message("orders", b"1"))
    me.consume("g", "orders")
    broker.call_faults.lose_answers(1, "ReceiveMessage")

    assert code_of(lambda: me.receive("g", "orders")) == grpc.StatusCode.UNAVAILABLE
    assert me.receive("g", "orders") == (40401, [])
    broker.forward(31)
    broker.store.wait_dispatched()
    waits = m.Duration(seconds=10)
    _, (again,) = me.receive("g", "orders", long_polling_timeout=waits)
    assert again.system_properties.delivery_attempt == 2


def test_streams_are_cut_and_clients_may_come_again(broker, me):
    me.consume("g", "orders")
    broker.call_faults.cut_streams()

    assert me.commands.get(timeout=30).code() == grpc.StatusCode.UNAVAILABLE
    with GrpcClient(broker.endpoints) as again:
        again.consume("g", "orders")
        beat = m.HeartbeatRequest(group=m.Resource(name="g"))
        assert again.call("Heartbeat", beat).status.code == 20000


def test_faults_can_be_asked_for_line_by_line_and_forgotten(broker, me):
    me.produce("orders")
    lines = [
        '{"do": "busy", "call": "SendMessage"}',
        '{"do": "lose", "call": "SendMessage"}',
        '{"do": "cut", "call": "SendMessage", "times": 2}',
        '{"do": "cut-streams"}',
        '{"do": "cut", "call": "SendMessage", "times": 0}',
    ]
    *good, bad = answers(broker, lines)
    assert good == [{}] * 4
    assert "times=0" in bad["error"]

    assert me.send("orders", "1").status.code == 42900
    for _ in range(2):
        assert code_of(lambda: me.send("orders", "1")) == grpc.StatusCode.UNAVAILABLE
    broker.call_faults.clear()
    assert me.send("orders", "2").status.code == 20000
    assert bodies(broker) == ["1", "2"]


def test_time_moves_back_offs(broker, me):
    broker.put(Message("orders", b"1"))
    me.consume("g", "orders")
    _, (first,) = me.take("g", "orders")
    me.change("g", "orders", first, 7_200)  # a back-off
    waits = m.Duration(seconds=10)

    broker.forward(7_000)
    assert me.receive("g", "orders") == (40401, [])
    broker.forward(201)

    _, (again,) = me.receive("g", "orders", long_polling_timeout=waits)
    assert again.system_properties.delivery_attempt == 2


def test_a_message_that_was_recalled_does_not_come_when_time_goes_by_at_once(broker, me):
    broker.create_topic("late", message_type="DELAY")
    me.produce("late")
    due = m.Timestamp(seconds=int(time.time()) + 3_600)
    recalled, _ = (
        me.send("late", each, message_id=each, message_type=3, delivery_timestamp=due)
        for each in ("recalled", "kept")
    )
    handle = recalled.entries[0].recall_handle
    request = m.RecallMessageRequest(topic=m.Resource(name="late"), recall_handle=handle)

    assert me.call("RecallMessage", request).status.code == 20000
    broker.forward(3_601)

    me.consume("g", "late")
    waits = m.Duration(seconds=10)
    _, found = me.receive("g", "late", long_polling_timeout=waits)
    assert [each.body for each in found] == [b"kept"]
