"""Batch queues: as RocketMQ 5.5 writes and reads them, and after every way of going down."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path

import attrs
import numpy as np
import pytest
from brokerdirectories import GOLDEN, unpacked

import reput
from reput.files import Disk
from reput.status import ReadStatus
from reput_consumequeue.batch.layout import UNIT_SIZE
from reput_tools.doctor import verify
from reput_tools.doctor.repair.repairrun import repair
from reput_tools.offline import rebuild

CASE = "rocketmq-5.5.0/batch-queues"
TOPICS = {"topicConfigTable": {"b": {"topicName": "b", "attributes": {"queue.type": "BatchCQ"}}}}
CONFIG = {"commitlog": {"file_size": 1 << 16}}
FIELDS = ("physical_offset", "flag", "born_timestamp", "store_timestamp", "reconsume_times")


def expected(kind):
    with gzip.open(GOLDEN / CASE / "expected.jsonl.gz", "rt") as rows:
        found = [json.loads(row) for row in rows]
    return {
        (row["topic"], row["queue_id"], row.get("queue_offset", -1)): row
        for row in found
        if row["kind"] == kind
    }


def units_of(root):
    """The bytes of every file, without the zeros at its end."""
    folder = Path(root) / "batchconsumequeue"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().rstrip(b"\0")
        for path in sorted(folder.rglob("0" * 20))
    }


def opened(root, mode="w", **options):
    return reput.open(root, mode, plugins=["consumequeue"], **options)


def made(root):
    """A new store with the topic b, whose queues are batch queues."""
    (root / "config").mkdir(parents=True)
    (root / "config/topics.json").write_text(json.dumps(TOPICS))
    return opened(root, config=CONFIG)


def batch_of(*bodies, queue_id=0):
    """An inner batch, made as a producer makes it."""
    entries = b"".join(
        struct.pack(">iiiii", 30 + len(body), 0, 0, 7, len(body))
        + body
        + struct.pack(">h8s", 8, b"TAGS\x01%s\x02\x02" % body[:1].ljust(1, b"-"))
        for body in bodies
    )
    properties = {"INNER_NUM": str(len(bodies)), "UNIQ_KEY": "u"}
    return reput.Message("b", entries, queue_id=queue_id, sys_flag=0xC0, properties=properties)


def filled(root):
    """Messages 0, 1 to 3, 4, 5 to 6 of queue 0, with times 100, 200, 300, 400."""
    messages = (b"0",), (b"1", b"2", b"3"), (b"4",), (b"5", b"6")
    with made(root) as store:
        for bodies in messages:
            store.put(batch_of(*bodies) if len(bodies) > 1 else reput.Message("b", bodies[0], 0))
    return root


def places(store, **asked):
    result = store.read("b", 0, **asked)
    return list(result.queue_offsets), result.next_queue_offset, result.status.name


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("as_columns", [False, True], ids=["objects", "columns"])
def test_every_message_is_what_the_brokers_client_gets(mode, as_columns, tmp_path):
    left, found = expected("message"), []

    with opened(unpacked(CASE, tmp_path), mode) as store:
        assert store.problems == ()
        queues = {
            (each.topic, each.queue_id, -1): (each.min_queue_offset, each.max_queue_offset)
            for each in store.queues()
        }
        for topic, queue_id, _ in queues:
            at = 0
            while result := store.read(topic, queue_id, at, 3, as_columns=as_columns):
                rows = result if not as_columns else map(result.batch.message, range(len(result)))
                found += rows
                assert list(result.queue_offsets) == [*range(at, result.next_queue_offset)]
                at = result.next_queue_offset

    assert queues == {
        key: (row["min_offset"], row["max_offset"]) for key, row in expected("queue").items()
    }
    for message in found:
        row = left.pop((message.topic, message.queue_id, message.queue_offset))
        assert message.body.hex() == row["body"]
        assert message.properties == row["properties"]
        assert {name: getattr(message, name) for name in FIELDS} == {
            name: row[name] for name in FIELDS
        }
        assert message.sys_flag == row["sys_flag"] & ~0xC0
        assert message.body_matches()
    assert not left


def removed(folder):
    shutil.rmtree(folder)


def torn(folder):
    for path in folder.rglob("0" * 20):
        with open(path, "r+b") as file:
            file.seek(3 * UNIT_SIZE + 7)
            file.write(bytes(40 * UNIT_SIZE))


def longer(folder):
    for path in folder.rglob("0" * 20):
        with open(path, "r+b") as file:
            file.seek(len(path.read_bytes().rstrip(b"\0")) // UNIT_SIZE * UNIT_SIZE + UNIT_SIZE)
            file.write(struct.pack(">qiqqqhii", 1 << 40, 100, 0, 0, 999, 1, -1, 0))


@pytest.mark.parametrize("harm", [removed, torn, longer])
@pytest.mark.parametrize("is_known", [False, True], ids=["broker's", "reput's"])
@pytest.mark.costly
def test_a_killed_store_gets_the_brokers_bytes_back(harm, is_known, tmp_path):
    root = unpacked(CASE, tmp_path)
    before = units_of(root)
    if is_known:
        with opened(root) as store:
            store.wait_dispatched()
    harm(root / "batchconsumequeue")
    (root / "abort").touch()

    with opened(root) as store:
        store.wait_dispatched()
        extents = {(each.topic, each.queue_id): each.max_queue_offset for each in store.queues()}

    assert units_of(root) == before
    assert extents == {key[:2]: row["max_offset"] for key, row in expected("queue").items()}
    assert not (root / "consumequeue/orders").exists()


@pytest.mark.costly
def test_a_rebuild_makes_the_same_files_and_the_doctor_sees_each_change(tmp_path):
    root = unpacked(CASE, tmp_path)
    before = units_of(root)
    path = root / "batchconsumequeue/orders/1/00000000000000000000"
    assert not [each for each in verify(root).findings if each.part == "consumequeue"]

    for place in (19, 27, 37):
        data = bytearray(path.read_bytes())
        data[5 * UNIT_SIZE + place] ^= 1
        path.write_bytes(data)
        (found,) = [each for each in verify(root).findings if each.part == "consumequeue"]
        assert found.file.startswith("batchconsumequeue/orders/1/")
        rebuild(root, ["consumequeue"])

        assert units_of(root) == before


@pytest.mark.costly
@pytest.mark.parametrize("step", [0, 1])
def test_the_doctor_sees_a_file_that_is_doubled_or_shifted(step, tmp_path):
    root = unpacked(CASE, tmp_path)
    path = root / "batchconsumequeue/orders/1/00000000000000000000"
    data = path.read_bytes()
    other = path.with_name(f"{len(data) * (1 + step):020d}")

    other.write_bytes(data)

    (found,) = [each for each in verify(root).findings if each.part == "consumequeue"]
    assert found.kind == ("consumequeue.extra", "consumequeue.order")[step]
    assert found.file.endswith(other.name)


@pytest.mark.costly
def test_puts_go_on_where_the_broker_stopped_and_a_log_that_ends_earlier_cuts_them(tmp_path):
    root = unpacked(CASE, tmp_path)

    with opened(root) as store:
        end = store.log.max_physical_offset
        receipts = [store.put(reput.Message("orders", b"%d" % at, queue_id=0)) for at in range(3)]
        assert [each.queue_offset for each in receipts] == [45, 46, 47]
        store.wait_dispatched()
        before = units_of(root)
    with open(root / "commitlog/00000000000000000000", "r+b") as log:
        log.seek(receipts[1].physical_offset)
        log.write(bytes(400))
    (root / "abort").touch()
    with opened(root) as store:
        queue = store.queues()[0]
        assert (queue.topic, queue.queue_id, queue.max_queue_offset) == ("orders", 0, 46)
        assert store.put(reput.Message("orders", b"x", queue_id=0)).queue_offset == 46
        store.wait_dispatched()
        assert [each.body for each in store.read("orders", 0, 45)] == [b"0", b"x"]

    after = units_of(root)
    assert end == receipts[0].physical_offset
    assert {name for name in before if before[name] != after[name]} == {"orders/0/" + "0" * 20}


def test_a_read_begins_and_ends_inside_of_a_batch(tmp_path):
    with opened(filled(tmp_path / "s"), "r") as store:
        assert places(store, queue_offset=0, max_count=3) == ([0, 1, 2], 3, "FOUND")
        assert places(store, queue_offset=2, max_count=9) == ([2, 3, 4, 5, 6], 7, "FOUND")
        assert places(store, queue_offset=6, max_count=9) == ([6], 7, "FOUND")
        assert places(store, queue_offset=7, max_count=1) == ([], 7, "OFFSET_OVERFLOW_ONE")
        assert places(store, queue_offset=9, max_count=1) == ([], 7, "OFFSET_OVERFLOW_BADLY")
        assert places(store, queue_offset=-1, max_count=1) == ([], 0, "OFFSET_TOO_SMALL")
        assert places(store, queue_offset=1, max_count=9, max_bytes=250)[0] == [1, 2]
        assert store.read("b", 5, 0).status is ReadStatus.NO_MESSAGE_IN_QUEUE
        assert [each.flag for each in store.read("b", 0, 0, 3)] == [0, 7, 7]


@attrs.frozen
class OddBodies:
    """Selects messages whose body is an odd number."""

    def matches(self, message):
        return int(message.body) % 2 == 1

    def matches_batch(self, batch):
        return np.array([self.matches(batch.message(row)) for row in range(len(batch))])

    def may_match(self, tags_codes, bit_maps):
        return np.ones(len(tags_codes), bool)


def test_a_filter_sees_the_messages_of_a_batch(tmp_path):
    with opened(filled(tmp_path / "s"), "r") as store:
        result = store.read("b", 0, 0, filter=OddBodies())

    assert [each.body for each in result] == [b"1", b"3", b"5"]
    assert (list(result.queue_offsets), result.next_queue_offset) == ([1, 3, 5], 7)


def test_a_record_that_is_lost_is_a_hole_and_the_next_messages_come(tmp_path):
    root = filled(tmp_path / "s")
    with opened(root, "r") as store:
        (lost,) = store.read("b", 0, 1, 1).messages
    with open(root / "commitlog/00000000000000000000", "r+b") as log:
        log.seek(lost.physical_offset + 90)
        log.write(b"\xff")

    with opened(root, "r") as store:
        result = store.read("b", 0, 0)

    assert list(result.queue_offsets) == [0, 4, 5, 6]
    assert [each.queue_offset for each in result.holes] == [1]


@pytest.mark.parametrize("times", [[100, 200, 300, 400], [300, 400, 100, 200]])
def test_a_time_leads_to_the_first_or_last_message_of_that_time(times, tmp_path):
    root = tmp_path / "s"
    clock = iter(times)
    now = [100]
    made(root).close()
    with opened(root, clock=lambda: now[0]) as store:
        for bodies in ((b"0",), (b"1", b"2", b"3"), (b"4",), (b"5", b"6")):
            now[0] = next(clock)
            store.put(batch_of(*bodies) if len(bodies) > 1 else reput.Message("b", bodies[0], 0))
        store.wait_dispatched()
        sizes, starts = [1, 3, 1, 2], [0, 1, 4, 5]
        for asked in (50, 100, 150, 200, 350, 400, 450):
            later = [at for at, time in enumerate(times) if time >= asked]
            before = [at for at, time in enumerate(times) if time <= asked]
            assert store.offset_by_time("b", 0, asked) == (starts[later[0]] if later else 7)
            assert store.offset_by_time("b", 0, asked, "upper") == (
                starts[before[-1]] + sizes[before[-1]] - 1 if before else 0
            )


def test_a_topic_created_while_the_store_is_open_gets_its_kind_of_queues(tmp_path):
    root = tmp_path / "s"
    with opened(root, config=CONFIG) as store, opened(root, "r") as reader:
        store.put(reput.Message("plain", b"p", queue_id=0))
        store.wait_dispatched()
        (root / "config").mkdir(exist_ok=True)
        (root / "config/topics.json").write_text(json.dumps(TOPICS))
        receipt = store.put(batch_of(b"1", b"2"))
        store.put(reput.Message("b", b"3", queue_id=0))
        store.wait_dispatched()
        assert [each.topic for each in reader.queues()] == ["b", "plain"]
        found = [each.body for each in reader.read("b", 0, receipt.queue_offset)]

    assert found == [b"1", b"2", b"3"]
    assert sorted(path.name for path in (root / "consumequeue").iterdir()) == ["plain"]
    assert [path.name for path in (root / "batchconsumequeue").iterdir()] == ["b"]


@pytest.mark.parametrize("text", ["0", "-1", "40000", "²", ""])
def test_a_count_that_no_queue_can_have_is_not_listed(text, tmp_path):
    with made(tmp_path / "s") as store:
        store.put(reput.Message("b", b"0", queue_id=0))
        plugin, (batch,) = store.plugin("consumequeue"), store.scan()
        store.wait_dispatched()
        queue = plugin.queues["b", 0]
        column = attrs.make_class("Column", ["present", "value"])
        column.__getitem__ = lambda self, row: self.value
        fake = attrs.make_class("Fake", ["batch"])
        fake.__getattr__ = lambda self, name: getattr(self.batch, name)
        fake.text = lambda self, name: column(
            np.ones(1, bool), text if name == "INNER_NUM" else "7"
        )
        from reput_consumequeue.unitruns import runs

        (run,) = runs(batch)
        queue.max_physical_offset = -1
        queue.append_batches(run, fake(batch))

        assert (queue.max_offset, queue.extent) == (1, (0, 1))


@pytest.mark.costly
def test_a_queue_whose_messages_are_gone_goes_on_where_it_was(tmp_path):
    root = tmp_path / "s"
    with made(root) as store:
        store.put(batch_of(b"1", b"2", b"3"))
        for _ in range(80):
            store.put(reput.Message("plain", bytes(1_000), queue_id=0))
        store.wait_dispatched()
        store.flush()
        store.trim_log(store.log.max_physical_offset)
        assert store.log.min_physical_offset > 0
        assert places(store, queue_offset=0) == ([], 3, "OFFSET_TOO_SMALL")
    rebuild(root, ["consumequeue"])

    with opened(root) as store:
        (queue,) = [each for each in store.queues() if each.topic == "b"]
        assert (queue.min_queue_offset, queue.max_queue_offset) == (3, 3)
        assert store.put(reput.Message("b", b"4", queue_id=0)).queue_offset == 3
        store.wait_dispatched()
        assert places(store, queue_offset=3) == ([3], 4, "FOUND")
    assert not [each for each in verify(root).findings if each.part == "consumequeue"]


def test_files_of_another_size_keep_it_and_a_queue_goes_on_in_the_next_file(tmp_path):
    root = tmp_path / "s"
    made(root).close()
    folder = root / "batchconsumequeue/b/0"
    folder.mkdir(parents=True)
    (folder / ("0" * 20)).write_bytes(bytes(4 * UNIT_SIZE))

    with opened(root) as store:
        for at in range(10):
            store.put(reput.Message("b", b"%d" % at, queue_id=0))
    with opened(root) as store:
        found = [each.body for each in store.messages("b")]
        store.put(batch_of(b"10", b"11"))
        store.wait_dispatched()
        assert places(store, queue_offset=11) == ([11], 12, "FOUND")

    assert found == [b"%d" % at for at in range(10)]
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sizes == {f"{at * 4 * UNIT_SIZE:020d}": 4 * UNIT_SIZE for at in range(3)}
    assert Disk().at(str(root)).exists(str(folder))


@pytest.mark.costly
def test_a_repair_of_the_log_leaves_holes_and_no_other_finding(tmp_path):
    root, repaired = unpacked(CASE, tmp_path), tmp_path / "repaired"
    with open(root / "commitlog/00000000000000000000", "r+b") as log:
        for place in (29800, 48351):  # a body, and the beginning of a record, both of batches
            log.seek(place)
            log.write(b"\xff" * 5)
    before = [each.kind for each in verify(root).findings]

    repair(root, repaired)

    assert before == ["log.body-crc", "log.bad-magic"]
    assert [each.kind for each in verify(repaired).findings] == ["reput.losses"]
    with opened(repaired, "r") as store:
        result = store.read("orders", 0, 3, 4)
        assert list(result.queue_offsets) == [3, 12, 13, 17]
        assert [each.queue_offset for each in result.holes] == [4, 14]
