"""RocketMQ's own client and admin tool talk to our server, in each version, unchanged."""

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


@pytest.fixture
def ours(rocketmq: RocketMQ, tmp_path: Path) -> Iterator[Ours]:
    config = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))
    with (
        reput.open(tmp_path / "store", plugins=PLUGINS, config=SMALL) as store,
        serving(store, config) as server,
        rocketmq.peer(tmp_path / "peer", "{}:{}".format(*server.name_server)) as peer,
    ):
        yield Ours(store, server, peer)


def test_what_is_sent_is_stored_and_taken(ours: Ours):
    messages = [{"topic": "orders", "body": f"{at}", "tags": "ab"[at % 2]} for at in range(40)]

    sent = ours.peer.send(messages)
    ours.peer.listen("all", "billing", "orders", start="first")
    ours.peer.listen("some", "audit", "orders", start="first", expression="b")
    ours.peer.listen("asked", "report", "orders", start="first", sql="TAGS = 'a'")
    taken = {name: ours.peer.taken(name, count) for name, count in
             (("all", 40), ("some", 20), ("asked", 20))}  # fmt: skip

    assert {row["status"] for row in sent} == {"SEND_OK"}
    places = {(row["queue_id"], row["queue_offset"]): str(at) for at, row in enumerate(sent)}
    assert {(row["queue_id"], row["queue_offset"]): row["body"] for row in taken["all"]} == places
    assert {row["msg_id"] for row in taken["all"]} == {row["msg_id"] for row in sent}
    assert {int(row["body"]) % 2 for row in taken["some"]} == {1}
    assert {int(row["body"]) % 2 for row in taken["asked"]} == {0}


def test_what_waits_is_woken_and_offsets_are_kept(ours: Ours):
    ours.peer.send([{"topic": "orders", "body": "0"}])
    ours.peer.listen("one", "billing", "orders", start="first")
    ours.peer.taken("one", 1)

    ours.peer.send([{"topic": "orders", "body": f"{at}"} for at in range(1, 9)])
    taken = ours.peer.taken("one", 9)
    ours.peer.stop("one")

    assert sorted(row["body"] for row in taken) == [f"{at}" for at in range(9)]
    assert ours.store.plugin("consumer").progress("billing").lag == 0


def test_members_of_one_group_share_what_there_is(ours: Ours):
    ours.peer.send([{"topic": "orders", "body": "first"}])
    for name in ("one", "two"):
        ours.peer.listen(name, "billing", "orders", start="first", instance=name)
    ours.peer.taken("one", 1, seconds=5)
    ours.peer.send([{"topic": "orders", "body": f"{at}"} for at in range(60)])

    found = [row["body"] for name in ("one", "two") for row in ours.peer.taken(name, 61, seconds=8)]

    assert set(found) == {"first", *(f"{at}" for at in range(60))}


def test_what_is_in_order_comes_in_order(ours: Ours):
    rows = [{"topic": "orders", "body": f"{at}", "queue_id": at % 2} for at in range(4)]
    ours.peer.send([{"topic": "orders", "body": "-2", "queue_id": 0}])
    ours.peer.send(rows)

    ours.peer.listen("one", "billing", "orders", start="first", orderly=True)
    taken = ours.peer.taken("one", 5)

    by_queue = {
        queue_id: [row["body"] for row in taken if row["queue_id"] == queue_id]
        for queue_id in (0, 1)
    }
    assert by_queue == {0: ["-2", "0", "2"], 1: ["1", "3"]}


def test_what_fails_becomes_a_dead_letter(ours: Ours):
    ours.peer.listen("one", "billing", "orders", start="first", max_reconsume=0)
    ours.peer.send([{"topic": "orders", "body": "fail 1"}])

    ours.peer.taken("one", 1)
    assert ours.store.wait_dispatched(timeout=20)
    for _ in range(100):
        found = [each.body for each in ours.store.read("%DLQ%billing", 0, 0)]
        if found:
            break
        ours.peer.taken("one", 2, seconds=0.2)

    assert found == [b"fail 1"]


def test_the_admin_tool_prints_what_there_is(ours: Ours):
    (sent,) = ours.peer.send([{"topic": "orders", "body": "body-1", "keys": "k1", "tags": "a"}])
    ours.peer.listen("one", "billing", "orders", start="first")
    ours.peer.taken("one", 1)
    ours.store.wait_dispatched()
    address = "{}:{}".format(*ours.server.address)

    assert re.search(rf"DefaultCluster\s+broker-a\s+0\s+{address}", ours.peer.admin("clusterList"))
    assert "brokerVersionDesc" in ours.peer.admin("brokerStatus", "-b", address)
    assert "orders" in ours.peer.admin("topicList").split()
    assert address in ours.peer.admin("topicRoute", "-t", "orders")
    queue = rf"broker-a\s+{sent['queue_id']}\s+0\s+1\s"
    assert re.search(queue, ours.peer.admin("topicStatus", "-t", "orders"))
    made = ours.peer.admin("updateTopic", "-b", address, "-t", "made", "-r", "3", "-w", "3")
    assert "create topic to" in made
    assert ours.store.plugin("consumer").topics.get("made").write_queue_nums == 3
    ours.peer.admin("updateSubGroup", "-b", address, "-g", "fresh", "-r", "5")
    assert ours.store.plugin("consumer").subscription_groups.get("fresh").retry_max_times == 5
    assert sent["msg_id"] in ours.peer.admin("queryMsgByKey", "-t", "orders", "-k", "k1")
    assert sent["msg_id"] in ours.peer.admin(
        "queryMsgByUniqueKey", "-t", "orders", "-i", sent["msg_id"]
    )
    assert "body-1" in ours.peer.admin("printMsg", "-t", "orders")
    ours.peer.stop("one")
    progress = ours.peer.admin("consumerProgress", "-g", "billing")
    assert re.search(rf"orders\s+broker-a\s+{sent['queue_id']}\s+1\s+1\s", progress)
