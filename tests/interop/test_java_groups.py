"""A real broker and reput go on, by turns, where the groups of one store stand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from realbroker import STORE_CONFIG, Peer, RocketMQ

import reput
from reput_consumer import ConsumerPlugin
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_consumer.metadata.topicsettings import TopicSettings

GROUP = "billing"
RETRY = f"%RETRY%{GROUP}"
DEAD = f"%DLQ%{GROUP}"
PLUGINS = ("consumequeue", "schedule", "consumer")
SECOND = "1s " * 18
"""Delays of a broker whose retries come soon."""
Queue = tuple[str, int]


@attrs.define
class Turns:
    """One store, which a broker and reput open by turns."""

    rocketmq: RocketMQ
    root: Path
    names: str
    """Address of the name server."""

    @property
    def store(self) -> Path:
        return self.root / "store"

    @contextmanager
    def java(self) -> Iterator[Peer]:
        """The stock client, while a broker has the store."""
        options = {"messageDelayLevel": SECOND.strip()}
        with (
            self.rocketmq.broker(self.root / "broker", self.names, store=self.store, **options),
            self.rocketmq.peer(self.root / "peer", self.names) as peer,
        ):
            yield peer

    @contextmanager
    def ours(self) -> Iterator[tuple[reput.Store, ConsumerPlugin]]:
        """Our store."""
        config = {**STORE_CONFIG, "schedule": {"delay_levels": SECOND.strip(), "deliver": "always"}}
        with reput.open(self.store, plugins=PLUGINS, config=config) as store:
            yield store, store.plugin(ConsumerPlugin)

    def file(self, name: str) -> dict[str, Any]:
        """A file of the broker's, whose keys may be bare numbers."""
        text = (self.store / "config" / name).read_text()
        found: dict[str, Any] = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', text))
        return found


@pytest.fixture
def turns(rocketmq: RocketMQ, tmp_path: Path) -> Iterator[Turns]:
    with ExitStack() as stack:
        names = stack.enter_context(rocketmq.name_server(tmp_path / "names"))
        yield Turns(rocketmq, tmp_path, names.address)


def shown(text: str) -> dict[Queue, tuple[int, int]]:
    """What ``consumerProgress -g`` prints: by queue, its end and the group's offset."""
    columns = re.search(r"^#Topic.*$", text, re.M)
    assert columns is not None, text
    names = [name.strip() for name in columns[0].split("#")[1:]]
    rows = [line.split() for line in text.splitlines() if re.match(r"\S+ +broker-a +\d", line)]
    at = {name: names.index(name) for name in ("Topic", "QID", "Broker Offset", "Consumer Offset")}
    return {
        (row[at["Topic"]], int(row[at["QID"]])): (
            int(row[at["Broker Offset"]]),
            int(row[at["Consumer Offset"]]),
        )
        for row in rows
    }


def told(plugin: ConsumerPlugin) -> dict[Queue, tuple[int, int]]:
    """The same by us."""
    queues = plugin.progress(GROUP).queues
    return {(each.topic, each.queue_id): (each.max_offset, each.offset) for each in queues}


def consumed(store: reput.Store, **options: Any) -> list[str]:
    """Bodies of what our group has not consumed up to the end, and consumes now."""
    with store.consumer(GROUP, "orders", start="earliest", until="end", **options) as consumer:
        return [message.body.decode() for message in consumer]


def test_a_broker_shows_the_progress_of_our_group_and_goes_on_where_it_stopped(turns: Turns):
    with turns.ours() as (store, plugin):
        store.put_many([reput.Message("orders", b"%d" % at, at % 3) for at in range(30)])
        store.wait_dispatched()
        with store.consumer(GROUP, "orders", start="earliest", explicit=True, idle=0) as consumer:
            for message in consumer:
                if int(message.body) < 12:
                    message.ack()
        plugin.subscription_groups.put(GroupSettings(group=GROUP, retry_max_times=5))
        before = told(plugin)

    with turns.java() as peer:
        progress = shown(peer.admin("consumerProgress", "-g", GROUP))
        settings = peer.admin("getConsumerConfig", "-g", GROUP)
        peer.listen("one", GROUP, "orders")
        taken = peer.taken("one", 18)
        peer.stop("one")

    assert progress == before
    assert before["orders", 0] == (10, 4)
    assert re.search(r"retryMaxTimes\s+=\s+5\n", settings)
    assert sorted(int(row["body"]) for row in taken) == list(range(12, 30))
    with turns.ours() as (store, plugin):
        assert {queue: row for queue, row in told(plugin).items() if queue[0] == "orders"} == {
            ("orders", queue_id): (10, 10) for queue_id in range(3)
        }
        assert consumed(store) == []
        assert plugin.subscription_groups.get(GROUP).retry_max_times == 5


def test_we_go_on_where_a_brokers_group_stopped_and_it_goes_on_where_we_did(turns: Turns):
    with turns.java() as peer:
        sent = peer.send([{"topic": "orders", "body": str(at)} for at in range(10)])
        peer.listen("one", GROUP, "orders")
        peer.taken("one", 10)
        peer.stop("one")
        sent += peer.send([{"topic": "orders", "body": str(at)} for at in range(10, 20)])
        progress = shown(peer.admin("consumerProgress", "-g", GROUP))

    ends = Counter(row["queue_id"] for row in sent)
    with turns.ours() as (store, plugin):
        ours = told(plugin)
        assert {queue: ours[queue] for queue in progress} == progress
        assert {queue: end for (_, queue), (end, _) in progress.items() if end} == ends
        assert sorted(map(int, consumed(store))) == list(range(10, 20))
        store.put(reput.Message("orders", b"20", 1))
        store.wait_dispatched()
        after = told(plugin)

    with turns.java() as peer:
        progress = shown(peer.admin("consumerProgress", "-g", GROUP))
        peer.listen("one", GROUP, "orders")
        taken = peer.taken("one", 1)
        peer.stop("one")

    assert {queue: after[queue] for queue in progress} == progress
    assert [row["body"] for row in taken] == ["20"]


def test_a_message_that_fails_by_turns_is_counted_on_and_its_properties_are_the_brokers(
    turns: Turns,
):
    with turns.java() as peer:
        (sent,) = peer.send([{"topic": "orders", "body": "fail", "tags": "paid", "keys": "k"}])
        peer.listen("one", GROUP, "orders", max_reconsume=3)
        theirs = peer.taken("one", 2)  # the message, and its first retry
        peer.stop("one")

    seen = []
    with turns.ours() as (store, _):
        options = {"max_reconsume_times": 3, "explicit": True, "idle": 20}
        with store.consumer(GROUP, "orders", **options) as consumer:
            for message in consumer:
                seen.append((message.topic, message.reconsume_times, dict(message.properties)))
                message.retry()
                if message.reconsume_times == 3:
                    break
        store.wait_dispatched()
        (dead,) = store.read(DEAD, 0, 0)
        topics = turns.file("topics.json")["topicConfigTable"]

    assert [row["reconsume_times"] for row in theirs] == [0, 1]
    times = [times for _, times, _ in seen]
    assert times[-1] == 3
    assert times == sorted(times)
    for topic, _, properties in seen:
        assert topic == "orders"
        assert properties["ORIGIN_MESSAGE_ID"] == sent["offset_msg_id"]
        assert properties["RETRY_TOPIC"] == "orders"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent["offset_msg_id"]
    assert {RETRY, DEAD} <= topics.keys()
    # Of the same failure, once stored by the broker and once by us.
    ours = next(properties for _, times, properties in seen if times == 2)
    client = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}
    assert ours.keys() == theirs[1]["properties"].keys() - client


def test_a_dead_letter_of_ours_has_the_properties_of_a_brokers(turns: Turns):
    with turns.java() as peer:
        peer.send([{"topic": "orders", "body": "fail", "queue_id": 0} for _ in range(1)])
        peer.listen("one", GROUP, "orders", max_reconsume=0)
        peer.taken("one", 1)
        peer.listen("dead", "undertaker", DEAD)
        (theirs,) = peer.taken("dead", 1)
        peer.stop("one")
        peer.send([{"topic": "orders", "body": "ours", "queue_id": 0}])

    with turns.ours() as (store, _):
        with store.consumer(GROUP, "orders", explicit=True, max_reconsume_times=0) as consumer:
            message = consumer.next(5)
            message.retry()
        store.wait_dispatched()
        first, second = store.read(DEAD, 0, 0)

    assert (first.body, second.body) == (b"fail", b"ours")
    assert first.properties.keys() == second.properties.keys()
    changing = {"ORIGIN_MESSAGE_ID", "UNIQ_KEY"}
    for name in first.properties.keys() - changing:
        assert first.properties[name] == second.properties[name], name
    assert (first.reconsume_times, first.sys_flag) == (second.reconsume_times, second.sys_flag)
    assert first.properties["ORIGIN_MESSAGE_ID"] == theirs["properties"]["ORIGIN_MESSAGE_ID"]


def test_a_message_given_up_in_order_is_a_dead_letter_as_of_a_broker(turns: Turns):
    with turns.java() as peer:
        peer.send([{"topic": "orders", "body": body, "queue_id": 0} for body in ("fail", "next")])
        peer.listen("one", GROUP, "orders", orderly=True, max_reconsume=1)
        taken = peer.taken("one", 3)
        peer.stop("one")
        peer.send([{"topic": "orders", "body": "ours", "queue_id": 0}])

    with turns.ours() as (store, _):
        options = {"ordered": True, "explicit": True, "max_reconsume_times": 1, "suspend_ms": 10}
        with store.consumer(GROUP, "orders", **options) as consumer:
            times = []
            for _ in range(2):
                message = consumer.next(5)
                times.append(message.reconsume_times)
                message.retry()
        store.wait_dispatched()
        theirs, ours = store.read(DEAD, 0, 0)

    assert [(row["body"], row["reconsume_times"]) for row in taken] == [
        ("fail", 0),
        ("fail", 1),
        ("next", 0),
    ]
    assert times == [0, 1]
    assert (theirs.body, ours.body) == (b"fail", b"ours")
    # Java's client sends it anew, so a broker keeps the client's id and counts; ours sends it back.
    for letter in (theirs, ours):
        assert letter.properties["RETRY_TOPIC"] == "orders"
    assert theirs.properties["ORIGIN_MESSAGE_ID"] == theirs.unique_key
    assert ours.properties["ORIGIN_MESSAGE_ID"] == message.view.msg_id


def test_files_of_both_are_read_changed_and_read_again(turns: Turns):
    with turns.java() as peer:
        broker = ["-c", "reput"]
        peer.admin("updateTopic", *broker, "-t", "theirs", "-r", "6", "-w", "5", "-p", "4")
        peer.admin("updateSubGroup", *broker, "-g", "theirs", "-r", "7", "-q", "2", "-d", "false")
    files = {name: turns.file(name) for name in ("topics.json", "subscriptionGroup.json")}

    with turns.ours() as (_, plugin):
        topic = plugin.topics.get("theirs")
        group = plugin.subscription_groups.get("theirs")
        plugin.topics.put(TopicSettings(topic="ours", read_queue_nums=3, write_queue_nums=2))
        plugin.topics.put(attrs.evolve(topic, read_queue_nums=7))
        plugin.subscription_groups.put(GroupSettings(group="ours", retry_max_times=9))
        plugin.subscription_groups.put(attrs.evolve(group, retry_max_times=8))

    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (6, 5, 4)
    assert (group.retry_max_times, group.retry_queue_nums) == (7, 2)
    assert not group.consume_broadcast_enable
    for name, table in (
        ("topics.json", "topicConfigTable"),
        ("subscriptionGroup.json", "subscriptionGroupTable"),
    ):
        before, after = files[name][table], turns.file(name)[table]
        assert {key: after[key] for key in before.keys() - {"theirs"}} == {
            key: before[key] for key in before.keys() - {"theirs"}
        }
    with turns.java() as peer:
        routes = {name: peer.admin("topicRoute", "-t", name) for name in ("ours", "theirs")}
        groups = {name: peer.admin("getConsumerConfig", "-g", name) for name in ("ours", "theirs")}
    assert re.search(r'"readQueueNums":3,.*"writeQueueNums":2', routes["ours"], re.S)
    assert re.search(r'"readQueueNums":7,.*"writeQueueNums":5', routes["theirs"], re.S)
    assert re.search(r"retryMaxTimes\s+=\s+9\n", groups["ours"])
    assert re.search(r"retryMaxTimes\s+=\s+8\n", groups["theirs"])
    assert re.search(r"retryQueueNums\s+=\s+2\n", groups["theirs"])
