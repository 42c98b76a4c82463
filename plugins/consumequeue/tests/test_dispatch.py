"""What becomes a unit and what does not; and what happens when a unit cannot be written."""

from __future__ import annotations

import errno
import logging
import os

import numpy as np
import pytest
from openstores import bodies_in

import reput
from reput.record.layout import PROPERTY_LIGHT_QUEUE_OFFSETS, PROPERTY_LIGHT_QUEUES
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin
from reput_consumequeue.layout import UNIT_DTYPE
from reput_testing import Driver, FaultyDisk, QuickDisk, SmallLog, snapshot

SMALL = {
    "commitlog": {"file_size": 4096},
    "consumequeue": {"units_per_file": 4},
}


def _dispatched(root, log, **options):
    """A plugin that was given the whole log, and still is open."""
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=4))
    driver = Driver(plugin, "consumequeue", os.fspath(root), log, **options)
    driver.open()
    driver.catch_up()
    return plugin


def _listed(plugin):
    """Physical offsets by queue."""
    found = {}
    for (topic, queue_id), queue in plugin.queues.items():
        units = [queue.files.read(at, 1) for at in range(queue.min_offset, queue.max_offset)]
        found[topic, queue_id] = [int(unit["physical_offset"][0]) for unit in units]
    return found


# ------------------------------------------------------------------ transactions


def test_prepared_and_rolled_back_messages_are_in_no_queue(tmp_path):
    log = SmallLog()
    flags = [0x0, 0x4, 0x8, 0xC, 0x1, 0x5, 0x9, 0xD, 0x0]
    starts = [log.append(reput.Message("T", b"", sys_flag=flag)) for flag in flags]

    plugin = _dispatched(tmp_path, log)

    assert _listed(plugin) == {
        ("T", 0): [start for start, flag in zip(starts, flags, strict=True) if flag & 0xC in (0, 8)]
    }


def test_a_log_of_prepared_messages_makes_no_queue_at_all(tmp_path):
    log = SmallLog.of([reput.Message("T", b"", sys_flag=0x4)] * 5)

    plugin = _dispatched(tmp_path, log)

    assert plugin.queues == {}
    assert not (tmp_path / "consumequeue").exists()


def test_tags_codes_are_those_of_the_records(tmp_path):
    from reput.record import java_string_hash

    tags = ["TagA", None, "tag-中文", ""]
    log = SmallLog.of([reput.Message("T", b"", tags=tag) for tag in tags])

    plugin = _dispatched(tmp_path, log)

    units = np.frombuffer(plugin.queues["T", 0].files.read(0, 4).tobytes(), UNIT_DTYPE)
    assert units["tags_code"].tolist() == [java_string_hash(tag) if tag else 0 for tag in tags]
    assert units["size"].tolist() == [
        end - start for start, end in zip(log.starts, log.ends, strict=True)
    ]


# ------------------------------------------------------------------ light queues


def _light(names, offsets, **options):
    listed = {PROPERTY_LIGHT_QUEUES: names, PROPERTY_LIGHT_QUEUE_OFFSETS: offsets}
    return reput.Message("T", b"", properties=listed, **options)


def test_light_queues_list_a_message_at_the_offsets_that_it_states(tmp_path):
    log = SmallLog()
    first = log.append(_light("%LMQ%a,%LMQ%b", "0,0", queue_id=3))
    second = log.append(_light("%LMQ%b", "1", queue_id=3))
    third = log.append(_light("%LMQ%a", "1", queue_id=2))

    plugin = _dispatched(tmp_path, log, light_queues=True)

    assert _listed(plugin) == {
        ("T", 3): [first, second],
        ("T", 2): [third],
        ("%LMQ%a", 0): [first, third],
        ("%LMQ%b", 0): [first, second],
    }
    answer = plugin.reput_read("%LMQ%a", 0, 0, 32, 1 << 20)
    assert [message.physical_offset for message in answer] == [first, third]
    assert answer.queue_offsets == (0, 1)


def test_light_queues_are_an_option_that_is_off(tmp_path):
    log = SmallLog.of([_light("%LMQ%a", "0")])

    assert set(_listed(_dispatched(tmp_path, log))) == {("T", 0)}


@pytest.mark.parametrize(
    ("names", "offsets"),
    [
        ("%LMQ%a,%LMQ%b", "0"),
        ("%LMQ%a", "0,0"),
        ("%LMQ%a,%LMQ%b", "0,"),  # Java drops empty parts at the end
        ("%LMQ%a", ""),
        ("", "0"),
        (",", ","),
        ("%LMQ%a", "one"),
        ("%LMQ%a", "-1"),
        ("%LMQ%a", "²"),
        ("%LMQ%a", "٣"),
        ("%LMQ%a", "9" * 19),
        ("%LMQ%a", "9" * 5000),
        ("%LMQ%a/../../x", "0"),
        ("..", "0"),
        ("../../x", "0"),
        ("%LMQ%\0", "0"),
        ("%LMQ%" + "n" * 300, "0"),
    ],
)
def test_lists_that_make_no_sense_are_ignored_and_the_message_keeps_its_queue(
    tmp_path, names, offsets
):
    log = SmallLog(1 << 14)
    start = log.append(_light(names, offsets))

    plugin = _dispatched(tmp_path / "a" / "store", log, light_queues=True)

    assert _listed(plugin) == {("T", 0): [start]}
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {f"a/store/consumequeue/T/0/{0:020d}"}


def test_a_bad_name_in_a_list_costs_only_itself(tmp_path):
    log = SmallLog()
    start = log.append(_light("%LMQ%a,../x,%LMQ%home/a,%LMQ%home.b:7", "0,0,0,0"))

    plugin = _dispatched(tmp_path, log, light_queues=True)

    good = [("T", 0), ("%LMQ%a", 0), ("%LMQ%home.b:7", 0)]
    assert _listed(plugin) == {queue: [start] for queue in good}


def test_names_of_other_topics_use_the_messages_queue_id(tmp_path):
    log = SmallLog()
    start = log.append(_light("plain,%LMQ%a", "0,0", queue_id=5))

    plugin = _dispatched(tmp_path, log, light_queues=True)

    assert _listed(plugin) == {("T", 5): [start], ("plain", 5): [start], ("%LMQ%a", 0): [start]}


def test_prepared_messages_are_in_no_light_queue_either(tmp_path):
    log = SmallLog()
    log.append(_light("%LMQ%a", "0", sys_flag=0x4))
    log.append(_light("%LMQ%a", "0", sys_flag=0xC))
    start = log.append(_light("%LMQ%a", "0", sys_flag=0x8))

    plugin = _dispatched(tmp_path, log, light_queues=True)

    assert _listed(plugin) == {("T", 0): [start], ("%LMQ%a", 0): [start]}


def test_a_light_queue_that_is_dispatched_twice_lists_once(tmp_path):
    log = SmallLog.of([_light("%LMQ%a", str(n)) for n in range(6)])
    plugin = _dispatched(tmp_path, log, light_queues=True)
    before = snapshot(tmp_path)

    for batch in log.batches(0):
        plugin.reput_dispatch(batch)

    assert snapshot(tmp_path) == before


# ------------------------------------------------------------------ topics that are no directories


def test_topics_that_cannot_be_directories_are_skipped_said_once_and_counted(tmp_path, caplog):
    log = SmallLog()
    bad = [b"..", b"../../x", b"a/b", b"\xff\xfe", b"nul\0"]
    for _ in range(3):
        log.append(reput.Message("T", b""))
        for topic in bad:
            log.append(reput.Message("T", b""), topic=topic)
    root = tmp_path / "a" / "b" / "store"

    with caplog.at_level(logging.WARNING):
        plugin = _dispatched(root, log)

    assert len(_listed(plugin)["T", 0]) == 3
    assert list(_listed(plugin)) == [("T", 0)]
    counts = plugin.reput_report()["refused_topics"]
    assert sorted(counts.values()) == [3] * len(bad)
    warnings = [record for record in caplog.records if "not listed" in record.message]
    assert len(warnings) == len(bad)
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {f"a/b/store/consumequeue/T/0/{0:020d}"}


def test_negative_queue_ids_of_foreign_records_are_counted_and_not_listed(tmp_path):
    log = SmallLog.of([reput.Message("T", b"%d" % n, n % 2) for n in range(6)])
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=4))
    with Driver(plugin, "consumequeue", os.fspath(tmp_path), log) as driver:
        (batch,) = log.batches()
        queue_id = batch.queue_id.copy()
        queue_id[[1, 3]] = -1, -(1 << 31)
        driver.dispatch(batch.with_columns({"queue_id": queue_id}))

        listed = _listed(plugin)
        assert {queue: len(units) for queue, units in listed.items()} == {("T", 0): 3, ("T", 1): 1}
        assert plugin.reput_report()["refused_topics"] == {"T": 2}


# ------------------------------------------------------------------ failing writes


class _QueuesFull(QuickDisk):
    """No room for units: writes and new files under ``consumequeue`` fail while ``full``."""

    def __init__(self, kept):
        self.full = False
        self.kept = kept  # bytes of a failing write that are written all the same

    def write(self, descriptor, data, position):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if self.full and "/consumequeue/" in path:
            os.pwrite(descriptor, memoryview(data)[: self.kept], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().write(descriptor, data, position)


@pytest.mark.shows("full-disk")
@pytest.mark.sizes(dispatch={"retry_max_pause_ms": 1})
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs to know a descriptor's path")
@pytest.mark.parametrize("kept", [0, 10, 11, 12, 13, 19, 20, 25])
def test_on_a_full_disk_puts_go_on_and_the_queues_follow_when_there_is_space_again(tmp_path, kept):
    disk = _QueuesFull(kept)
    store = reput.open(tmp_path, plugins=["consumequeue"], config=SMALL, disk=disk)
    messages = [reput.Message("T", b"%d" % n, n % 3, tags="TagA") for n in range(60)]
    store.put_many(messages[:30])
    assert store.wait_dispatched(10)
    store.flush()

    disk.full = True
    receipts = store.put_many(messages[30:45])
    assert not store.wait_dispatched(0.05)
    receipts = [*receipts, *store.put_many(messages[45:])]
    assert not store.wait_dispatched(0.05)

    (state,) = store.plugins()
    assert state.state == "retrying"
    assert "No space left" in state.last_error
    assert [receipt.queue_offset for receipt in receipts] == [n // 3 for n in range(30, 60)]
    assert store.get(receipts[-1].physical_offset).body == b"59"
    if kept % 2:  # space comes back, or it does not while the store is open
        disk.full = False
        assert store.wait_dispatched(10)
        assert [state.state for state in store.plugins()] == ["running"]
        assert _read_all(store) == _expected(60)
    store.close()

    with reput.open(tmp_path, plugins=["consumequeue"], disk=QuickDisk()) as store:
        assert store.clean is True
        assert store.put(reput.Message("T", b"60", 0)).queue_offset == 20
        assert store.wait_dispatched(10)
        assert _read_all(store) == _expected(61)
        units = np.concatenate(
            [queue.files.read(at, 4) for queue in _queues(store) for at in queue.files.bases[:-1]]
        )
        assert len(set(units["tags_code"].tolist())) == 1


def _read_all(store):
    return [bodies_in(store, "T", queue_id) for queue_id in range(3)]


def _expected(count):
    # Number 60 went to queue 0, like number 0.
    return [[b"%d" % n for n in range(queue_id, count, 3)] for queue_id in range(3)]


def _queues(store):
    return store.plugin_objects["consumequeue"].queues.values()


# ------------------------------------------------------------------ flushing


def test_units_and_their_names_are_on_disk_before_progress_says_so(tmp_path):
    disk = FaultyDisk(operations={"create", "write", "flush", "flush_directory"})
    with reput.open(tmp_path, plugins=["consumequeue"], config=SMALL, disk=disk) as store:
        disk.calls.clear()
        store.put_many([reput.Message("T", b"%d" % n, n % 2) for n in range(20)])
        store.wait_dispatched(10)
        store.flush()
        calls = list(disk.calls)

    progress = f"{tmp_path}/reput/state"
    saved = calls.index(("write", progress))
    assert calls.index(("flush", progress)) > saved
    written = {path for operation, path in calls[:saved] if operation == "write"}
    units = {path for path in written if "/consumequeue/T/" in path}
    assert len(units) == 6
    for path in units:
        last_write = max(n for n, call in enumerate(calls) if call == ("write", path))
        assert ("flush", path) in calls[last_write:saved]
        directory = os.path.dirname(path)
        made = calls.index(("create", path))
        assert ("flush_directory", directory) in calls[made:saved]
    for directory in ("consumequeue/T", "consumequeue", ""):
        assert ("flush_directory", os.path.join(tmp_path, directory).rstrip("/")) in calls[:saved]
    log_flushes = [
        n
        for n, (operation, path) in enumerate(calls)
        if operation == "flush" and "commitlog" in path
    ]
    first_unit_flush = min(calls.index(("flush", path)) for path in units)
    assert min(log_flushes) < first_unit_flush


def test_a_flush_that_failed_is_not_tried_again_and_opening_again_mends(tmp_path):
    """Linux drops pages that it could not write: a second flush would say yes to their loss."""
    log = SmallLog.of([reput.Message("T", b"%d" % n) for n in range(6)])
    operations = {"flush", "flush_directory"}
    counting = FaultyDisk(operations=operations)
    with Driver(_plugin(), "consumequeue", f"{tmp_path}/count", log, disk=counting) as driver:
        driver.catch_up().flush()
    assert len(counting.calls) >= 3

    for number in range(1, len(counting.calls) + 1):
        root = f"{tmp_path}/{number}"
        disk = FaultyDisk(number, operations=operations)
        driver = Driver(_plugin(), "consumequeue", root, log, disk=disk)
        driver.open()
        driver.catch_up()
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                driver.flush()
        driver.close()

        plugin = _plugin()
        with Driver(plugin, "consumequeue", root, log, progress=0, clean=False) as again:
            again.catch_up()
            assert _listed(plugin) == {("T", 0): log.starts}


def _plugin():
    return ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=4))
