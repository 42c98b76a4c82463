"""Who may call, with which settings, and what is not imported without gRPC."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from certificates import make_certificates
from grpcclient import GrpcClient, signed

from reput.errors import ReputError
from reput_server.grpc.messagetypes import m
from reput_server.testing.localbroker import LocalBroker

ROUTE = m.QueryRouteRequest(topic=m.Resource(name="orders"))


def test_a_call_without_a_client_id_is_refused(client):
    assert client("").call("QueryRoute", ROUTE).status.code == 40017


def test_a_heartbeat_needs_settings_and_other_calls_do_not(broker, client):
    broker.create_topic("orders")
    me = client("unknown")
    assert me.call("Heartbeat", m.HeartbeatRequest()).status.code == 40015
    assert me.receive("g", "orders") == (40401, [])
    me.consume("g", "orders")
    group = m.Resource(name="g")
    assert me.call("Heartbeat", m.HeartbeatRequest()).status.code == 40003
    assert me.call("Heartbeat", m.HeartbeatRequest(group=group)).status.code == 20000
    me.call("NotifyClientTermination", m.NotifyClientTerminationRequest(group=group))
    assert me.call("Heartbeat", m.HeartbeatRequest()).status.code == 40015
    ended = me.call("NotifyClientTermination", m.NotifyClientTerminationRequest(group=group))
    assert ended.status.code == 40015


def test_names_that_are_too_long_together_are_refused_as_such(broker, client):
    topic = "t" * 127
    broker.create_topic(topic)

    assert client("unknown").receive("g" * 127, topic) == (40003, [])


def test_access_keys_are_asked_for():
    with LocalBroker(grpc=True, access_keys={"key": "secret"}) as broker:
        broker.create_topic("orders")
        for metadata, code in (
            ({}, 40100),
            ({"authorization": "nonsense"}, 40100),
            (signed("other", "secret"), 40100),
            (signed("key", "wrong"), 40100),
            (signed("key", "secret"), 20000),
        ):
            with GrpcClient(broker.endpoints, "me", **metadata) as me:
                assert me.call("QueryRoute", ROUTE).status.code == code
                told = me.produce("orders")
                assert (told.status.code if code == 20000 else told.code()) == (
                    code if code == 20000 else grpc.StatusCode.INVALID_ARGUMENT
                )


@pytest.mark.parametrize(
    ("mode", "plain", "encrypted"),
    [("permissive", True, True), ("enforcing", False, True), ("disabled", True, False)],
)
def test_plain_and_encrypted_connections_come_on_one_port(tmp_path, mode, plain, encrypted):
    files = make_certificates(tmp_path)
    credentials = grpc.ssl_channel_credentials(Path(files.ca).read_bytes())
    with LocalBroker(grpc=True, tls=files.tls(mode=mode)) as broker:
        broker.create_topic("orders")
        for chosen, works in ((None, plain), (credentials, encrypted)):
            with GrpcClient(broker.endpoints, "me", chosen) as me:
                if works:
                    assert me.call("QueryRoute", ROUTE).status.code == 20000
                    me.produce("orders")
                    sent = me.send("orders", "x" * 300_000)
                    assert sent.status.code == 20000
                else:
                    with pytest.raises(grpc.RpcError):
                        me.call("QueryRoute", ROUTE, 10)


def test_a_client_without_the_certificate_that_is_asked_for_is_refused(tmp_path):
    files = make_certificates(tmp_path)
    authority, pair = Path(files.ca).read_bytes(), Path(files.client).read_bytes()
    without = grpc.ssl_channel_credentials(authority)
    shown = grpc.ssl_channel_credentials(authority, pair, pair)
    tls = files.tls(mode="enforcing", client_ca=files.client_ca)
    with LocalBroker(grpc=True, tls=tls) as broker:
        broker.create_topic("orders")
        with GrpcClient(broker.endpoints, "me", shown) as me:
            assert me.call("QueryRoute", ROUTE).status.code == 20000
        with GrpcClient(broker.endpoints, "me", without) as me, pytest.raises(grpc.RpcError):
            me.call("QueryRoute", ROUTE, 10)


def test_handles_of_before_a_restart_are_void():
    with LocalBroker(grpc=True) as broker:
        broker.create_topic("orders")
        with GrpcClient(broker.endpoints) as me:
            me.produce("orders")
            me.send("orders", "1")
            me.consume("g", "orders")
            _, (message,) = me.take("g", "orders")
        broker.clear()
        broker.create_topic("orders")
        with GrpcClient(broker.endpoints) as me:
            me.consume("g", "orders")
            assert me.ack("g", "orders", message).status.code == 40013


def test_calls_are_refused_as_often_as_a_test_asks_for_it(broker, client):
    me = client("faulty")
    broker.create_topic("faults")
    broker.call_faults.refuse(2, "QueryRoute")
    broker.call_faults.refuse(1, "QueryRoute", 50001)
    request = m.QueryRouteRequest(topic=m.Resource(name="faults"))

    codes = [me.call("QueryRoute", request).status.code for _ in range(4)]

    assert codes == [42900, 42900, 50001, 20000]


def test_a_broker_without_grpc_has_no_endpoints():
    with LocalBroker() as broker:
        with pytest.raises(ReputError, match="grpc=True"):
            _ = broker.endpoints
