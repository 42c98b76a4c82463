"""Readers of directories whose queues only a broker can read: queues are derived from the log."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import struct

import pytest
from brokerdirectories import GOLDEN, unpacked
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.files import FilePool
from reput.status import ReadStatus
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin
from reput_consumequeue.derived.derivedunits import DerivedUnits
from reput_consumequeue.derived.unitspace import UnitSpace
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.recordfiles import FileSet
from reput_testing import Driver, ManualClock, QuickDisk, ReadOnlyDisk, SmallLog, snapshot

MARKS = ["consumequeue/CURRENT", "consumequeue_rocksdb/CURRENT"]
NOON = ManualClock().now
SMALL = {"commitlog": {"file_size": 4096}, "consumequeue": {"units_per_file": 4}}


def mark(root, name=MARKS[1]):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"MANIFEST-000005\n")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def writer(tmp_path, clock):
    """A store of this project, whose plain queues are what derived ones are compared with."""
    root = tmp_path / "store"
    with reput.open(
        root, plugins=["consumequeue"], config=SMALL, disk=QuickDisk(), clock=clock
    ) as store:
        yield store


def put(store, clock, count, topic="T"):
    for number in range(count):
        clock.advance(1)
        store.put(reput.Message(topic, b"%d" % number, tags="ab"[number % 2], queue_id=number % 3))
    assert store.wait_dispatched(10)


def extents(store):
    found = [(info.topic, info.queue_id) for info in store.queues()]
    return {key: answers(store, *key) for key in found}


def answers(store, topic, queue_id):
    """What reads of a queue answer, at its ends, inside and beside it."""
    (info,) = [each for each in store.queues() if (each.topic, each.queue_id) == (topic, queue_id)]
    low, high = info.min_queue_offset, info.max_queue_offset
    found = [info]
    for at in (low - 1, low, (low + high) // 2, high - 1, high, high + 1):
        for count in (1, 3, 32):
            read = store.read(topic, queue_id, at, count)
            bodies = [each.body for each in read.messages]
            found.append((read.status, read.next_queue_offset, bodies, read.holes))
    found += [
        store.offset_by_time(topic, queue_id, timestamp, boundary)
        for timestamp in range(NOON - 2, NOON + 100, 7)
        for boundary in ("lower", "upper")
    ]
    return found


@pytest.mark.parametrize("name", MARKS)
def test_derived_queues_answer_as_queues_in_files_do(name, writer, clock):
    put(writer, clock, 40)
    put(writer, clock, 10, "Other")
    mark(writer.root, name)
    expected = extents(writer)
    if name == MARKS[0]:  # plain queues beside the others do not have all messages
        shutil.rmtree(os.path.join(writer.root, "consumequeue", "Other"))

    plugins = ["consumequeue", "filter"]
    with reput.open(writer.root, "r", plugins=plugins, disk=ReadOnlyDisk()) as reader:
        assert reader.problems == ()
        assert extents(reader) == expected
        wanted = reader.filter("a", "TAG", topic="T")
        assert {each.tags for each in reader.read("T", 0, 0, filter=wanted).messages} == {"a"}
        plugin = reader.plugin(ConsumeQueuePlugin)
        columns = plugin.reput_read("T", 1, 2, 5, 1 << 20, as_columns=True)
        assert columns.queue_offsets.tolist() == [2, 3]
        assert reader.read("None", 0, 0).status is ReadStatus.NO_MESSAGE_IN_QUEUE
        assert reader.offset_by_time("None", 0, 1) == 0
        # What comes later is seen, also in a queue that is new.
        put(writer, clock, 30)
        put(writer, clock, 4, "New")
        assert reader.read("T", 0, 14, 1).messages[0].body == b"0"
        added = {key: answers(writer, *key) for key in expected if key[0] == "T"}
        added |= {("New", number): answers(writer, "New", number) for number in range(3)}
        assert extents(reader) == {**expected, **added}


def test_a_link_where_a_broker_keeps_queues_does_not_prevent_reading(writer, clock, tmp_path):
    put(writer, clock, 3)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", os.path.join(writer.root, "consumequeue_rocksdb"))

    with reput.open(writer.root, "r", disk=ReadOnlyDisk()) as reader:
        assert extents(reader) == extents(writer)
        assert any("consumequeue_rocksdb" in problem for problem in reader.problems)


@pytest.mark.parametrize("case", ["rocksdb-queues", "settings-single", "both-queues"])
def test_a_recorded_store_answers_as_its_broker(case, tmp_path):
    root = unpacked(f"rocketmq-5.5.0/{case}", tmp_path)
    before = snapshot(root)
    with gzip.open(GOLDEN / "rocketmq-5.5.0" / case / "expected.jsonl.gz") as lines:
        rows = [json.loads(line) for line in lines]

    with reput.open(root, "r", disk=ReadOnlyDisk()) as store:
        queues = {(each.topic, each.queue_id): each for each in store.queues()}
        extents = {
            key: (each.min_queue_offset, each.max_queue_offset) for key, each in queues.items()
        }
        for topic, *numbers in extents_of_broker(rows):
            assert extents[topic, numbers[0]] == tuple(numbers[1:])
        messages = bodies_of_broker(rows)
        for (*place, queue_offset), body in messages.items():
            (message,) = store.read(*place, queue_offset, 1).messages
            assert message.body == body
            by_time = store.offset_by_time(*place, message.store_timestamp, "upper")
            assert by_time >= queue_offset

    assert len(messages) > 100
    assert snapshot(root) == before


def extents_of_broker(rows):
    """Topic, queue id, min and max offset of each queue that the broker has named."""
    for row in rows:
        if row["kind"] == "queue":
            yield row["topic"], row["queue_id"], row["min_offset"], row["max_offset"]
        elif row["kind"] == "status":
            for line in row["text"].splitlines()[1:]:
                if line.startswith("broker-a"):
                    yield row["topic"], *map(int, line.split()[1:4])


def bodies_of_broker(rows):
    """Bodies by topic, queue id and queue offset; of a topic that was created again, the later."""
    found = {}
    for row in rows:
        if row["kind"] == "message":
            place = row["topic"], row["queue_id"], row["queue_offset"]
            found[place] = bytes.fromhex(row["body"])
        elif row["kind"] == "put":
            queue_offset = row["answer"]["queue_offset"]
            for place in [place for place in found if place[:2] == (row["topic"], row["queue_id"])]:
                if place[2] >= queue_offset:
                    del found[place]
            found[row["topic"], row["queue_id"], queue_offset] = row["body"].encode()
    return found


# --------------------------------------------------------------------------- rules


@pytest.fixture
def log():
    return SmallLog()


@pytest.fixture
def reader(tmp_path, log):
    mark(tmp_path)
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=4))
    with Driver(plugin, "consumequeue", tmp_path, log, writable=False) as driver:
        yield driver.plugin


def append(log, *bodies, at=None):
    if at is not None:
        log._queue_offsets["T", 0] = at
    for body in bodies:
        log.append(reput.Message("T", body))


def listed(plugin, start=None):
    """Queue offset and body of each message, None for a missing one; from the minimum on."""
    (info,) = plugin.reput_queues()
    at, found = info.min_queue_offset if start is None else start, {}
    while at < info.max_queue_offset:
        result = plugin.reput_read("T", 0, at, 32, 1 << 20)
        found |= dict.fromkeys(range(at, result.next_queue_offset))
        found |= dict(zip(result.queue_offsets, [each.body for each in result], strict=True))
        at = result.next_queue_offset
    return found


def test_a_queue_that_was_deleted_and_created_again_begins_again(log, reader):
    append(log, b"a", b"b", b"c", b"d", b"e")
    assert list(listed(reader)) == [0, 1, 2, 3, 4]
    append(log, b"A", b"B", at=0)

    assert next(iter(reader.reput_read("T", 0, 0, 1, 1 << 20))).body == b"A"
    assert listed(reader) == {0: b"A", 1: b"B"}


@pytest.mark.parametrize("count", [1, 2])
def test_a_queue_that_goes_on_below_its_end_begins_there_if_two_messages_say_so(count, log, reader):
    append(log, b"a", b"b", b"c", b"d", at=7)
    append(log, *[b"B", b"C"][:count], at=8)
    before = {7: b"a", 8: b"b", 9: b"c", 10: b"d"}
    assert listed(reader) == (before if count == 1 else {8: b"B", 9: b"C"})
    append(log, b"e", at=11)  # what goes on from the end

    assert listed(reader) == (
        {**before, 11: b"e"} if count == 1 else {8: b"B", 9: b"C", 10: None, 11: b"e"}
    )


def test_missing_messages_are_holes_and_later_ones_keep_their_places(log, reader):
    append(log, b"a", b"b", b"c")
    append(log, b"f", b"g", at=5)

    assert listed(reader) == {0: b"a", 1: b"b", 2: b"c", 3: None, 4: None, 5: b"f", 6: b"g"}
    assert len(reader.reput_read("T", 0, 3, 32, 1 << 20).holes) == 2


def test_messages_are_listed_in_the_light_queues_that_they_name(log, reader):
    for number in range(3):
        named = {
            "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b",
            "INNER_MULTI_QUEUE_OFFSET": f"{number},{number + 7}",
        }
        log.append(reput.Message("T", b"%d" % number, properties=named))

    result = reader.reput_read("%LMQ%a", 0, 1, 32, 1 << 20)
    assert [each.body for each in result] == [b"1", b"2"]
    (last,) = reader.reput_read("%LMQ%b", 0, 9, 32, 1 << 20)
    assert last.body == b"2"


@pytest.mark.parametrize("together", [True, False])
def test_a_queue_that_goes_on_far_above_begins_there(together, log, reader):
    append(log, b"a", b"b")
    append(log, b"c", at=1 << 40)
    if not together:
        assert listed(reader) == {0: b"a", 1: b"b"}
    append(log, b"d")

    assert listed(reader) == {1 << 40: b"c", (1 << 40) + 1: b"d"}


@pytest.mark.parametrize("queue_offset", [-1, 1 << 40, (1 << 63) - 1])
def test_a_queue_offset_that_no_other_message_confirms_is_not_listed(queue_offset, log, reader):
    append(log, b"a", b"b")
    log._data += _stating(SmallLog.of([reput.Message("T", b"c")]), queue_offset, len(log._data))
    log.starts.append(log.ends[-1])
    log.ends.append(len(log._data))
    append(log, b"d", at=2)

    assert listed(reader) == {0: b"a", 1: b"b", 2: b"d"}


def _stating(log, queue_offset, physical_offset):
    record = bytearray(log.read(0, log.max_physical_offset))
    record[20:36] = struct.pack(">qq", queue_offset, physical_offset)
    return bytes(record)


def test_a_log_that_was_cut_and_continued_is_derived_again(log, reader):
    append(log, *(b"%d" % number for number in range(7)))
    assert len(listed(reader)) == 7
    log.__dict__.update(log.first(3).__dict__)
    assert reader.reput_offset_by_time("T", 0, 1 << 60, "upper") == 2
    append(log, *(b"other %d" % number for number in range(9)))

    assert [each.body for each in reader.reput_read("T", 0, 3, 32, 1 << 20)] == [b"other 0"]
    assert list(listed(reader).values())[2:5] == [b"2", b"other 0", b"other 1"]
    assert len(listed(reader)) == 12


def test_room_of_messages_that_the_log_has_lost_is_used_again(log, reader):
    sizes = []
    for _ in range(12):
        append(log, *(b"%d" % number for number in range(700)))
        (info,) = reader.reput_queues()
        sizes.append(reader.derived._space.size)
        log.trim(len(log.file_offsets) - 1)

    assert sizes[-1] == sizes[4]
    assert listed(reader)[info.max_queue_offset - 1] == b"699"
    below = reader.reput_read("T", 0, 0, 1, 100)
    assert below.status is ReadStatus.OFFSET_TOO_SMALL


def test_a_read_that_was_interrupted_is_continued(log, reader, monkeypatch):
    append(log, *(b"%d" % number for number in range(5)))
    append(log, b"9", at=9)

    def interrupted(done, total):
        raise KeyboardInterrupt

    reader.derived.progress = interrupted
    with pytest.raises(KeyboardInterrupt):
        reader.reput_queues()
    reader.derived.progress = lambda done, total: None

    assert [each for each in listed(reader).values() if each] == [b"%d" % n for n in (*range(5), 9)]


def test_units_that_were_written_are_read_and_closed_where_the_disk_is_full():
    space, limits = UnitSpace(0), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        space.write(space.take(320), memoryview(b"a" * 320))
        assert os.fstat(space._file.fileno()).st_size == 320  # a forked child has nothing to write
        with pytest.raises(OSError, match="too large"):
            space.write(space.take(320), memoryview(b"b" * 320))
        assert space.read(0, 320) == b"a" * 320
        space.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@given(
    st.lists(
        st.tuples(st.sampled_from(["at the end", "write", "release"]), st.integers(0, 90)),
        max_size=20,
    ),
    st.sampled_from([0, 1 << 20]),
    st.integers(1, 70),
)
def test_units_are_read_as_they_were_written(steps, memory_size, count):
    space = UnitSpace(memory_size)
    disk = QuickDisk()
    shared = FileSet(disk, FilePool(disk, 1), 50, writable=False)
    units, model, low = DerivedUnits(shared, space), {}, 0
    for number, (what, place) in enumerate(steps):
        if what == "release" and model:
            low = max(low, min(place, max(model)))
            units.release(low)
            continue
        first = max(model, default=-1) + 1 if what == "at the end" else place
        made = [struct.pack(">qiq", number, 91 + each, each) for each in range(count)]
        begins = not model or first < low
        units.write(first, memoryview(b"".join(made)), begins=begins)
        model = {key: value for key, value in model.items() if key < first and not begins}
        model |= dict(enumerate(made, first))
        low = first if begins else low

    for first in range(low, max(model, default=-1) + 2):
        data = units.read_data(first, 7)
        stop = min(first + 7, max(model, default=-1) + 1, first - first % 50 + 50)
        if first < min(model, default=0):
            stop = first  # nothing is known before the first unit
        expected = [model[min(key for key in model if key >= each)] for each in range(first, stop)]
        assert data == b"".join(expected)
        assert len(data) % UNIT_SIZE == 0
    space.close()
