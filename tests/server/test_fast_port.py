"""The ports below those of the broker, to which Java clients up to 4.5.0 send."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from certificates import make_certificates
from wirepeer import WirePeer, message
from wirescript import GROUP, heartbeat

from reput_client.remoting import Command, GroupOf, RequestCode, ResponseCode, parse_address
from reput_server import Limits, LocalBroker, Ports, ServerConfig
from reput_server.wire.ports import FAST_BELOW

OWN_HOST = f"127.79.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""An address of loopback on which nobody else takes a port that was free a moment ago."""


def below(broker: LocalBroker) -> tuple[str, int]:
    host, port = parse_address(broker.address)
    return host, port - FAST_BELOW


def sent(peer: WirePeer, body: bytes) -> Command:
    return peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=body)


def test_a_message_is_sent_to_the_port_two_below_and_to_that_of_a_new_beginning():
    with LocalBroker() as broker:
        before = below(broker)
        with WirePeer(before) as peer:
            answer = sent(peer, b"one book")
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert [each.body for each in broker.messages("orders")] == [b"one book"]
        broker.clear()

        assert below(broker) == before
        with WirePeer(before) as peer:
            assert sent(peer, b"x").code == ResponseCode.SUCCESS


def test_a_port_that_is_taken_costs_only_itself(caplog: pytest.LogCaptureFixture):
    with socket.create_server((OWN_HOST, 0)) as taken:
        port = taken.getsockname()[1] + FAST_BELOW
        with LocalBroker(listen=(OWN_HOST, port)):
            with WirePeer((OWN_HOST, port)) as peer:
                assert sent(peer, b"x").code == ResponseCode.SUCCESS
            reported = [each.getMessage() for each in caplog.records]

    (warning,) = (each for each in reported if "fast port" in each)
    assert f"{OWN_HOST}:{port - FAST_BELOW} cannot be listened on" in warning


def test_there_is_no_such_port_where_it_is_turned_off():
    with (
        LocalBroker(listen=(OWN_HOST, 0), fast_port=False) as broker,
        pytest.raises(ConnectionRefusedError),
    ):
        socket.create_connection(below(broker), 5)


def test_of_free_ports_a_pair_is_chosen():
    config = ServerConfig(listen=(OWN_HOST, 0), name_server=None)

    with Ports.take(config) as ports:
        (main,), (fast,) = ports.broker, ports.fast

        assert main.getsockname()[1] - fast.getsockname()[1] == FAST_BELOW
        assert ports.fast_error == ""
        assert ports.address == main.getsockname()
        addresses = main.getsockname(), fast.getsockname()
    for address in addresses:  # both are given back
        socket.create_server(address).close()


def test_below_the_lowest_ports_there_is_none(monkeypatch: pytest.MonkeyPatch):
    port = 0

    def bind(self: socket.socket, address: tuple[str, int]) -> None:
        nonlocal port
        port = address[1]  # only root may bind it

    monkeypatch.setattr(socket.socket, "bind", bind)
    monkeypatch.setattr(socket.socket, "getsockname", lambda self: (OWN_HOST, port))
    with Ports.take(ServerConfig(listen=(OWN_HOST, 2), name_server=None)) as ports:
        assert (len(ports.broker), ports.fast) == (1, ())
        assert "is not a port" in ports.fast_error


def test_connections_of_both_ports_count_together():
    config = {"limits": Limits(connections=2)}
    with (
        LocalBroker(**config) as broker,
        WirePeer(parse_address(broker.address)) as one,
        WirePeer(below(broker)) as two,
    ):
        assert sent(one, b"x").code == ResponseCode.SUCCESS
        assert sent(two, b"x").code == ResponseCode.SUCCESS
        for address in (parse_address(broker.address), below(broker)):
            with WirePeer(address) as another:
                assert another.is_closed()


def test_keys_are_asked_for_on_both_ports():
    with LocalBroker(access_keys={"key": "secret"}) as broker, WirePeer(below(broker)) as peer:
        assert sent(peer, b"x").code == ResponseCode.NO_PERMISSION
        assert broker.messages("orders") == []


def test_a_member_is_known_on_both_ports():
    with (
        LocalBroker() as broker,
        WirePeer(parse_address(broker.address)) as one,
        WirePeer(below(broker)) as two,
    ):
        one.ask(RequestCode.HEART_BEAT, body=heartbeat())
        answer = two.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupOf(consumer_group=GROUP))

    assert b"client-1" in answer.body


def test_a_connection_may_be_encrypted_on_both_ports(tmp_path: Path):
    files = make_certificates(tmp_path)

    with (
        LocalBroker(tls=files.tls(mode="enforcing")) as broker,
        WirePeer(below(broker)) as plain,
        WirePeer(below(broker)) as peer,
    ):
        peer.socket = files.context().wrap_socket(peer.socket, server_hostname="127.0.0.1")
        assert sent(peer, b"x").code == ResponseCode.SUCCESS
        plain.send(Command.request(RequestCode.HEART_BEAT))
        assert plain.is_closed()
