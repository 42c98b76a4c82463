"""The store with delay levels that RocketMQ 4.8 wrote: the same bytes, and nothing twice."""

from __future__ import annotations

import ipaddress
import shutil

import pytest

import reput
from reput.record import Message
from reput_testing import ManualClock, snapshot

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS = {"delay_levels": "1s 2s 4s"}


def open_store(root, mode="w", clock=None, **options):
    config = {"schedule": {**LEVELS, **options}, "consumequeue": {"units_per_file": 100}}
    if not root.exists():
        log = {"file_size": 65_536, "store_address": "192.168.0.7:10911"}
        config["commitlog"] = log
    return reput.open(
        root,
        mode,
        plugins=["consumequeue", "schedule"],
        config=config,
        threads=False,
        clock=clock or ManualClock(),
    )


def message_of(row):
    """What the test program in Java put, as far as its record tells."""
    entries = [entry for entry in row["properties"].split("\2") if entry]
    properties = dict(entry.split("\1", 1) for entry in entries)
    address, _, port = row["born_host"].removeprefix("/").rpartition(":")
    topic, queue_id = row["topic"], row["queue_id"]
    if topic == SCHEDULE:
        topic, queue_id = properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID"))
    if row["topic"] == SCHEDULE:
        given = properties
    else:  # what is not parked keeps the order in which it came
        given = row["properties"].encode()
    return Message(
        topic,
        bytes.fromhex(row["body"]),
        queue_id,
        properties=given,
        flag=row["flag"],
        sys_flag=row["sys_flag"],
        born_timestamp=row["born_timestamp"],
        born_host=(str(ipaddress.ip_address(address)), int(port)),
        reconsume_times=row["reconsume_times"],
    )


def views_of(store):
    return [batch.message(row) for batch in store.scan() for row in range(len(batch))]


def without_place(record):
    """A record without queue offset, physical offset and store time."""
    return record[:20] + record[36:56] + record[64:]


def copies_by_level(views):
    found = {}
    for view in views:
        if view.topic != SCHEDULE and "DELAY" in view.properties:
            level = int(view.properties["DELAY"])
            found.setdefault(level, []).append(without_place(view.record))
    return found


def test_queues_built_again_are_javas_files_byte_for_byte(golden_store):
    root = golden_store("delay")
    javas = snapshot(root / "consumequeue")
    shutil.rmtree(root / "consumequeue")

    with open_store(root) as store:
        assert store.wait_dispatched(60)

    assert snapshot(root / "consumequeue") == javas


def test_what_is_put_is_parked_and_delivered_as_java_did(golden_store, golden_rows, tmp_path):
    with reput.open(golden_store("delay"), "r", plugins=[]) as store:
        javas = views_of(store)
    rows = golden_rows("delay", "put")
    first_copy = next(
        view.physical_offset
        for view in javas
        if "DELAY" in view.properties and view.topic != SCHEDULE
    )
    clock = ManualClock()

    with open_store(tmp_path / "ours", clock=clock) as store:
        for row in rows:
            clock.now = row["store_timestamp"]
            store.put(message_of(row))
        parked = views_of(store)
        clock.now += 4_000
        while (due := store.work()) is not None:
            clock.now = max(clock.now, due)
        ours = views_of(store)

    put_by_java = {row["physical_offset"] for row in rows}
    expected = [view.record for view in javas if view.physical_offset in put_by_java]
    assert len(parked) == len(expected) == 400
    # As long as the places are the same so is every byte; behind the first copy they shift.
    same = [view.record for view in parked if view.physical_offset < first_copy]
    assert same == expected[: len(same)]
    assert len(same) > 200
    assert [without_place(view.record) for view in parked] == list(map(without_place, expected))
    assert copies_by_level(ours) == copies_by_level(javas)
    assert sum(map(len, copies_by_level(ours).values())) == 138


def test_a_level_that_is_too_high_becomes_the_highest(golden_rows, tmp_path, caplog):
    rows = [row for row in golden_rows("delay", "put") if row["queue_id"] == 2]
    row = next(row for row in rows if row["topic"] == SCHEDULE)
    message = message_of(row)
    message.properties["DELAY"] = "5"

    with open_store(tmp_path / "ours", clock=ManualClock(row["store_timestamp"])) as store:
        store.put(message)
        (view,) = views_of(store)
        store.put(message)

    assert caplog.text.count("level=5: the last delay level is 3") == 1
    assert view.properties_text.decode() == row["properties"]
    assert (view.topic, view.queue_id) == (SCHEDULE, 2)


def test_what_java_delivered_is_not_delivered_again_though_its_offsets_are_lost(golden_store):
    root = golden_store("delay")  # without its directory config
    clock = ManualClock(2_000_000_000_000)

    with open_store(root, clock=clock, deliver="always") as store:
        end = store.log.max_physical_offset
        while (due := store.work()) is not None and due <= clock.now:
            pass
        assert store.log.max_physical_offset == end
        assert store.plugin("schedule").scheduled().message_count == 0

    text = (root / "config" / "delayOffset.json").read_text()
    assert '"offsetTable":{1:33,2:30,3:75\n' in text


@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_store_of_rocketmq_is_left_alone_unless_asked(golden_store, mode, caplog):
    root = golden_store("delay")
    clock = ManualClock(2_000_000_000_000)

    with open_store(root, mode, clock=clock) as store:
        end = store.log.max_physical_offset
        if mode == "w":
            for _ in range(50):
                store.work()
        assert store.log.max_physical_offset == end
        assert store.report()["plugins"]["schedule"]["delivers"] is False
        # Nobody knows what was delivered of it without reading all of the log.
        assert store.plugin("schedule").scheduled().message_count == 138

    assert not (root / "config" / "delayOffset.json").exists()
    assert ("deliver='always'" in caplog.text) == (mode == "w")


def test_what_java_had_not_delivered_is_delivered_when_asked(golden_store, golden_rows):
    """The log cut in front of some copies: those, and only those, come once more."""
    root = golden_store("delay")
    with reput.open(golden_store("delay"), "r", plugins=[]) as store:
        javas = views_of(store)
    copies = [v for v in javas if v.topic != SCHEDULE and "DELAY" in v.properties]
    cut = copies[len(copies) // 2].physical_offset
    path = root / "commitlog" / f"{cut // 65_536 * 65_536:020d}"
    path.write_bytes(path.read_bytes()[: cut % 65_536].ljust(65_536, b"\0"))
    for other in (root / "commitlog").iterdir():
        if int(other.name) > cut:
            other.unlink()

    clock = ManualClock(copies[-1].store_timestamp)
    with open_store(root, clock=clock, deliver="always") as store:
        before = len(copies_sent(store))
        while (due := store.work()) is not None and due <= clock.now:
            pass
        after = copies_sent(store)
        parked = [v for v in views_of(store) if v.topic == SCHEDULE]

    assert before < 100
    assert len(after) == len(parked)
    assert len({v.properties_text + v.body for v in after}) == len(after)


def copies_sent(store):
    return [v for v in views_of(store) if v.topic != SCHEDULE and "DELAY" in v.properties]


@pytest.mark.parametrize(
    "damaged", ["", "timerwheel", "timerlog", "config/timercheck", "a clipped wheel", "a log cut"]
)
def test_a_reader_lists_all_messages_that_wait_for_a_broker_5_5(damaged, golden_store):
    """By the broker's own wheel; without a valid one by the log, as a writer does."""
    root = golden_store("../rocketmq-5.5.0/default")
    if damaged == "a clipped wheel":
        (root / "timerwheel").write_bytes(bytes(64))
    elif damaged == "a log cut":
        (path,) = (root / "timerlog").iterdir()
        path.write_bytes(path.read_bytes()[:520])
    elif (root / damaged).is_dir() and damaged:
        shutil.rmtree(root / damaged)
    elif damaged:
        (root / damaged).unlink()
    before = snapshot(root)

    with reput.open(root, "r", plugins=["consumequeue", "schedule"]) as store:
        waiting = store.plugin("schedule").scheduled()
    assert snapshot(root) == before
    with reput.open(root, "w", plugins=["consumequeue", "schedule"], threads=False) as store:
        store.wait_dispatched(60)
        written = store.plugin("schedule").scheduled()

    assert [each.message_count for each in waiting.levels] == [9, 6]
    assert int(waiting.counts.sum()) == 37  # as the broker counted in config/timermetrics
    assert waiting.times.tolist() == written.times.tolist()
    assert waiting.counts.tolist() == written.counts.tolist()
