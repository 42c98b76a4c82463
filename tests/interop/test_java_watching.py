"""RocketMQ's admin tool is told by our server what a real broker tells: statistics and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from realbroker import Peer, RocketMQ
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import (
    Command,
    RequestCode,
    StatsOf,
    TopicOf,
    UpdateGroupOffset,
    parse_body,
    write_body,
)
from reput_server import Server, ServerConfig, serving
from reput_server.javaproperties import parse_properties_text

PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}


@attrs.frozen(kw_only=True)
class OnlyOrdered:
    """Whether only topics in order are asked for."""

    is_order: bool


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


def test_answers_have_the_form_of_a_real_broker_s(ours: Ours, rocketmq: RocketMQ, tmp_path: Path):
    asked = {
        "none": (RequestCode.VIEW_BROKER_STATS_DATA, StatsOf(stats_name="A", stats_key="b")),
        "put": (
            RequestCode.VIEW_BROKER_STATS_DATA,
            StatsOf(stats_name="TOPIC_PUT_NUMS", stats_key="orders"),
        ),
        "options": (RequestCode.GET_BROKER_CONFIG, None),
        "progress": (RequestCode.GET_BROKER_CONSUME_STATS, OnlyOrdered(is_order=False)),
        "offsets": (RequestCode.GET_ALL_CONSUMER_OFFSET, None),
        "delays": (RequestCode.GET_ALL_DELAY_OFFSET, None),
    }

    def answers(peer: WirePeer) -> dict[str, Command]:
        peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")
        group = write_body({"groupName": "billing"})
        peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
        update = UpdateGroupOffset(
            consumer_group="billing", topic="orders", queue_id=0, commit_offset=1
        )
        for _ in range(2_000):  # until it has come to its queue
            stats = peer.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicOf(topic="orders"))
            if any(
                each["maxOffset"] for each in parse_body(stats.body, "")["offsetTable"].values()
            ):
                break
        peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
        return {name: peer.ask(*each) for name, each in asked.items()}

    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "real", names.address) as broker,
        WirePeer(("127.0.0.1", broker.port), 60) as real,
        WirePeer(ours.server.address, 60) as own,
        WirePeer(("127.0.0.1", names.port), 60) as real_names,
        WirePeer(ours.server.name_server, 60) as own_names,
    ):
        wanted, found = answers(real), answers(own)
        options = [
            parse_properties_text(peer.ask(RequestCode.GET_NAMESRV_CONFIG).body)
            for peer in (own_names, real_names)
        ]

    assert {name: each.code for name, each in found.items()} == {
        name: each.code for name, each in wanted.items()
    }
    assert found["none"].remark == wanted["none"].remark
    assert found["options"].fields.keys() == wanted["options"].fields.keys()
    for name in ("put", "progress", "offsets", "delays"):
        bodies = [parse_body(each[name].body, name) for each in (found, wanted)]
        assert bodies[0].keys() >= bodies[1].keys() - {"groupTopicMap", "pullOffsetTable"}, name
    of_groups = [
        next(
            queue
            for table in parse_body(each["progress"].body, "")["consumeStatsList"]
            for stats in table.get("billing", ())
            for key, queue in stats["offsetTable"].items()
            if key.queue_id == 0
        )
        for each in (found, wanted)
    ]
    assert of_groups[0].keys() >= of_groups[1].keys()
    for name in ("brokerOffset", "consumerOffset"):
        assert of_groups[0][name] == of_groups[1][name] == 1
    assert all(each["lastTimestamp"] > 0 for each in of_groups)
    if rocketmq.version.startswith("5"):  # 4.9 has fewer
        mine, theirs = (parse_properties_text(each["options"].body) for each in (found, wanted))
        assert mine.keys() - theirs.keys() == set()
        assert options[0].keys() - options[1].keys() == set()
