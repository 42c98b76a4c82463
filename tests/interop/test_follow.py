"""A store follows real brokers: equal files, equal answers, and what their producers see of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
from followedlogs import answers, log_bytes
from realbroker import VERSIONS, RocketMQ

import reput
from reput_server.follow import (
    FollowConfig,
    FollowEndedError,
    Source,
    State,
    following,
    open_replica,
)

FILE_SIZE = 1 << 20
PLUGINS = ["consumequeue", "index"]
SMALL = {
    "consumequeue": {"units_per_file": 1_000},
    "index": {"slots_per_file": 500, "items_per_file": 2_000},
}
WAIT = 120
OTHERS = ("5.1.4", "5.4.0", "5.5.0")


@pytest.fixture(params=(*VERSIONS, *OTHERS), ids=lambda version: f"broker-{version}")
def release(request: pytest.FixtureRequest, fetch_release: Callable[[str], RocketMQ]) -> RocketMQ:
    return fetch_release(request.param)


@contextmanager
def followed(path, broker, **options):
    config = FollowConfig(ask_interval=0.2, retry_interval=0.5, **options)
    with (
        open_replica(path, broker.address, config, plugins=PLUGINS, config=SMALL) as store,
        following(store, broker.address, config) as follower,
    ):
        yield store, follower


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"topic": "orders", "body": f"{at} " + "x" * (at % 900), "tags": "a", "keys": f"k{at}"}
        for at in range(first, first + count)
    ]


def test_files_and_answers_are_the_brokers_also_after_a_kill(release: RocketMQ, tmp_path: Path):
    path = tmp_path / "followed"
    with (
        release.name_server(tmp_path / "names") as names,
        release.peer(tmp_path / "peer", names.address) as peer,
    ):
        first = release.broker(tmp_path / "broker", names.address)
        peer.send(rows(0, 400))
        with followed(path, first) as (store, follower):
            assert follower.wait_caught_up(WAIT)
            peer.send(rows(400, 1_600))
            assert follower.wait_caught_up(WAIT)
            first.kill()
            assert follower.wait_state(State.MASTER_GONE, timeout=WAIT) is State.MASTER_GONE
            with release.broker(tmp_path / "broker", names.address, port=first.port) as again:
                peer.send(rows(2_000, 200))
                assert follower.wait_caught_up(WAIT)
                status = follower.status()
        with release.broker(tmp_path / "broker", names.address, port=first.port) as again:
            peer.send(rows(2_200, 100))
            with followed(path, again) as (store, follower):  # the next start goes on
                assert follower.wait_caught_up(WAIT)
                end = store.log.max_physical_offset
                own = answers(store, 2_300)

    assert status.connection_count == 2
    assert end > 1 << 20  # several files, with a blank between them
    assert log_bytes(path, end) == log_bytes(first.store, end)
    with reput.open(first.store, mode="r", plugins=PLUGINS, config=SMALL) as theirs:
        assert own == answers(theirs, 2_300)
    assert len(own[1]) == 2_300


def test_a_follower_that_begins_at_the_latest_file(rocketmq: RocketMQ, tmp_path: Path):
    path = tmp_path / "followed"
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address) as broker,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        peer.send(rows(0, 2_000))
        with followed(path, broker, begin="latest") as (store, follower):
            assert follower.wait_caught_up(WAIT)
            peer.send(rows(2_000, 50))
            assert follower.wait_caught_up(WAIT)
            start, end = store.log.min_physical_offset, store.log.max_physical_offset

    theirs = log_bytes(broker.store, end)
    assert start == FILE_SIZE
    assert log_bytes(path, end) == {name: theirs[name] for name in theirs if int(name) >= start}


def test_topics_groups_and_offsets_are_known_without_the_broker(rocketmq: RocketMQ, tmp_path: Path):
    path = tmp_path / "followed"
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address),
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        peer.send(rows(0, 20))
        peer.listen("one", "billing", "orders")
        assert len(peer.taken("one", 20)) == 20
        peer.stop("one")
        peer.send(rows(20, 8))
        source = Source.named(names.address, "broker-a")
        config = FollowConfig(ask_interval=0.2, metadata=True)
        with (
            open_replica(path, source, config, plugins=PLUGINS, config=SMALL) as store,
            following(store, source, config) as follower,
        ):
            assert follower.wait_caught_up(WAIT)
            with follower._shared.changed:
                assert follower._shared.changed.wait_for(
                    lambda: follower._shared.metadata_count, WAIT
                )
            assert follower.status().text == ""

    with reput.open(path, mode="r", plugins=["consumequeue", "consumer"]) as store:
        progress = store.plugin("consumer").progress("billing")
        assert sum(each.lag for each in progress.queues if each.topic == "orders") == 8


# --------------------------------------------------------------------------- what producers see

SYNC = {"brokerRole": "SYNC_MASTER"}


@pytest.mark.parametrize("acknowledge", [True, False])
def test_a_master_that_waits_for_slaves_counts_those_that_acknowledge(
    rocketmq: RocketMQ, tmp_path: Path, acknowledge: bool
):
    options = {**SYNC, "inSyncReplicas": 2} if rocketmq.version.startswith("5") else SYNC
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address, **options) as broker,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        peer.send(rows(0, 1))  # for the topic
        given = {"acknowledge": acknowledge, "allow_stalls": True}
        with followed(tmp_path / "followed", broker, **given) as (_, follower):
            assert follower.wait_caught_up(WAIT)
            sent = peer.send(rows(1, 2))
            assert follower.wait_caught_up(WAIT)
            status = follower.status()

    expected = "SEND_OK" if acknowledge else "FLUSH_SLAVE_TIMEOUT"
    assert [each["status"] for each in sent] == [expected] * 2
    assert status.state is State.FOLLOWING
    assert status.connection_count == 1


def test_an_observer_of_an_old_master_that_waits_is_refused(rocketmq: RocketMQ, tmp_path: Path):
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address, **SYNC) as broker,
    ):
        if rocketmq.version.startswith("5"):  # it waits for itself alone
            with followed(tmp_path / "followed", broker) as (_, follower):
                assert follower.wait_caught_up(WAIT)
            return
        with pytest.raises(FollowEndedError, match="--acknowledge"):
            open_replica(tmp_path / "followed", broker.address)
