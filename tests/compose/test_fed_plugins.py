"""Plugins in a replica: what they derive, and that they put nothing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from statefiles import forget_progress

import reput
from reput.errors import ReplicaError
from reput_schedule import delayed
from reput_server.follow import ReplicaFeed
from reput_testing import ManualClock, QuickDisk

FILE_SIZE = 16_384
CONFIG = {
    "commitlog": {"file_size": FILE_SIZE, "max_message_size": 8_192},
    "consumequeue": {"units_per_file": 50},
    "index": {"slots_per_file": 50, "items_per_file": 200},
}
DERIVED = ["consumequeue", "index", "filter"]
CONSUMED = ["consumequeue", "consumer"]


@pytest.fixture
def clock():
    return ManualClock()


def opened(root, clock, plugins, sections=None, **options):
    config = {name: section for name, section in CONFIG.items() if name in {"commitlog", *plugins}}
    config |= sections or {}
    return reput.open(
        root,
        plugins=plugins,
        config=config,
        threads=False,
        clock=clock,
        disk=QuickDisk(),
        **options,
    )


def log_of(store):
    data = b"".join(store.log.files.read(base, FILE_SIZE) for base in store.log.files.bases)
    return data[: store.log.max_physical_offset]


def feed(store, data, seed=1):
    chance, fed = random.Random(seed), ReplicaFeed(store)
    while fed.fed_offset < len(data):
        start = fed.fed_offset
        fed.feed(start, data[start : start + chance.choice([90, 900, 9_000, 40_000])])
        if chance.random() < 0.3:
            store.work()


def run(store, clock):
    while (due := store.work()) is not None and due <= clock.now:
        pass


def files_below(root, *names):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for name in names
        for path in sorted(Path(root, name).rglob("*"))
        if path.is_file()
    }


def test_what_is_derived_from_fed_messages_is_what_is_derived_from_put_ones(tmp_path, clock):
    with opened(tmp_path / "master", clock, DERIVED) as master:
        for number in range(300):
            clock.advance(7)
            topic, body = f"topic{number % 3}", b"x" * (number * 13 % 400)
            master.put(
                reput.Message(topic, body, number % 4, tags=f"t{number % 5}", keys=f"k{number}")
            )
        data = log_of(master)
    with opened(tmp_path / "replica", clock, DERIVED, master="broker-a") as replica:
        feed(replica, data)
        replica.wait_dispatched()
        assert len(replica.query("topic1", "k100")) == 1
    names = ("commitlog", "consumequeue", "consumequeue_ext", "index")
    found, expected = (files_below(tmp_path / each, *names) for each in ("replica", "master"))
    # A file of the index is named by the clock.
    for files in (found, expected):
        index = [files.pop(name) for name in sorted(files) if name.startswith("index")]
        assert index
        files["index"] = b"".join(index)
    assert found.keys() == expected.keys()
    assert {name for name in found if found[name] != expected[name]} == set()


def bodies(store, topic="orders"):
    views = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    return sorted(bytes(view.body) for view in views if view.topic == topic)


@pytest.mark.parametrize("how", [{"level": 1}, {"seconds": 1}])
def test_a_replica_delivers_nothing_and_once_promoted_what_its_master_did_not(tmp_path, clock, how):
    plugins = ["consumequeue", "schedule"]

    def order(number):
        message = reput.Message("orders", b"%d" % number)
        if "level" in how:
            return delayed(message, level=1)
        return reput.Message("orders", b"%d" % number, properties={"TIMER_DELAY_SEC": "2"})

    with opened(tmp_path / "master", clock, plugins) as master:
        master.put_many([order(0), order(1)])
        clock.advance(10_000)
        run(master, clock)
        assert bodies(master) == [b"0", b"1"]
        master.put(order(2))
        master.wait_dispatched()
        data = log_of(master)
    root = tmp_path / "replica"
    with opened(root, clock, plugins, master="broker-a") as replica:
        feed(replica, data)
        clock.advance(10_000)
        run(replica, clock)
        assert log_of(replica) == data
        # The file would be the master's.
        assert not (root / "config" / "delayOffset.json").exists()
    with opened(root, clock, plugins) as replica:
        run(replica, clock)
        assert log_of(replica) == data
        replica.promote()
        run(replica, clock)
        assert log_of(replica) == data
    with opened(root, clock, plugins) as store:
        clock.advance(1_000)
        run(store, clock)
        clock.advance(10_000)
        run(store, clock)
        assert bodies(store) == [b"0", b"1", b"2"]
        store.put(order(3))
        clock.advance(10_000)
        run(store, clock)
        assert bodies(store) == [b"0", b"1", b"2", b"3"]


def test_a_replica_ends_no_transaction_and_once_promoted_it_may(tmp_path, clock):
    plugins = ["consumequeue", "transaction"]
    with opened(tmp_path / "master", clock, plugins) as master:
        transactions = master.plugin("transaction")
        ended = transactions.prepare(reput.Message("orders", b"ended"))
        transactions.prepare(reput.Message("orders", b"open"))
        transactions.commit(ended)
        data = log_of(master)
    root = tmp_path / "replica"
    with opened(root, clock, plugins, master="broker-a") as replica:
        feed(replica, data)
        asked = []
        transactions = replica.plugin("transaction")
        transactions.on_check(lambda half: asked.append(half.message.body) or "commit")
        clock.advance(3_600_000)
        run(replica, clock)
        assert log_of(replica) == data
        assert asked == []
        with pytest.raises(ReplicaError):
            transactions.prepare(reput.Message("orders", b"new"))
        replica.promote()
    with opened(root, clock, plugins) as store:
        store.plugin("transaction").on_check(lambda half: "commit")
        clock.advance(3_600_000)
        run(store, clock)
        assert bodies(store) == [b"ended", b"open"]


def test_files_that_a_replica_removes_keep_their_queue_offsets(tmp_path, clock):
    plugins = ["consumequeue"]
    with opened(tmp_path / "master", clock, plugins) as master:
        master.put_many([reput.Message("early", b"x" * 500, 0) for _ in range(20)])
        master.put_many([reput.Message("late", b"x" * 500, 0) for _ in range(100)])
        data = log_of(master)
    root = tmp_path / "replica"
    with opened(root, clock, plugins, master="broker-a") as replica:
        feed(replica, data)
        replica.wait_dispatched()
        replica.flush()
        base = replica.log.files.bases[-1]
        assert replica.trim_log(base).min_physical_offset == base
        assert replica.log.max_physical_offset == len(data)
    shutil.rmtree(root / "consumequeue")  # nothing but the floors knows of "early" now
    forget_progress(root)
    with opened(root, clock, plugins) as replica:
        replica.promote()
        assert replica.put(reput.Message("early", b"x", 0)).queue_offset == 20
        assert replica.put(reput.Message("late", b"x", 0)).queue_offset == 100


def test_a_plugin_that_is_added_to_a_replica_catches_up(tmp_path, clock):
    with opened(tmp_path / "master", clock, ["consumequeue"]) as master:
        master.put_many([reput.Message("t", b"%d" % number, 0) for number in range(100)])
        data = log_of(master)
    with opened(tmp_path / "replica", clock, [], master="broker-a") as replica:
        fed = ReplicaFeed(replica)
        fed.feed(0, data[:3_000])
        replica.add_plugin("consumequeue", {"units_per_file": 50})
        fed.feed(3_000, data[3_000:])
        replica.wait_dispatched()
        assert replica.read("t", 0, 99).messages[0].body == b"99"
        assert replica.role == "replica"
    with reput.open(tmp_path / "replica") as replica:
        assert replica.role == "replica"


def test_a_message_that_a_consumer_refuses_makes_no_topic_in_a_replica(tmp_path, clock):
    with opened(tmp_path / "master", clock, ["consumequeue"]) as master:
        master.put(reput.Message("orders", b"one", 0))
        data = log_of(master)
    with opened(tmp_path / "replica", clock, CONSUMED, master="broker-a") as replica:
        feed(replica, data)
        replica.wait_dispatched()
        consumers = replica.plugin("consumer")
        message = replica.read("orders", 0, 0).messages[0]
        for give_back in (
            lambda: consumers.port.send_back("billing", message, 1, None),
            lambda: consumers.port.send_back("billing", message, -1, None),  # a dead letter
            lambda: consumers.port.resend("billing", [message]),
        ):
            with pytest.raises(ReplicaError, match="broker-a"):
                give_back()
        assert not any(name.startswith("%") for name in consumers.topics.names())
        assert log_of(replica) == data


def test_a_replica_compacts_as_its_master_and_puts_nothing(tmp_path, clock):
    keep = {"compaction": {"topics": ["prices"]}}
    plugins, found = ["consumequeue", "compaction"], {}
    with opened(tmp_path / "master", clock, plugins, sections=keep) as master:
        for number in range(200):
            clock.advance(7)
            master.put(reput.Message("prices", b"%d" % number, 0, keys=f"k{number * 7 % 10}"))
        data = log_of(master)
        found["master"] = compacted(master)
    root = tmp_path / "replica"
    with opened(root, clock, plugins, sections=keep, master="broker-a") as replica:
        feed(replica, data[: len(data) // 2])
        assert replica.plugin("compaction").compact()
        feed(replica, data)
        found["replica"] = compacted(replica)
        assert log_of(replica) == data
        with pytest.raises(ReplicaError):
            replica.put(reput.Message("prices", b"no", 0, keys="k1"))
        replica.promote()
    with opened(root, clock, plugins, sections=keep) as store:
        found["promoted"] = compacted(store)
        assert store.put(reput.Message("prices", b"new", 0, keys="k1")).queue_offset == 200

    assert found["replica"] == found["promoted"] == found["master"]
    assert len(found["master"]) == 10


def compacted(store):
    """Keys and values of the topic after a compaction."""
    store.wait_dispatched()
    store.plugin("compaction").compact()
    return [
        (each.queue_offset, each.properties["KEYS"], bytes(each.body))
        for each in store.read("prices", 0, 0, 1_000).messages
    ]
