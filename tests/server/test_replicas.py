"""The HA port of a server: slaves get the log, and what they ask beside it."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from certificates import make_certificates
from replicated import FILE_SIZE, HA, OBSERVER, a_send, fill, log_of, slave_of, states, until
from wirepeer import WirePeer, message
from wireslave import WireSlave

import reput
from reput.errors import ServiceNotAvailableError
from reput_aio import flushwaiters
from reput_client.remoting import (
    ClusterInfo,
    HaInfo,
    RegisterAnswer,
    RegisterBroker,
    Registration,
    RequestCode,
    ResponseCode,
    TopicRoute,
    TopicRouteOf,
    TopicSettings,
    UnregisterBroker,
    parse_body,
)
from reput_server import Limits, ServerConfig, ServerError, serving


@pytest.fixture
def master(serve):
    return serve(**HA)


# --------------------------------------------------------------------------- the log


def test_a_slave_has_the_bytes_of_the_log_also_those_between_files(master):
    end = fill(master, 2_500)
    assert end > 2 * FILE_SIZE

    with slave_of(master, 1) as slave:
        slave.read_to(end)
        end = fill(master, 50)
        slave.read_to(end)

        assert slave.data == log_of(master, 1, end)
        assert max(slave.sizes) == 32_768
        for offset, size in zip(slave.offsets, slave.sizes, strict=True):
            assert not size or offset // FILE_SIZE == (offset + size - 1) // FILE_SIZE


@pytest.mark.shows("slave-report")
def test_all_that_is_sent_is_on_disk_also_if_puts_do_not_wait_for_it(serve):
    master = serve(
        **HA, sections={"commitlog": {"file_size": FILE_SIZE, "flush_interval_ms": 10**6}}
    )

    with slave_of(master, 0) as slave:
        for _ in range(20):
            end = fill(master, 3)
            slave.read_to(end)
            assert master.store.flushed_offset >= slave.end


@pytest.mark.parametrize("count", [1, 20])
def test_what_is_sent_to_the_broker_is_sent_to_slaves_at_once(serve, monkeypatch, count):
    rarely = {"commitlog": {"file_size": FILE_SIZE, "flush_interval_ms": 10**6}}
    monkeypatch.setattr("reput_server.replication.replicaservice._LOOK_SECONDS", 3_600.0)
    monkeypatch.setattr("reput_server.replication.replicaservice._LOOK_SECONDS_MAX", 3_600.0)
    master = serve(**HA, sections=rarely)
    fill(master, 1)
    peer = master.peer()
    with slave_of(master, 1) as slave:
        until(lambda: states(master))
        for _ in range(5):
            for sent in [peer.send(a_send(number)) for number in range(count)]:
                assert peer.answer_to(sent).code == 0
            slave.read_to(master.store.log.max_physical_offset)


@pytest.mark.shows("slave-report")
def test_a_disk_that_fails_ends_what_is_sent(serve, monkeypatch, caplog):
    monkeypatch.setattr(flushwaiters._Counter, "watch", lambda *_: None)  # the log is called
    rarely = {"commitlog": {"file_size": FILE_SIZE, "flush_interval_ms": 10**6}}
    master = serve(**HA, sections=rarely)
    end = fill(master, 3)
    with slave_of(master, 0) as slave:
        slave.read_to(end)

        def fail(*_):
            raise ServiceNotAvailableError("store", None, None, "the disk is gone")

        monkeypatch.setattr(master.store.log, "wait_flushed", fail)
        fill(master, 3)
        until(lambda: "replicas get nothing more" in caplog.text)
        served_to = []
        master.on_loop(lambda: served_to.append(master.server.replicas.served_to))
        monkeypatch.undo()

    assert served_to == [end] == [slave.end]
    assert caplog.text.count("replicas get nothing more") == 1


def refuse_once(target, name, monkeypatch):
    """Have no thread started by the next call of a function."""
    real, refused = getattr(target, name), []

    def refuse(*arguments, **named):
        monkeypatch.setattr(target, name, real)
        refused.append(1)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(target, name, refuse)
    return refused


@pytest.mark.shows("no-thread")
@pytest.mark.parametrize(("name", "count"), [("start_thread", 3), ("submit", 2_500)])
def test_a_thread_that_cannot_be_started_is_tried_again(serve, monkeypatch, caplog, name, count):
    rarely = {"commitlog": {"file_size": FILE_SIZE, "flush_interval_ms": 10**6}}
    master = serve(**HA, sections=rarely)
    fill(master, count)
    master.store.flush()
    with slave_of(master) as slave:
        found = []
        target = flushwaiters if name == "start_thread" else master.server.replicas._threads
        refuse = partial(refuse_once, target, name, monkeypatch)
        master.on_loop(lambda: found.append(refuse()))
        slave.report(1)
        end = fill(master, 1)
        slave.read_to(end)

    assert found == [[1]]
    assert re.search(
        r"replicas not served, tried again error=.*can't start new thread", caplog.text
    )


def test_a_slave_of_another_log_is_closed_with_one_warning(master, caplog):
    end = fill(master)

    for _ in range(3):
        with slave_of(master, end + 1) as slave:
            assert slave.is_closed()

    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [f"this log ends at {end}" in each.getMessage() for each in warnings] == [True]


def test_only_so_many_slaves_are_admitted(serve):
    master = serve(**HA, limits=Limits(replicas=2))
    end = fill(master)

    with slave_of(master, 1) as one, slave_of(master, 1) as two:
        one.read_to(end)
        two.read_to(end)
        with slave_of(master) as three:
            assert three.is_closed()
        one.socket.close()
        until(lambda: len(states(master)) == 1)
        with slave_of(master, 1) as four:
            four.read_to(end)


def test_a_slave_that_does_not_read_takes_little_memory(master):
    end = fill(master, 20_000)
    assert end > 20 << 20

    with slave_of(master, 1) as slave:
        until(lambda: states(master) and states(master)[0].unsent_size)
        (before,) = states(master)
        assert before.unsent_size <= 3 << 20
        slave.read_to(end)

        assert slave.data == log_of(master, 1, end)


def test_what_is_stored_is_sent_before_the_server_ends(serve, tmp_path):
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=None, **HA)
    plugins = {"consumequeue", "consumer"}
    with reput.open(tmp_path / "own", plugins=plugins) as store:
        with serving(store, config) as server:
            slave = WireSlave(server.replicas.address)
            slave.report(0)
            store.put(reput.Message("orders", b"x"))
            slave.read_to(1)
            store.put_many([reput.Message("orders", b"x" * 1_000)] * 100)
        assert slave.is_closed()

        assert slave.end == store.log.max_physical_offset
        slave.socket.close()


@pytest.mark.shows("no-thread")
def test_a_server_ends_in_order_where_no_thread_can_be_started(tmp_path, monkeypatch):
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=None, **HA)
    start, refused = threading.Thread.start, []

    def fail(thread):
        if not is_ending:
            return start(thread)
        refused.append(thread.name)
        raise RuntimeError("can't start new thread")

    is_ending = []
    with reput.open(tmp_path / "own", plugins={"consumequeue", "consumer"}) as store:
        with serving(store, config) as server:
            ended = []
            for name, owner in (("replicas", server.replicas), ("broker", server.broker)):
                close = "_close" if name == "replicas" else "close"
                monkeypatch.setattr(
                    type(owner), close, noting(getattr(type(owner), close), name, ended)
                )
            slave = WireSlave(server.replicas.address)
            slave.report(0)
            store.put(reput.Message("orders", b"x"))
            slave.read_to(1)
            monkeypatch.setattr(threading.Thread, "start", fail)
            is_ending.append(True)
        is_ending.clear()
        with pytest.raises(OSError):  # its port is closed
            socket.create_connection(server.address, 10)

    assert ended == ["replicas", "broker"]
    assert "reput-serve-stop_0" in refused
    assert slave.is_closed()
    slave.socket.close()


def noting(method, name, ended):
    """Return a method that notes that it has been called to its end."""

    def noted(self):
        method(self)
        ended.append(name)

    return noted


def test_a_store_that_is_open_for_reading_has_no_replicas(serve):
    serve(**HA)
    with pytest.raises(ServerError, match="cannot have replicas"):
        serve(mode="r", **HA)


# --------------------------------------------------------------------------- encryption


def test_the_port_is_encrypted_like_the_others(serve, tmp_path):
    files = make_certificates(tmp_path)
    master = serve(**HA, tls=files.tls(mode="enforcing"))
    end = fill(master, 2_000)

    with slave_of(master, 1, context=files.context()) as slave, slave_of(master, 1) as plain:
        slave.read_to(end)
        assert slave.data == log_of(master, 1, end)
        assert plain.is_closed()
        assert not plain.data


def test_plain_slaves_are_served_where_encryption_is_not_required(serve, tmp_path):
    master = serve(**HA, tls=make_certificates(tmp_path).tls())
    end = fill(master)

    with slave_of(master, 1) as slave, slave_of(master, OBSERVER) as other:
        slave.read_to(end)
        other.report(1)
        other.read_to(end)


# --------------------------------------------------------------------------- who knows of it

SLAVE = RegisterBroker(
    broker_name="broker-a",
    broker_addr="10.0.0.9:10911",
    cluster_name="DefaultCluster",
    ha_server_addr="10.0.0.9:10912",
    broker_id=1,
)
TOPICS = Registration(
    topics={
        name: TopicSettings(topic=name, read_queues=1, write_queues=1) for name in ("one", "two")
    },
    version={"counter": 1, "timestamp": 1},
)


def broker_of(served):
    return "{}:{}".format(*served.server.address)


def test_the_name_server_tells_slaves_of_the_broker_beside_it(master):
    fill(master, 1)
    master.store.wait_dispatched(20)  # a route has the topics whose queues exist
    names = master.names()

    answer = names.ask(RequestCode.REGISTER_BROKER, SLAVE, body=TOPICS.encode())

    found = answer.header(RegisterAnswer)
    assert found.master_addr == broker_of(master)
    assert found.ha_server_addr == "{}:{}".format(*master.server.replicas.address)
    body = names.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
    addresses = {0: broker_of(master), 1: SLAVE.broker_addr}
    assert ClusterInfo.decode(body).brokers["broker-a"].addresses == addresses
    asked = TopicRouteOf(topic="orders")
    route = TopicRoute.decode(names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked).body)
    assert [each.addresses for each in route.brokers] == [addresses]


def test_a_slave_that_leaves_is_in_no_route(master):
    fill(master, 1)
    names = master.names()
    names.ask(RequestCode.REGISTER_BROKER, SLAVE, body=TOPICS.encode())

    left = UnregisterBroker(
        broker_name="broker-a",
        broker_addr=SLAVE.broker_addr,
        cluster_name="DefaultCluster",
        broker_id=1,
    )
    names.ask(RequestCode.UNREGISTER_BROKER, left)

    body = names.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
    assert ClusterInfo.decode(body).brokers["broker-a"].addresses == {0: broker_of(master)}


def test_no_other_broker_takes_the_masters_place(master):
    names = master.names()
    import attrs

    other = attrs.evolve(SLAVE, broker_id=0)
    names.ask(RequestCode.REGISTER_BROKER, other, body=TOPICS.encode())

    body = names.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
    assert ClusterInfo.decode(body).brokers["broker-a"].addresses == {0: broker_of(master)}


def test_other_name_servers_are_told_where_slaves_get_the_log(serve):
    config = ServerConfig(listen=None, name_server=("127.0.0.1", 0))
    with serving(None, config) as others:
        master = serve(**HA, register=(others.name_server,))
        until(lambda: master.server.registrar.registered)
        with WirePeer(others.name_server) as names:
            answer = names.ask(RequestCode.REGISTER_BROKER, SLAVE, body=TOPICS.encode())

    found = answer.header(RegisterAnswer)
    assert found.master_addr == broker_of(master)
    assert found.ha_server_addr == "{}:{}".format(*master.server.replicas.address)


# --------------------------------------------------------------------------- what slaves ask


def test_a_master_says_so_in_its_options(serve):
    master = serve(**HA, sync_replicas=2)

    text = master.peer().ask(RequestCode.GET_BROKER_CONFIG).body.decode()

    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert found["brokerRole"] == "SYNC_MASTER"
    assert found["inSyncReplicas"] == "3"
    assert found["haListenPort"] == str(master.server.replicas.address[1])
    assert found["brokerIP2"] == "127.0.0.1"


def test_a_broker_without_replicas_has_no_such_options(served):
    text = served.peer().ask(RequestCode.GET_BROKER_CONFIG).body.decode()

    assert "haListenPort" not in text
    assert "brokerRole=ASYNC_MASTER" in text


def test_where_the_log_is_and_where_it_ended_at_the_start(serve, tmp_path):
    with reput.open(tmp_path / "store", plugins=[], config={"commitlog": {"file_size": FILE_SIZE}}):
        pass
    master = serve(**HA)
    fill(master)

    found = master.peer().ask(RequestCode.EXCHANGE_BROKER_HA_INFO).header(HaInfo)

    assert found.master_ha_address == "{}:{}".format(*master.server.replicas.address)
    assert found.master_address == broker_of(master)
    assert found.master_flush_offset == 0


def test_a_master_follows_nobody(master):
    answer = master.peer().ask(
        RequestCode.EXCHANGE_BROKER_HA_INFO, HaInfo(master_ha_address="10.0.0.1:10912")
    )

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark == "this broker is a master, and follows none"


def test_how_far_each_replica_is(master):
    end = fill(master)
    master.store.flush()
    peer = master.peer()

    with slave_of(master, 1) as one, slave_of(master, end - 10) as two:
        one.read_to(end)
        one.acknowledge()
        two.read_to(end)
        two.report(OBSERVER)
        until(lambda: [each.is_observer for each in states(master)].count(True))
        until(lambda: any(each.reported_offset == end for each in states(master)))
        status = parse_body(peer.ask(RequestCode.GET_BROKER_HA_STATUS).body, "status")

    assert status["master"] is True
    assert status["masterCommitLogMaxOffset"] == end
    assert status["inSyncSlaveNums"] == 1
    found = {each["slaveAckOffset"]: each for each in status["haConnectionInfo"]}
    assert found.keys() == {end, OBSERVER}
    assert (found[end]["inSync"], found[end]["diff"]) == (True, 0)
    assert (found[OBSERVER]["inSync"], found[OBSERVER]["diff"]) == (False, end - OBSERVER)
    assert found[OBSERVER]["transferFromWhere"] == end - 10
    assert re.fullmatch(r"127\.0\.0\.1:\d+", found[end]["addr"])


def test_the_timer_is_handed_out_as_its_files_are(served):
    peer, config = served.peer(), Path(served.store.root) / "config"
    due = int(time.time() * 1000) + 3_600_000
    header = message("orders", properties=f"TIMER_DELIVER_MS\x01{due}\x02")
    assert peer.ask(RequestCode.SEND_MESSAGE_V2, header, body=b"x").code == 0
    waiting = until(lambda: waiting_of(served, config))

    def check():
        body = peer.ask(RequestCode.GET_TIMER_CHECK_POINT).body
        return body if body == (config / "timercheck").read_bytes()[:56] else b""

    assert struct.unpack(">7q", until(check))[0] > 1_600_000_000_000  # ms
    metrics = json.loads(peer.ask(RequestCode.GET_TIMER_METRICS).body)
    assert metrics["timingCount"] == waiting


def waiting_of(served, config):
    """What the timer's file of counts says, once it counts a message."""
    served.store.flush()
    path = config / "timermetrics"
    return path.exists() and json.loads(path.read_bytes())["timingCount"]


def test_without_a_timer_its_questions_are_refused_as_in_rocketmq(serve):
    peer = serve(frozenset({"consumequeue", "consumer"})).peer()

    found = [
        peer.ask(code)
        for code in (RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS)
    ]

    assert [each.code for each in found] == [ResponseCode.SYSTEM_ERROR] * 2
    assert found[0].remark == "The checkpoint is null"


def test_modes_of_requests_are_those_of_the_brokers_file(served):
    peer = served.peer()
    nothing = peer.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE).body

    path = Path(served.store.root) / "config" / "messageRequestMode.json"
    path.write_bytes(b'{"messageRequestModeMap":{"orders":{}}}')
    found = peer.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE).body

    assert json.loads(nothing) == {"messageRequestModeMap": {}}
    assert found == path.read_bytes()


@pytest.mark.parametrize("size", [4 << 20, (4 << 20) + 1])
def test_a_file_that_is_too_long_is_refused_and_not_cut(served, size):
    path = Path(served.store.root) / "config" / "messageRequestMode.json"
    path.write_bytes(b'{"messageRequestModeMap":{}}'.ljust(size))

    answer = served.peer().ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)

    if size > 4 << 20:
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"{path.name} has more than {4 << 20} bytes" in answer.remark
    else:
        assert len(answer.body) == size


@pytest.mark.parametrize(
    ("code", "change"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.SEND_MESSAGE_V2),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.CONSUMER_SEND_MSG_BACK),
    ],
)
def test_a_table_has_another_version_when_it_has_changed(served, code, change):
    peer = served.peer()

    def version():
        return parse_body(peer.ask(code).body, "table")["dataVersion"]

    before, same = version(), version()
    if change == RequestCode.SEND_MESSAGE_V2:
        assert peer.ask(change, message("other"), body=b"x").code == 0
    else:
        body = b'{"groupName":"other"}'
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    after = version()

    assert before == same
    assert after["counter"] == before["counter"] + 1
