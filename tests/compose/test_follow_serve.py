"""`reput follow` follows `reput serve`: equal files, and what producers see of it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import RequestCode, ResponseCode, parse_body
from reput_server import Limits, ServerConfig, serving
from reput_server.follow import FollowConfig, Source, State, following, open_replica

FILE_SIZE = 1 << 20
PLUGINS = {"consumequeue", "consumer", "index"}
SMALL = {
    "commitlog": {"file_size": FILE_SIZE},
    "consumequeue": {"units_per_file": 1_000},
    "index": {"slots_per_file": 500, "items_per_file": 2_000},
}
WAIT = 60


@contextmanager
def master(path, **options):
    anywhere = ("127.0.0.1", 0)
    config = ServerConfig(listen=anywhere, name_server=anywhere, replicas=anywhere, **options)
    with (
        reput.open(path, plugins=PLUGINS, config=SMALL) as store,
        serving(store, config) as server,
        WirePeer(server.address) as peer,
    ):
        yield store, server, peer


@contextmanager
def follower(path, source, **options):
    config = FollowConfig(ask_interval=0.05, report_interval=0.05, settle_time=0.0, **options)
    plugins = {"consumequeue", "index"}
    sections = {name: SMALL[name] for name in plugins}
    with (
        open_replica(path, source, config, plugins=plugins, config=sections) as store,
        following(store, source, config) as found,
    ):
        yield store, found


def address_of(server):
    return "{}:{}".format(*server.address)


def log_bytes(root, end):
    files = sorted((Path(root) / "commitlog").iterdir())
    return {
        each.name: each.read_bytes()[: end - int(each.name)]
        for each in files
        if int(each.name) < end
    }


def send(peer, body=b"x"):
    return peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=body).code


def ha_status(peer):
    found = parse_body(peer.ask(RequestCode.GET_BROKER_HA_STATUS).body, "status")
    return found["haConnectionInfo"]


def until(holds):
    end, pause = time.monotonic() + WAIT, threading.Event()
    while not (found := holds()):
        assert time.monotonic() < end
        pause.wait(0.005)
    return found


def test_a_follower_has_the_files_of_a_served_store(tmp_path):
    with master(tmp_path / "master") as (store, server, peer):
        store.put_many(
            [reput.Message("orders", b"x" * (at % 900), keys=[f"k{at}"]) for at in range(4_000)]
        )
        names = Source.named("{}:{}".format(*server.name_server), "broker-a")
        with follower(tmp_path / "copy", names) as (copy, found):
            assert found.wait_caught_up(WAIT)
            assert send(peer) == ResponseCode.SUCCESS
            assert found.wait_caught_up(WAIT)
            end = store.log.max_physical_offset
            assert copy.log.max_physical_offset == end
            assert len(copy.query("orders", "k77").messages) == 1

        assert end > 2 * FILE_SIZE
        assert log_bytes(tmp_path / "copy", end) == log_bytes(tmp_path / "master", end)
        store.put_many([reput.Message("orders", b"x" * 100)] * 50)
        with follower(tmp_path / "copy", names) as (copy, found):
            assert found.wait_caught_up(WAIT)
            end = store.log.max_physical_offset

    assert log_bytes(tmp_path / "copy", end) == log_bytes(tmp_path / "master", end)


@pytest.mark.parametrize("acknowledge", [True, False])
def test_a_send_waits_for_a_replica_and_an_observer_is_none(tmp_path, acknowledge):
    limits = Limits(replica_wait_ms=20_000)
    with master(tmp_path / "master", sync_replicas=1, limits=limits) as (store, server, peer):
        assert send(peer) == ResponseCode.SLAVE_NOT_AVAILABLE
        given = {"acknowledge": acknowledge}
        with follower(tmp_path / "copy", address_of(server), **given) as (_, found):
            assert found.wait_caught_up(WAIT)
            # An observer's first report is an offset, too; its next one says what it is.
            expected = acknowledge
            until(lambda: [each["inSync"] for each in ha_status(peer)] == [expected])
            code = send(peer)
            assert found.wait_caught_up(WAIT)
            assert found.status().state is State.FOLLOWING
            (status,) = ha_status(peer)
            end = store.log.max_physical_offset

    assert code == (ResponseCode.SUCCESS if acknowledge else ResponseCode.SLAVE_NOT_AVAILABLE)
    if acknowledge:
        assert (status["slaveAckOffset"], status["diff"]) == (end, 0)
    else:
        assert status["slaveAckOffset"] < 0


def test_an_empty_store_can_be_followed_and_its_first_send_is_replicated(tmp_path):
    limits = Limits(replica_wait_ms=20_000)
    with master(tmp_path / "master", sync_replicas=1, limits=limits) as (store, server, peer):
        with follower(tmp_path / "copy", address_of(server), acknowledge=True) as (_, found):
            until(lambda: [each["inSync"] for each in ha_status(peer)] == [True])
            assert send(peer) == ResponseCode.SUCCESS
            assert found.wait_caught_up(WAIT)
            assert found.status().state is State.FOLLOWING
            end = store.log.max_physical_offset

    assert log_bytes(tmp_path / "copy", end) == log_bytes(tmp_path / "master", end)


def test_a_promoted_store_goes_on_as_the_master(tmp_path):
    with master(tmp_path / "first") as (_, server, peer):
        with follower(tmp_path / "copy", address_of(server), acknowledge=True) as (copy, found):
            assert [send(peer, b"%d" % at) for at in range(20)] == [0] * 20
            assert found.wait_caught_up(WAIT)
            found.stop()
            copy.promote()

    with master(tmp_path / "copy", sync_replicas=1) as (_, server, peer):
        with follower(tmp_path / "next", address_of(server), acknowledge=True) as (copy, found):
            until(lambda: [each["inSync"] for each in ha_status(peer)] == [True])
            assert send(peer, b"20") == ResponseCode.SUCCESS
            assert found.wait_caught_up(WAIT)
            bodies = [bytes(each.body) for each in copy.read("orders", 0, 0, 32)]

    assert bodies == [b"%d" % at for at in range(21)]
