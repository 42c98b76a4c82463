"""What an operator sees of clients of RocketMQ 5."""

from __future__ import annotations

import urllib.request

import pytest
from grpcclient import GrpcClient

from reput import Message
from reput_server.testing.localbroker import LocalBroker

pytest.importorskip("reput_tools.metrics")
pytest.importorskip("prometheus_client")


def test_calls_and_messages_that_are_out_are_counted():
    with LocalBroker(grpc=True, metrics=("127.0.0.1", 0)) as broker:
        broker.create_topic("orders")
        broker.put(*[Message("orders", b"%d" % number) for number in range(3)])
        with GrpcClient(broker.endpoints) as me:
            me.consume("billing", "orders")
            _, found = me.receive("billing", "orders")
            me.ack("billing", "orders", found[0])
            me.ack("billing", "orders", found[0])

            host, port = broker._running.metrics
            text = read(f"http://{host}:{port}/metrics")

    assert "reput_server_call_clients 1.0" in text
    assert "reput_server_call_streams 1.0" in text
    assert "reput_server_waiting_receives 0.0" in text
    for call, code in (
        ("Telemetry", 20000),
        ("ReceiveMessage", 20000),
        ("AckMessage", 20000),
        ("AckMessage", 40013),
    ):
        assert f'reput_server_calls_total{{call="{call}",code="{code}"}} 1.0' in text
    assert 'reput_server_group_out_messages{group="billing"} 2.0' in text
    assert 'reput_server_group_out_seconds{group="billing"}' in text


def read(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()
