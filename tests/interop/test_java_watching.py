"""RocketMQ's admin tool is told by our server what a real broker tells: statistics and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from realbroker import Peer, RocketMQ

import reput
from reput_server import Server, ServerConfig, serving

PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}


class Ours:
    """A store that is served, and a Java process that talks to it."""

    def __init__(self, store: reput.Store, server: Server, peer: Peer) -> None:
        self.store, self.server, self.peer = store, server, peer
        self.address = "{}:{}".format(*server.address)


@pytest.fixture
def ours(rocketmq: RocketMQ, tmp_path: Path) -> Iterator[Ours]:
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    with (
        reput.open(tmp_path / "store", plugins=PLUGINS, config=SMALL) as store,
        serving(store, config) as server,
        rocketmq.peer(tmp_path / "peer", "{}:{}".format(*server.name_server)) as peer,
    ):
        yield Ours(store, server, peer)


def consumed(ours: Ours, count: int) -> None:
    ours.peer.send([{"topic": "orders", "body": f"{at}"} for at in range(count)])
    ours.peer.listen("one", "billing", "orders", start="first")
    ours.peer.taken("one", count)


def test_the_admin_tool_prints_statistics(ours: Ours):
    consumed(ours, 20)

    every = ours.peer.admin("statsAll")
    status = ours.peer.admin("brokerStatus", "-b", ours.address)
    ours.peer.stop("one")
    progress = ours.peer.admin("brokerConsumeStats", "-b", ours.address)

    row = re.search(
        r"^orders\s+billing\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s*$", every, re.M
    )
    assert row, every
    assert float(row[2]) > 0
    assert float(row[3]) > 0
    assert (row[4], row[5]) == ("20", "20")
    for name, value in (
        ("msgPutTotalTodayNow", "20"),
        ("msgGetTotalTodayNow", "20"),
        ("sendThreadPoolQueueSize", "0"),
    ):
        assert re.search(rf"^{name}\s*:\s*{value}\s*$", status, re.M), status
    rows = re.findall(
        r"^orders\s+billing\s+broker-a\s+\d+\s+(\d+)\s+\1\s+0\s+\d{4}-", progress, re.M
    )
    assert sum(map(int, rows)) == 20, progress
    assert "Diff Total: 0" in progress


def test_the_admin_tool_shows_and_changes_options(ours: Ours):
    before = ours.peer.admin("getBrokerConfig", "-b", ours.address)
    changed = ours.peer.admin(
        "updateBrokerConfig", "-b", ours.address, "-k", "autoCreateTopicEnable", "-v", "false"
    )
    after = ours.peer.admin("getBrokerConfig", "-b", ours.address)
    names = ours.peer.admin("getNamesrvConfig")

    assert re.search(r"^autoCreateTopicEnable\s*=\s*true\s*$", before, re.M), before
    assert re.search(rf"^listenPort\s*=\s*{ours.server.address[1]}\s*$", before, re.M)
    assert "update broker config success" in changed
    assert re.search(r"^autoCreateTopicEnable\s*=\s*false\s*$", after, re.M), after
    assert re.search(rf"^listenPort\s*=\s*{ours.server.name_server[1]}\s*$", names, re.M), names


def test_a_broker_s_status_has_all_that_a_real_one_s_has(
    ours: Ours, rocketmq: RocketMQ, tmp_path: Path
):
    consumed(ours, 1)
    mine = ours.peer.admin("brokerStatus", "-b", ours.address)
    with rocketmq.name_server(tmp_path / "names") as names:
        with rocketmq.broker(tmp_path / "real", names.address) as broker:
            with rocketmq.peer(tmp_path / "other", names.address) as peer:
                peer.send([{"topic": "orders", "body": "x"}])
                real = peer.admin("brokerStatus", "-b", broker.address)

    def names_of(text: str) -> set[str]:
        found = set(re.findall(r"^(\w+)\s*:\s", text, re.M))
        return {name for name in found if not name.startswith("commitLogDiskRatio_")}

    assert names_of(real) - names_of(mine) == set()
