"""What a broker is asked before it is followed, and what answers are refused."""

from __future__ import annotations

import json
import socket
import struct
import threading

import pytest
from fakemaster import FILE_SIZE, FakeLog, FakeMaster

from reput_client.remoting import AddressError, address_text, parse_address
from reput_server.follow import BrokerClient, BrokerError, LogRange
from reput_server.follow.addresses import parse_addresses
from reput_server.follow.brokerclient.brokerclient import master_address
from reput_server.follow.brokerclient.brokerfacts import facts_of, range_of


@pytest.fixture
def master():
    with FakeMaster(FakeLog(b"x" * 100, base=3 * FILE_SIZE)) as master:
        yield master


def asked(master):
    return BrokerClient(parse_address(master.address), timeout=30)


def test_a_broker_says_what_a_follower_needs(master):
    with asked(master) as broker:
        facts, found = broker.facts(), broker.log_range()

    assert (facts.name, facts.role, facts.broker_id) == ("shop/broker-a", "ASYNC_MASTER", 0)
    assert (facts.file_size, facts.ha_port) == (FILE_SIZE, master.ha_port)
    assert (facts.is_controlled, facts.is_dledger, facts.waits_for_slaves) == (False,) * 3
    assert found == LogRange(3 * FILE_SIZE, 3 * FILE_SIZE + 100)


@pytest.mark.parametrize(
    ("config", "waits"),
    [
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": None}, True),  # 4.x
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": 1}, False),
        ({"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}, True),
        ({"brokerRole": "ASYNC_MASTER", "inSyncReplicas": 2}, False),
    ],
)
def test_which_masters_wait_for_slaves(master, config, waits):
    master.config = config

    with asked(master) as broker:
        assert broker.facts().waits_for_slaves is waits


def test_a_port_of_0_is_the_one_above_the_brokers(master):
    master.config = {"haListenPort": 0}

    with asked(master) as broker:
        assert broker.facts().ha_port == master.port + 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "does not say brokerName"),
        (b"mappedFileSizeCommitLog=-1", "mappedFileSizeCommitLog is '-1'"),
        (b"mappedFileSizeCommitLog=0", "mappedFileSizeCommitLog is 0, where 1 to"),
        (b"haListenPort=70000", "haListenPort is 70000"),
        (b"brokerId=" + b"9" * 400, "brokerId is '9999"),
        (b"\n" * 20_000, "a configuration of"),
    ],
)
def test_a_configuration_that_cannot_be_true_is_refused(master, line, text):
    body = line and master.broker_config() + b"\n" + line

    with pytest.raises(BrokerError, match=text):
        facts_of("b:1", body)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({}, "does not say commitLogMinOffset"),
        ({"commitLogMinOffset": "9", "commitLogMaxOffset": "8"}, "begins at 9 and ends at 8"),
        ({"commitLogMinOffset": "x", "commitLogMaxOffset": "8"}, "'x', where a number"),
        ({"commitLogMinOffset": "0", "commitLogMaxOffset": "9" * 30}, "where a number"),
    ],
)
def test_an_extent_that_cannot_be_true_is_refused(table, text):
    with pytest.raises(BrokerError, match=text):
        range_of("b:1", table)


def test_a_broker_without_a_file_has_an_empty_log():
    assert range_of("b:1", {"commitLogMinOffset": "-1", "commitLogMaxOffset": "0"}) == LogRange(
        0, 0
    )


def test_what_a_broker_refuses_is_named(master):
    master.answers[28] = 3

    with (
        asked(master) as broker,
        pytest.raises(BrokerError, match="request 28 with code 3"),
    ):
        broker.log_range()


@pytest.mark.parametrize("body", [b"[1]", b"{{{", b'{"table":7}'])
def test_a_body_that_is_not_one_is_refused(master, body):
    master.answers[28] = body

    with asked(master) as broker, pytest.raises(BrokerError, match=master.address):
        broker.log_range()


def test_a_connection_that_was_lost_is_made_again(master):
    with asked(master) as broker:
        broker.facts()
        broker._socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(BrokerError):
            broker.facts()

        assert broker.facts().broker == "broker-a"


def test_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()

        with BrokerClient(address) as broker, pytest.raises(BrokerError, match="refused"):
            broker.facts()


def test_a_host_name_that_is_not_valid_is_named():
    with BrokerClient(("a..b", 10911)) as broker, pytest.raises(BrokerError) as raised:
        broker.facts()

    assert str(raised.value) == "a..b:10911: 'a..b' is not a valid host name"


def test_a_peer_that_is_no_broker_costs_neither_memory_nor_time():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def lie():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(struct.pack(">iI", (1 << 31) - 1, 0) + b"HTTP/1.1 400")

        thread = threading.Thread(target=lie)
        thread.start()
        with (
            BrokerClient(server.getsockname()) as broker,
            pytest.raises(BrokerError, match="length of"),
        ):
            broker.facts()
        thread.join()


def test_an_answer_that_does_not_come_in_time_is_an_error():
    times = iter([0.0, 1.0, 99.0])
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        BrokerClient(server.getsockname(), timeout=5, clock=lambda: next(times)) as broker,
        pytest.raises(BrokerError, match="no answer in 5 s"),
    ):
        broker.facts()


def test_a_name_server_knows_the_master(master):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = (unused.getsockname(), parse_address(master.address))

        assert address_text(master_address(servers, "broker-a", 30)) == master.address
        with pytest.raises(BrokerError, match="does not know a broker 'b'; it knows broker-a"):
            master_address(servers, "b", 30)
        with pytest.raises(BrokerError, match="refused"):
            master_address(servers[:1], "broker-a", 30)


def test_a_broker_without_a_master_is_named(master):
    broker = {"brokerAddrs": {"1": "10.0.0.1:1"}, "brokerName": "broker-a", "cluster": "shop"}
    master.answers[106] = json.dumps(
        {"brokerAddrTable": {"broker-a": broker}, "clusterAddrTable": {}}
    ).encode()

    with pytest.raises(BrokerError, match="no master at the moment"):
        master_address((parse_address(master.address),), "broker-a", 30)


def test_a_masters_address_that_is_not_one_is_an_answer_that_cannot_be_used(master):
    broker = {"brokerAddrs": {"0": "nonsense"}, "brokerName": "broker-a", "cluster": "shop"}
    master.answers[106] = json.dumps(
        {"brokerAddrTable": {"broker-a": broker}, "clusterAddrTable": {}}
    ).encode()

    with pytest.raises(BrokerError, match="the master of broker 'broker-a': 'nonsense' is not an"):
        master_address((parse_address(master.address),), "broker-a", 30)


def test_addresses_of_name_servers_have_semicolons_between_them():
    assert parse_addresses("a:1; [::1]:2") == (("a", 1), ("::1", 2))
    with pytest.raises(AddressError):
        parse_addresses(" ; ")
