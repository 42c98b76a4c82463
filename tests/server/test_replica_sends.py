"""Sends that wait for replicas, and what is shown of replicas."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import types
import urllib.request

import pytest
from replicated import FILE_SIZE, HA, OBSERVER, a_send, fill, slave_in_sync, slave_of, states, until
from wirepeer import message

from reput.errors import FlushDiskTimeoutError
from reput_client.remoting import RequestCode, ResponseCode, SendBack
from reput_server import Limits, ServerConfig
from reput_server.monitoring.livedocument import live_document

pytestmark = pytest.mark.shows("slave-report")

SOON = Limits(replica_wait_ms=50)
LONG = Limits(replica_wait_ms=20_000)


@pytest.fixture(params=["async", "sync"])
def flush(request):
    return {"commitlog": {"file_size": FILE_SIZE, "flush": request.param}}


def send(peer, body=b"x", properties=""):
    return peer.ask(
        RequestCode.SEND_MESSAGE_V2, message("orders", properties=properties), body=body
    )


def in_sync(served):
    return [each.is_in_sync for each in states(served)].count(True)


BOTH_WAYS = ["", "TRACE_ON\x01true\x02"]
"""Properties of an ordinary send, and of one that goes the longer way."""


@pytest.mark.parametrize("properties", BOTH_WAYS)
def test_without_a_replica_a_send_is_stored_and_answered_so(serve, flush, properties):
    master = serve(**HA, sync_replicas=1, limits=LONG, sections=flush)
    peer = master.peer()

    answers = [send(peer, properties=properties) for _ in range(2)]

    for place, answer in enumerate(answers):
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert answer.remark.startswith("SLAVE_NOT_AVAILABLE: stored, but of 1 replicas")
        assert answer.fields["queueOffset"] == str(place)
    assert len(next(iter(master.store.scan()))) == 2


@pytest.mark.parametrize("properties", BOTH_WAYS)
def test_a_replica_that_does_not_report_costs_the_whole_time(serve, flush, properties):
    master = serve(**HA, sync_replicas=1, limits=SOON, sections=flush)
    peer = master.peer()
    with slave_in_sync(master) as slave:
        until(lambda: in_sync(master) == 1)
        answer = send(peer, properties=properties)
        slave.read_to(1)

    assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert answer.remark.startswith("FLUSH_SLAVE_TIMEOUT: stored, but not reported by 1 replicas")
    assert answer.fields["queueOffset"] == "0"


def follow(slave):
    """Report all that comes, until the connection ends."""
    with contextlib.suppress(OSError):
        while slave.read():
            if slave.data:
                slave.acknowledge()


@contextlib.contextmanager
def reporting(served, count=1):
    with contextlib.ExitStack() as stack:
        slaves = [stack.enter_context(slave_in_sync(served)) for _ in range(count)]
        threads = [threading.Thread(target=follow, args=(each,)) for each in slaves]
        for each in threads:
            each.start()
        until(lambda: in_sync(served) == count)
        try:
            yield slaves
        finally:
            for each in slaves:
                each.socket.shutdown(2)
            for each in threads:
                each.join()


@pytest.mark.parametrize("properties", BOTH_WAYS)
def test_a_send_is_answered_when_replicas_have_it(serve, flush, properties):
    master = serve(**HA, sync_replicas=2, limits=LONG, sections=flush)
    peer = master.peer()

    with reporting(master, 2) as slaves:
        for number in range(30):
            answer = send(peer, b"%d" % number, properties)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            end = master.store.log.max_physical_offset
            assert [each.end for each in slaves] == [end, end]


def test_sends_that_wait_do_not_keep_others_from_being_stored(serve):
    master = serve(**HA, sync_replicas=1, limits=LONG)
    peer = master.peer()

    with slave_in_sync(master) as slave:
        until(lambda: in_sync(master) == 1)
        requests = [peer.send(a_send(number)) for number in range(20)]
        until(lambda: sum(map(len, master.store.scan())) == 20)
        slave.read_to(master.store.log.max_physical_offset)
        slave.acknowledge()
        codes = [peer.answer_to(each).code for each in requests]

    assert codes == [0] * 20


def test_an_observer_is_no_replica(serve):
    master = serve(**HA, sync_replicas=1, limits=LONG)
    peer = master.peer()

    with slave_of(master, 0) as slave:
        slave.report(OBSERVER)
        until(lambda: [each.is_observer for each in states(master)] == [True])
        answer = send(peer)

    assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize("properties", BOTH_WAYS)
def test_a_slave_that_has_only_begun_is_no_replica(serve, flush, properties):
    master = serve(**HA, sync_replicas=1, limits=LONG, sections=flush)
    peer = master.peer()
    assert send(peer).code == ResponseCode.SLAVE_NOT_AVAILABLE
    master.store.flush()
    end = master.store.log.max_physical_offset

    with slave_of(master, end) as slave:
        until(lambda: states(master))
        (state,) = states(master)
        assert (state.is_observer, state.is_in_sync, state.lag_size) == (False, False, 0)
        assert send(peer, properties=properties).code == ResponseCode.SLAVE_NOT_AVAILABLE
        slave.read_to(end + 1)  # it gets all the same
        slave.report(end)
        until(lambda: in_sync(master) == 1)


@pytest.mark.shows("no-thread")
@pytest.mark.parametrize("properties", BOTH_WAYS)
def test_a_thread_that_cannot_be_started_holds_up_no_send(serve, flush, properties, monkeypatch):
    flush["commitlog"]["flush_interval_ms"] = 10**6
    master = serve(**HA, sync_replicas=1, limits=LONG, sections=flush)
    peer = master.peer()

    def begin(_, end_offset):
        future = asyncio.get_running_loop().create_future()
        future.set_exception(FlushDiskTimeoutError("end_offset", end_offset, None, "no thread"))
        return future

    with reporting(master):
        waiters = type("NoThread", (), {"begin": begin})()
        of = types.SimpleNamespace(of=lambda *_: waiters)
        monkeypatch.setattr("reput_server.replication.replicaservice.FlushWaiters", of)
        sent = [peer.send(a_send(number)) for number in range(3)]
        until(lambda: sum(map(len, master.store.scan())) == 3)
        monkeypatch.undo()
        assert [peer.answer_to(each).code for each in sent] == [0] * 3
        assert send(peer, properties=properties).code == 0


def test_what_is_put_on_the_loop_is_answered_whatever_becomes_of_replicas(serve, monkeypatch):
    rarely = {"commitlog": {"file_size": FILE_SIZE, "flush_interval_ms": 10**6}}
    master = serve(**HA, sections=rarely)

    def fail(*_):
        raise OSError("nothing works")

    master.server.broker.sends.clock = lambda: 0.0  # no put is slow
    ways = ["UNIQ_KEY\x01u\x02", "TRACE_ON\x01true\x02"]  # from bytes, and the longer way
    peer = master.peer()
    with slave_of(master, 0) as slave:
        until(lambda: states(master))
        monkeypatch.setattr("reput_server.replication.replica.Replica.send", fail)
        assert [send(peer, properties=each).code for each in 2 * ways] == [0] * 4
        monkeypatch.undo()
        slave.read_to(master.store.log.max_physical_offset)
    assert sum(map(len, master.store.scan())) == 4


def test_what_consumers_give_back_waits_for_replicas_too(serve):
    master = serve(**HA, sync_replicas=1, limits=LONG)
    peer = master.peer()

    with reporting(master) as slaves:
        assert send(peer).code == 0
        (stored,) = until(lambda: master.store.read("orders", 0, 0).messages[:1])
        back = SendBack(offset=stored.physical_offset, group="billing", delay_level=0)
        answer = peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        end = master.store.log.max_physical_offset
        assert slaves[0].end == end

    assert answer.code == ResponseCode.SUCCESS
    # Without the replica it is stored all the same, and nobody sends a second copy.
    answer = peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    assert answer.code == ResponseCode.SUCCESS
    assert master.store.log.max_physical_offset > end


# --------------------------------------------------------------------------- what is shown


def page(served, path):
    host, port = served.server.metrics
    with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=20) as answer:
        return answer.read().decode()


def test_replicas_are_among_the_figures_of_pages_and_the_metrics(serve):
    pytest.importorskip("prometheus_client")
    master = serve(**HA, sync_replicas=1, limits=LONG, metrics=("127.0.0.1", 0))
    end = fill(master)
    with slave_of(master, 1) as slave:
        slave.read_to(end)
        slave.report(end - 10)
        until(lambda: [each.lag_size for each in states(master)] == [10])
        metrics, health = (page(master, path) for path in ("/metrics", "/health"))
        figures = asyncio.run_coroutine_threadsafe(
            master.server.keeper.figures(), master.server.service.loop
        ).result(20)
        shown = live_document(figures, master.server.broker)["replication"]
        port = slave.socket.getsockname()[1]

    assert f'reput_server_replica_lag_bytes{{replica="127.0.0.1:{port}"}} 10.0' in metrics
    assert "reput_server_replicas_in_sync 1.0" in metrics
    assert "reput_server_sync_replicas 1.0" in metrics
    (replica,) = shown["replicas"]
    assert (replica["address"], replica["state"]) == (f"127.0.0.1:{port}", "in sync")
    assert (shown["sync_replicas"], replica["lag_size"]) == (1, 10)
    assert json.loads(health)["status"] == "ok"


def test_a_server_without_the_replicas_that_it_needs_is_not_well(serve):
    pytest.importorskip("prometheus_client")
    master = serve(**HA, sync_replicas=1, metrics=("127.0.0.1", 0))

    found = json.loads(page(master, "/health"))

    assert found["status"] == "degraded"
    assert found["reasons"] == [
        (
            "0 of the 1 replicas that sends wait for are in sync; sends are stored and answered "
            "with SLAVE_NOT_AVAILABLE"
        )
    ]


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="sync_replicas needs replicas"):
        ServerConfig(sync_replicas=1)
    with pytest.raises(ValueError, match=r"from 0 to 32 \(limits\.replicas\) expected, found 33"):
        ServerConfig(sync_replicas=33, **HA)
