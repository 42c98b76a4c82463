"""RocketMQ's admin tool deletes and moves what our server has, with Java consumers and without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from realbroker import Peer, RocketMQ
from wirepeer import WirePeer

import reput
from reput_client.remoting import (
    ConsumerStatus,
    QueueName,
    RequestCode,
    parse_body,
)
from reput_consumer import ConsumerPlugin
from reput_server import Ports, Server, ServerConfig, serving

PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
SMALL = {"consumequeue": {"units_per_file": 1_000}}


class Ours:
    """A store that is served, and a Java process that talks to it."""

    def __init__(self, store: reput.Store, server: Server, peer: Peer, version: str) -> None:
        self.store, self.server, self.peer = store, server, peer
        self.is_new = not version.startswith("4.")
        self.address = "{}:{}".format(*server.address)

    @property
    def plugin(self) -> ConsumerPlugin:
        return self.store.plugin(ConsumerPlugin)

    def send(self, *bodies: str) -> list[dict[str, object]]:
        return self.peer.send([{"topic": "orders", "body": body, "queue_id": 0} for body in bodies])

    def listen(self, name: str = "one") -> None:
        self.peer.listen(name, "billing", "orders", start="first", instance=name)

    def taken(self, count: int, name: str = "one", seconds: float = 60) -> list[str]:
        return [row["body"] for row in self.peer.taken(name, count, seconds)]

    def consume(self, count: int) -> None:
        """Have the group read so many messages, and leave."""
        self.listen("first")
        assert len(self.taken(count, "first")) == count
        self.peer.stop("first")

    def offset(self, group: str = "billing") -> int | None:
        return self.plugin.port.offsets.get(group, "orders", 0)

    def client_id(self) -> str:
        (member,) = self.plugin.port.members("billing")
        return member

    def admin(self, *words: str) -> str:
        return self.peer.admin(*words)


def _log_of(ports: Ports) -> dict[str, object]:
    return {"file_size": 1 << 20, **ports.log_options()}


@pytest.fixture
def ours(rocketmq: RocketMQ, tmp_path: Path) -> Iterator[Ours]:
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    with (
        Ports.take(config) as ports,  # the tool asks brokers at the addresses in their messages
        reput.open(
            tmp_path / "store", plugins=PLUGINS, config={**SMALL, "commitlog": _log_of(ports)}
        ) as store,
        serving(store, config, ports=ports) as server,
        rocketmq.peer(tmp_path / "peer", "{}:{}".format(*server.name_server)) as peer,
    ):
        yield Ours(store, server, peer, rocketmq.version)


def test_topics_and_groups_are_deleted(ours: Ours):
    ours.send("old 1", "old 2")
    ours.consume(2)

    deleted = ours.admin("deleteTopic", "-c", "DefaultCluster", "-t", "orders")
    assert "delete topic [orders] from cluster [DefaultCluster] success" in deleted
    assert "orders" not in ours.admin("topicList").split()
    assert ours.offset() is None
    group = ours.admin("deleteSubGroup", "-c", "DefaultCluster", "-g", "billing", "-r", "true")
    assert "delete subscription group [billing]" in group
    assert ours.plugin.subscription_groups.get("billing") is None
    assert not [name for name in ours.admin("topicList").split() if name.endswith("%billing")]
    for command in ("cleanUnusedTopic", "cleanExpiredCQ"):
        assert "success" in ours.admin(command, "-b", ours.address)

    ours.send("new")
    ours.listen()
    assert ours.taken(1) == ["new"]
    assert ours.taken(2, seconds=2) == ["new"]


def test_a_group_without_a_consumer_is_moved(ours: Ours):
    ours.send("1", "2", "3")
    ours.consume(3)
    assert ours.offset() == 3

    words = ("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "1")
    moved = ours.admin(*words)

    assert re.search(r"broker-a\s+0\s+.*\b0\b", moved)
    assert ours.offset() == 0
    ours.listen()
    assert sorted(ours.taken(3)) == ["1", "2", "3"]
    ours.peer.stop("one")
    if ours.is_new:
        ours.admin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "1")
        skipped = ours.admin("skipAccumulatedMessage", "-g", "billing", "-t", "orders")
        assert re.search(r"broker-a\s+0\s+3", skipped)
        assert ours.offset() == 3


def test_a_consumer_that_is_there_reads_again(ours: Ours):
    ours.send("1", "2", "3")
    ours.listen()
    assert len(ours.taken(3)) == 3

    moved = ours.admin("resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "1")

    assert re.search(r"broker-a\s+0\s+0", moved)
    again = ours.taken(6, seconds=90)
    assert sorted(again[:3]) == sorted(again[3:]) == ["1", "2", "3"]
    ours.peer.stop("one")
    assert ours.offset() == 3


def test_a_consumer_is_looked_at_from_within(ours: Ours):
    (sent, *_) = ours.send("1", "2")
    ours.listen()
    ours.taken(2)
    client_id = ours.client_id()
    of_group = ("-g", "billing")

    running = ours.admin("consumerStatus", *of_group, "-i", client_id, "-s")
    assert re.search(r"(?s)#Consumer MQ Detail#.*\norders\s+broker-a", running)
    assert "#Consumer jstack#" in running
    assert client_id in ours.admin("consumerStatus", *of_group)
    words = ("queryMsgByUniqueKey", "-t", "orders", "-i", str(sent["msg_id"]))
    assert "CR_SUCCESS" in ours.admin(*words, *of_group, "-d", client_id)
    with WirePeer(ours.server.address) as operator:
        asked = ConsumerStatus(topic="orders", group="billing")
        status = operator.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)
    table = parse_body(status.body, "status")["consumerTable"][client_id]
    assert table[QueueName("orders", "broker-a", 0)] == 2
    assert sorted(ours.taken(3)) == ["1", "1", "2"]


def test_offsets_are_cloned_and_entries_of_queues_told(ours: Ours):
    ours.send("1", "2")
    ours.consume(2)

    words = ("cloneGroupOffset", "-s", "billing", "-d", "audit", "-t", "orders", "-o", "false")
    # Brokers take offsets of groups that they know.
    ours.admin("updateSubGroup", "-b", ours.address, "-g", "audit")
    assert "clone group offset success" in ours.admin(*words)
    assert ours.offset("audit") == 2
    entries = ours.admin("queryCq", "-t", "orders", "-q", "0", "-i", "0")
    assert "max: 2, min: 0" in entries
    assert entries.count("physicOffset=") == 2
