"""Reading a queue: every status with its next offset, the limits, and units that lie."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openstores import bodies_in

import reput
from reput.status import ReadStatus
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin, plugin
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.reader import queueread
from reput_testing import Driver, QuickDisk, SmallLog

PER_FILE = 4
SMALL = {"commitlog": {"file_size": 4096}, "consumequeue": {"units_per_file": PER_FILE}}


def _open(root, mode="w"):
    config = SMALL if mode == "w" else None
    return reput.open(root, mode, plugins=["consumequeue"], config=config, disk=QuickDisk())


@pytest.fixture
def store(tmp_path):
    """Ten messages in T/0, whose files hold four units; one in T/3."""
    with _open(tmp_path / "store") as store:
        store.put_many([reput.Message("T", b"%d" % n) for n in range(10)])
        store.put(reput.Message("T", b"other", 3))
        assert store.wait_dispatched(10)
        yield store


def _facts(answer):
    return (
        answer.status.name,
        answer.next_queue_offset,
        answer.min_queue_offset,
        answer.max_queue_offset,
    )


def _bodies(answer):
    return [message.body for message in answer]


# ------------------------------------------------------------------ at once


@pytest.fixture
def many(tmp_path):
    """A hundred messages in T/0, whose files hold 64 units."""
    config = {"consumequeue": {"units_per_file": 64}}
    with reput.open(tmp_path / "many", plugins=["consumequeue"], config=config) as store:
        store.put_many([reput.Message("T", b"%d" % n * 10) for n in range(100)])
        assert store.wait_dispatched()
        yield store


_AT_ONCE = [
    (0, 8, 1 << 20, (8, 8)),
    (5, 32, 1 << 20, (37, 32)),
    (5, 1000, 1 << 20, (64, 59)),  # to the end of the file
    (64, 1000, 1 << 20, (100, 36)),
    (90, 10, 1 << 20, (100, 10)),
    (10, 50, 2_000, (27, 17)),  # as many as fit
]


@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize(("at", "count", "size", "expected"), _AT_ONCE)
def test_a_read_that_leaves_nothing_to_decide(
    many, monkeypatch, as_columns, at, count, size, expected
):
    asked = "T", 0, at, count, size
    with monkeypatch.context() as patch:
        for module, name in ((plugin, "read_loaded"), (queueread, "read_mapped")):
            patch.setattr(module, name, lambda *_: None)
        slowly = many.read(*asked)
    monkeypatch.setattr(queueread, "Collector", None)  # which decides

    found = many.read(*asked, as_columns=as_columns)

    assert (found.next_queue_offset, len(found)) == expected
    assert _facts(found) == _facts(slowly)
    assert tuple(found.queue_offsets) == slowly.queue_offsets == tuple(range(at, expected[0]))
    # Made once: a loop may ask for each row.
    assert not as_columns or found.queue_offsets is found.queue_offsets
    bodies = found.batch.body.as_bytes() if as_columns else _bodies(found)
    assert bodies == _bodies(slowly)
    for rows in (slice(0, 100), slice(2, 5)) if as_columns else ():
        for name in ("physical_offset", "queue_offset", "store_timestamp", "size"):
            expected_column = [getattr(message, name) for message in slowly.messages[rows]]
            assert found.batch[rows].column(name).tolist() == expected_column


def _changed(path, position, data):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize("as_columns", [False, True])
def test_a_read_in_doubt_is_looked_at_message_by_message(many, tmp_path, as_columns):
    fourth = many.read("T", 0, 0, 8).messages[3]
    log = tmp_path / "many" / "commitlog" / f"{0:020d}"
    _changed(log, fourth.physical_offset + 90, b"?")  # in its body

    found = many.read("T", 0, 0, 8, as_columns=as_columns)

    assert list(found.queue_offsets) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert [hole.queue_offset for hole in found.holes] == [3]


def test_units_that_were_cut_under_an_open_store_are_no_end_of_the_process(many, tmp_path):
    assert len(many.read("T", 0, 0, 32)) == 32
    path = tmp_path / "many" / "consumequeue" / "T" / "0" / f"{0:020d}"

    os.truncate(path, 5 * UNIT_SIZE)

    assert _bodies(many.read("T", 0, 0, 32)) == [b"%d" % n * 10 for n in range(5)]
    assert _bodies(many.read("T", 0, 64, 32)) == [b"%d" % n * 10 for n in range(64, 96)]


# ------------------------------------------------------------------ statuses


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, ("FOUND", 4, 0, 10)),
        (3, ("FOUND", 4, 0, 10)),
        (4, ("FOUND", 8, 0, 10)),
        (9, ("FOUND", 10, 0, 10)),
        (10, ("OFFSET_OVERFLOW_ONE", 10, 0, 10)),
        (11, ("OFFSET_OVERFLOW_BADLY", 10, 0, 10)),
        ((1 << 63) - 1, ("OFFSET_OVERFLOW_BADLY", 10, 0, 10)),
        (-1, ("OFFSET_TOO_SMALL", 0, 0, 10)),
        (-(1 << 63), ("OFFSET_TOO_SMALL", 0, 0, 10)),
    ],
)
def test_every_offset_of_a_queue_has_its_status_and_its_next_offset(store, offset, expected):
    answer = store.read("T", 0, offset)

    assert _facts(answer) == expected
    assert bool(answer) == (answer.status is ReadStatus.FOUND) == bool(len(answer))


@pytest.mark.parametrize("where", [("Unknown", 0), ("T", 1), ("T", -1), ("T", -(1 << 31))])
@pytest.mark.parametrize("offset", [0, 5, -5])
def test_a_queue_that_nobody_knows_has_no_message_as_rocketmq_says(store, where, offset):
    assert _facts(store.read(*where, offset)) == ("NO_MESSAGE_IN_QUEUE", 0, 0, 0)
    assert where not in {(info.topic, info.queue_id) for info in store.queues()}


def test_no_file_at_the_offset_leads_to_the_next_file(store):
    store.flush()
    store.plugin_objects["consumequeue"].files.pool.close()
    os.unlink(f"{store.root}/consumequeue/T/0/{4 * UNIT_SIZE:020d}")

    assert _facts(store.read("T", 0, 5)) == ("OFFSET_FOUND_NULL", 8, 0, 10)
    assert _bodies(store.read("T", 0, 8)) == [b"8", b"9"]


# ------------------------------------------------------------------ limits


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_gives_one_message(store, count):
    assert _bodies(store.read("T", 0, 0, count)) == [b"0"]


def test_max_bytes_counts_whole_records_and_lets_one_through(tmp_path):
    config = {**SMALL, "commitlog": {"file_size": 1 << 16}}
    with reput.open(tmp_path, plugins=["consumequeue"], config=config, disk=QuickDisk()) as store:
        sizes = [store.put(reput.Message("T", bytes(n * 200))).size for n in range(4)]
        store.wait_dispatched(10)
        for limit in range(0, sum(sizes) + 50, 17):
            floor = max(limit, 100)  # RocketMQ's lowest maxPullSize
            fitting = [n for n in range(1, 5) if sum(sizes[:n]) <= floor]

            assert len(store.read("T", 0, 0, 32, limit)) == max([1, *fitting])


# ------------------------------------------------------------------ a log without its head


def _trim(store, file_count):
    low = store.log.min_physical_offset + file_count * store.log.file_size
    store.log.files.trim(low)
    store.plugin_objects["consumequeue"].reput_trim(min_physical_offset=low)


def test_a_trimmed_log_moves_the_minimum_and_removes_files(tmp_path):
    with _open(tmp_path) as store:
        receipts = [store.put(reput.Message("T", b"%d" % n)) for n in range(100)]
        store.wait_dispatched(10)
        _trim(store, 1)
        low = next(r.queue_offset for r in receipts if r.physical_offset >= 4096)

        assert _facts(store.read("T", 0, 0)) == ("OFFSET_TOO_SMALL", low, low, 100)
        assert _facts(store.read("T", 0, low - 1)) == ("OFFSET_TOO_SMALL", low, low, 100)
        assert _bodies(store.read("T", 0, low, 1)) == [b"%d" % low]
        names = sorted(path.name for path in (tmp_path / "consumequeue/T/0").iterdir())
        assert int(names[0]) == low // PER_FILE * PER_FILE * UNIT_SIZE
    with _open(tmp_path) as store:
        assert _facts(store.read("T", 0, 0)) == ("OFFSET_TOO_SMALL", low, low, 100)
        assert store.put(reput.Message("T", b"more")).queue_offset == 100


def test_a_queue_that_lost_all_its_messages_keeps_its_place(tmp_path):
    with _open(tmp_path) as store:
        store.put_many([reput.Message("Old", b"%d" % n) for n in range(5)])
        store.put_many([reput.Message("New", b"%d" % n) for n in range(100)])
        store.wait_dispatched(10)
        _trim(store, 1)

        assert _facts(store.read("Old", 0, 0)) == ("OFFSET_TOO_SMALL", 5, 5, 5)
        assert _facts(store.read("Old", 0, 5)) == ("OFFSET_OVERFLOW_ONE", 5, 5, 5)
    with _open(tmp_path) as store:
        assert _facts(store.read("Old", 0, 0)) == ("OFFSET_TOO_SMALL", 5, 5, 5)
        assert store.put(reput.Message("Old", b"again")).queue_offset == 5
        store.wait_dispatched(10)
        assert _bodies(store.read("Old", 0, 5)) == [b"again"]


def test_messages_that_go_while_nobody_says_so_are_being_removed(tmp_path):
    with _open(tmp_path) as store:
        receipts = [store.put(reput.Message("T", b"%d" % n)) for n in range(100)]
        store.wait_dispatched(10)
        store.log.files.trim(4096)  # the plugin was not told yet
        low = next(r.queue_offset for r in receipts if r.physical_offset >= 4096)

        answer = store.read("T", 0, 0)
        assert _facts(answer) == ("MESSAGE_WAS_REMOVING", 2 * PER_FILE, 0, 100)
        assert bodies_in(store) == [b"%d" % n for n in range(low, 100)]


def test_a_removed_first_file_of_the_log_is_noticed_when_the_store_is_opened(tmp_path):
    with _open(tmp_path) as store:
        receipts = [store.put(reput.Message("T", b"%d" % n)) for n in range(100)]
    low = next(r.queue_offset for r in receipts if r.physical_offset >= 4096)
    min(Path(tmp_path, "commitlog").iterdir()).unlink()

    for mode in "rw":
        with _open(tmp_path, mode) as store:
            assert _facts(store.read("T", 0, low - 1)) == ("OFFSET_TOO_SMALL", low, low, 100)
            assert _bodies(store.read("T", 0, low, 2))[0] == b"%d" % low


# ------------------------------------------------------------------ units that lie

LONGS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, 2_000),
    st.sampled_from([0, 4095, 4096, (1 << 63) - 1, (1 << 62)]),
)
SIZES = st.one_of(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 500),
    st.sampled_from([0, 1, 90, 91, 96, 97, 0x7FFFFFFF, 0x7FFFFFFE]),
)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lies=st.dictionaries(st.integers(0, 9), st.tuples(LONGS, SIZES), max_size=3),
    shift=st.integers(-200, 200),
    count=st.integers(1, 12),
)
def test_a_unit_that_points_at_something_else_never_gives_a_wrong_message(
    tmp_path_factory, lies, shift, count
):
    root = str(tmp_path_factory.mktemp("lies"))
    log = SmallLog.of(
        [reput.Message("T", b"%d" % (n // 2), n % 2) for n in range(20)], file_size=1024
    )
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=PER_FILE))
    with Driver(plugin, "consumequeue", root, log) as driver:
        driver.catch_up()
        for number, (offset, size) in lies.items():
            if number % 2:  # near the truth
                true = int(plugin.queues["T", 0].files.read(number, 1)["physical_offset"][0])
                offset = true + shift
            path = f"{root}/consumequeue/T/0/{number // PER_FILE * PER_FILE * UNIT_SIZE:020d}"
            with open(path, "r+b") as file:
                file.seek(number % PER_FILE * UNIT_SIZE)
                file.write(struct.pack(">qi", offset, size))

        at = 0
        while at < 10:
            answer = plugin.reput_read("T", 0, at, count, 1 << 20)
            for place, message in zip(answer.queue_offsets, answer, strict=True):
                # Another whole message of the same queue is all that it can be taken in by.
                assert (message.topic, message.queue_id) == ("T", 0)
                assert message.body == b"%d" % message.queue_offset
                if place not in lies:
                    assert message.queue_offset == place
            assert answer.next_queue_offset > at
            assert answer.max_queue_offset == 10
            at = answer.next_queue_offset


def test_a_unit_of_another_queues_message_does_not_give_that_message(store):
    other = store.plugin_objects["consumequeue"].queues["T", 3].files.read(0, 1).tobytes()
    with open(f"{store.root}/consumequeue/T/0/{0:020d}", "r+b") as file:
        file.seek(UNIT_SIZE)
        file.write(other)

    assert _bodies(store.read("T", 0, 0)) == [b"0", b"2", b"3"]
    assert store.read("T", 0, 0).queue_offsets == (0, 2, 3)
    assert _bodies(store.read("T", 0, 1, 1)) == [b"2"]


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("name", ["..", "0/../..", "T.lock", "-1", "00", "1e3", "４", "9" * 30])
def test_directories_that_are_no_queues_are_passed_over(tmp_path, name):
    with _open(tmp_path) as store:
        store.put(reput.Message("T", b"one"))
    if "/" not in name and name != "..":
        (tmp_path / "consumequeue" / "T" / name).mkdir()
        (tmp_path / "consumequeue" / f"{name}.d").mkdir()
    (tmp_path / "consumequeue" / "file").write_text("no directory")
    (tmp_path / "consumequeue" / "T" / "7").write_text("no directory")

    for mode in "rw":
        with _open(tmp_path, mode) as store:
            assert [(info.topic, info.queue_id) for info in store.queues()] == [("T", 0)]
            assert _bodies(store.read("T", 0, 0)) == [b"one"]


def test_a_read_as_columns_is_the_same_answer(tmp_path):
    with _open(tmp_path) as store:
        for number in range(5):
            store.put(reput.Message("T", b"%d" % number, tags="A" if number % 2 else None))
        store.wait_dispatched()
        result = store.read("T", 0, 1, 3)

        found = store.read("T", 0, 1, 3, as_columns=True)

        assert (found.status, found.next_queue_offset) == (result.status, 4)
        assert (found.min_queue_offset, found.max_queue_offset, len(found)) == (0, 5, 3)
        assert found.queue_offsets.tolist() == found.batch.queue_offset.tolist() == [1, 2, 3]
        assert found.batch.body.as_bytes() == [b"1", b"2", b"3"]
        assert found.batch.text("TAGS").as_bytes() == [b"A", None, b"A"]
        assert [found.batch.message(row) for row in range(3)] == list(result)
        assert found.batch.physical_offset.tolist() == [each.physical_offset for each in result]
        with pytest.raises(TypeError, match="as_columns: True or False expected"):
            store.read("T", 0, 0, as_columns="yes")


def test_columns_of_nothing(tmp_path):
    with _open(tmp_path) as store:
        found = store.read("T", 0, 7, as_columns=True)

        assert not found
        assert found.status is ReadStatus.NO_MESSAGE_IN_QUEUE
        assert (len(found.batch), found.queue_offsets.tolist()) == (0, [])
        assert found.batch.body.as_bytes() == found.batch.text("KEYS").tolist() == []
        assert found.batch.physical_offset.tolist() == []
