"""What a run keeps and drops, when runs come, and what readers see meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
import threading

import pytest
from compactedstores import open_store as open_sized

import reput
import reput_compaction.plugin
from reput.errors import MessageIllegalError, ReadOnlyStoreError
from reput.files import FilePool
from reput.status import ReadStatus
from reput_compaction.run.compaction import Compaction
from reput_compaction.run.tombstones import Tombstones
from reput_testing import FaultyDisk, ManualClock, QuickDisk

HOUR = 3_600_000
pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200})


def open_store(root, clock=None, disk=None, plugins=("compaction",), mode="w", **options):
    config = {
        "commitlog": {"file_size": 1 << 16},
        "compaction": {"topics": ["t"], **options},
    }
    return reput.open(
        root,
        mode,
        plugins=list(plugins),
        config=config,
        threads=False,
        clock=clock or ManualClock(),
        disk=disk or QuickDisk(),
    )


def compacted(root, sizes):
    """A store with two queues, compacted; each has three pairs of files or more."""
    store = open_sized(root, sizes=sizes)
    for queue_id in (0, 1):
        put(store, *[(f"k{n}", b"%d" % n * 20) for n in range(20)], queue_id=queue_id)
    store.plugin("compaction").compact()
    return store


def put(store, *pairs, queue_id=0):
    for key, body in pairs:
        store.put(reput.Message("t", body, queue_id, keys=key))
    store.wait_dispatched()
    store.flush()


def read(store, at=0, queue_id=0, count=3):
    found = []
    while result := store.read("t", queue_id, at, count):
        found += [(view.queue_offset, view.properties["KEYS"], view.body) for view in result]
        at = result.next_queue_offset
    assert result.holes == ()
    return found


def work_until(store, clock, end):
    while (due := store.work()) is not None and due <= end:
        clock.now = max(clock(), due)
    clock.now = end


EXAMPLE = [("a", b"x"), ("b", b"x"), ("a", b"y"), ("b", b"")]


def test_the_latest_message_of_every_key_stays(tmp_path):
    with open_store(tmp_path) as store:
        put(store, *[(f"k{n % 5}", b"%d" % n) for n in range(23)])

        (result,) = store.plugin("compaction").compact()

        assert read(store) == [(n, f"k{n % 5}", b"%d" % n) for n in range(18, 23)]
        assert (result.messages_before, result.messages_after) == (23, 5)
        assert result.size_after < result.size_before
        assert result.files_after == 2 < result.files_before


def test_keys_are_whole_texts(tmp_path):
    with open_store(tmp_path) as store:
        put(store, ("a b", b"1"), ("b a", b"2"), ("a", b"3"), ("a b", b"4"))

        store.plugin("compaction").compact()

        assert read(store) == [(1, "b a", b"2"), (2, "a", b"3"), (3, "a b", b"4")]


def test_the_worked_example_of_the_format_is_kept_without_retention(tmp_path):
    with open_store(tmp_path, tombstone_retention_ms=0) as store:
        put(store, *EXAMPLE, ("c", b"only in the last file" * 20), ("c", b"x" * 300), ("c", b"x"))
        pairs = store.plugin_objects["compaction"].queues["t", 0].pairs
        assert [pair.count for pair in pairs] == [3, 3, 1]

        store.plugin("compaction").compact()

        kept = read(store)
        assert [each for each in kept if each[1] in "ab"] == [(2, "a", b"y")]
        assert [offset for offset, *_ in kept] == [2, 6]


def test_tombstones_stay_until_everybody_has_had_time_to_see_them(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, tombstone_retention_ms=HOUR) as store:
        put(store, *EXAMPLE, ("c", b"z"))
        store.plugin("compaction").compact()
        assert read(store) == [(2, "a", b"y"), (3, "b", b""), (4, "c", b"z")]

        clock.advance(HOUR - 1)
        assert store.plugin("compaction").compact() == []
        clock.advance(2)
        (result,) = store.plugin("compaction").compact()

        assert (result.messages_before, result.messages_after) == (3, 2)
        assert read(store) == [(2, "a", b"y"), (4, "c", b"z")]
        assert store.plugin("compaction").compact() == []


def test_a_tombstone_that_is_the_newest_message_is_no_reason_for_another_run(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, tombstone_retention_ms=HOUR) as store:
        put(store, ("a", b"x"), ("b", b""))
        assert len(store.plugin("compaction").compact()) == 1
        clock.advance(HOUR)
        assert (
            len(store.plugin("compaction").compact()) == 1
        )  # its time has come, but it is the newest

        assert store.plugin("compaction").compact() == []
        put(store, ("c", b"z"))
        store.plugin("compaction").compact()

        assert read(store) == [(0, "a", b"x"), (2, "c", b"z")]


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("is_older", [True, False])
def test_compacted_messages_of_another_log_give_way_to_those_of_this_one(tmp_path, is_older, more):
    root, clock = tmp_path / "store", ManualClock()
    with_files_of_another_log(root, clock, is_older=is_older)

    with open_store(root, clock) as store:
        put(store, *[("a", b"6")] * more)
        latest = {key: body for _, key, body in read(store)}

    assert latest == {"a": b"6" if more else b"3", "b": b"2"}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("log", ["older", "another", "empty", "damaged"])
def test_messages_without_notes_that_the_log_does_not_have_are_refused_and_stay(
    tmp_path, log, is_clean
):
    root, clock = tmp_path / "store", ManualClock()
    with_files_of_another_log(root, clock, is_older=log == "older")
    shutil.rmtree(root / "reput/compaction")  # as a broker leaves them
    if log == "empty":
        for part in ("commitlog", "reput"):
            shutil.rmtree(root / part)
        (root / "commitlog").mkdir()
    if log == "damaged":
        (root / "compaction/compactionLog/t/0/00000000000000000000").unlink()
        shutil.rmtree(root / "commitlog")
        (root / "commitlog").mkdir()
    if not is_clean:
        (root / "abort").touch()
    kept = files_below(root / "compaction")

    with open_store(root, clock) as store:
        (state,) = store.plugins()

    assert "ut the " in str(state.last_error)
    assert files_below(root / "compaction") == kept
    if log != "damaged":
        with open_store(root, clock, mode="r") as store:
            first = 3 if log == "older" else 0
            assert read(store) == [(first, "b", b"4"), (first + 1, "a", b"5")]


def with_files_of_another_log(root, clock, *, is_older):
    other = root.with_name("other")
    with open_store(root, clock) as store:
        put(store, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    if is_older:
        shutil.copytree(root, other)
    with open_store(other, ManualClock(clock() + HOUR)) as store:
        put(store, ("b", b"4"), ("a", b"5"))
        store.plugin("compaction").compact()
    for part in ("compaction", "reput/compaction"):
        shutil.rmtree(root / part)
        shutil.copytree(other / part, root / part)


def files_below(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("damaged", ["last", "middle"])
def test_compacted_messages_that_the_log_has_lost_to_damage_stay(tmp_path, damaged):
    root, clock = tmp_path / "store", ManualClock()
    with open_store(root, clock) as store:
        put(store, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"))
        store.put(reput.Message("other", b"behind them"))
        store.wait_dispatched()
        store.flush()
        store.plugin("compaction").compact()
        whole = read(store)
        (batch,) = store.scan()
    shutil.rmtree(root / "reput/compaction")  # as a broker leaves them
    row = 3 if damaged == "last" else 2
    with (root / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(int(batch.physical_offset[row]))
        log.write(bytes(int(batch.size[row])))

    for _ in range(2):
        with open_store(root, clock) as store:
            store.wait_dispatched()
            assert read(store) == whole == [(1, "b", b"2"), (2, "a", b"3"), (3, "c", b"4")]
        shutil.rmtree(root / "reput/compaction")


def test_the_newest_message_stays_even_as_a_tombstone(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, tombstone_retention_ms=0) as store:
        put(store, *EXAMPLE)
        clock.advance(1)
        store.plugin("compaction").compact()

        assert read(store) == [(2, "a", b"y"), (3, "b", b"")]
        assert store.read("t", 0, 4).status is ReadStatus.OFFSET_OVERFLOW_ONE
        put(store, ("c", b"1"))
        store.plugin("compaction").compact()
        assert read(store) == [(2, "a", b"y"), (4, "c", b"1")]


def test_an_idle_queue_is_compacted_when_its_messages_are_old_enough(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, roll_ms=HOUR, interval_ms=60_000) as store:
        put(store, ("a", b"1"), ("a", b"2"))
        work_until(store, clock, clock() + HOUR - 120_000)
        assert len(read(store)) == 2

        work_until(store, clock, clock() + 240_000)

        assert read(store) == [(1, "a", b"2")]
        put(store, ("a", b"3"))
        assert read(store) == [(1, "a", b"2"), (2, "a", b"3")]


def test_without_rolling_an_idle_queue_is_never_compacted(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, roll_ms=0) as store:
        put(store, ("a", b"1"), ("a", b"2"))

        work_until(store, clock, clock() + 200 * HOUR)

        assert len(read(store)) == 2


def test_full_files_are_compacted_by_the_clock_and_nothing_is_when_there_is_nothing_new(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, interval_ms=60_000, roll_ms=0) as store:
        put(store, *[("k", b"%d" % n) for n in range(20)])
        work_until(store, clock, clock() + 61_000)
        plugin = store.plugin_objects["compaction"]
        assert plugin.worker.run_count == 1
        assert read(store)[-1] == (19, "k", b"19")
        assert len(read(store)) < 5

        work_until(store, clock, clock() + HOUR)

        assert plugin.worker.run_count == 1


def test_a_clock_that_goes_back_delays_nothing_for_long(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock, interval_ms=60_000, roll_ms=0) as store:
        put(store, *[("k", b"%d" % n) for n in range(20)])
        store.work()
        clock.now -= 1_000 * HOUR

        work_until(store, clock, clock() + 61_000)

        assert store.plugin_objects["compaction"].worker.run_count == 1


def test_what_the_log_has_not_on_disk_is_not_compacted(tmp_path):
    with open_store(tmp_path) as store:
        for number in range(20):
            store.put(reput.Message("t", b"%d" % number, keys="k"))
        store.wait_dispatched()
        plugin = store.plugin_objects["compaction"]
        assert store.log.flushed_offset == 0

        assert plugin.worker._ready(plugin.queues["t", 0]) == ()

        store.flush()
        assert len(plugin.worker._ready(plugin.queues["t", 0])) > 3


def test_a_read_that_has_begun_goes_on_with_the_files_it_has_opened(tmp_path):
    with open_store(tmp_path) as store:
        put(store, *[("k", b"%d" % n) for n in range(9)])
        plugin = store.plugin_objects["compaction"]
        pair = plugin.queues["t", 0].pairs[0]
        pool: FilePool = plugin.files.pool
        before = pool.read(pair.log, 1288, 0)

        with pool.descriptor(pair.log) as descriptor:
            store.plugin("compaction").compact()
            assert os.pread(descriptor, 1288, 0) == before

        assert read(store) == [(8, "k", b"8")]


def test_a_file_of_a_run_that_cannot_be_flushed_is_made_again_and_stops_nothing_else(tmp_path):
    disk = FaultyDisk()
    with open_store(tmp_path, disk=disk) as store:
        put(store, *[("k", b"%d" % n) for n in range(14)])
        disk.plan(1, error=errno.EIO, operations={"flush"}, below="compacting")

        with pytest.raises(OSError, match="call 1"):
            store.plugin("compaction").compact()
        disk.mend()
        put(store, ("k", b"behind"))  # flushes
        store.plugin("compaction").compact()

        assert read(store) == [(14, "k", b"behind")]


@pytest.mark.costly
def test_reads_during_runs_see_every_key(tmp_path):
    with open_store(tmp_path) as store:
        put(store, *[(f"k{n % 7}", b"%d" % n) for n in range(70)])
        done, errors = threading.Event(), []

        def look():
            while not done.is_set():
                found = {key for _, key, _ in read(store, count=2)}
                if len(found) != 7:
                    errors.append(found)

        readers = [threading.Thread(target=look) for _ in range(3)]
        for thread in readers:
            thread.start()
        for number in range(12):
            put(store, *[(f"k{n % 7}", b"%d %d" % (number, n)) for n in range(10)])
            store.plugin("compaction").compact()
        done.set()
        for thread in readers:
            thread.join()

    assert errors == []


def test_a_reader_in_another_store_object_follows_compactions(tmp_path):
    with open_store(tmp_path) as store:
        put(store, *[(f"k{n % 3}", b"%d" % n) for n in range(20)])
        with reput.open(tmp_path, "r") as reader:
            assert len(read(reader)) == 20

            store.plugin("compaction").compact()

            assert read(reader) == read(store)
            with pytest.raises(ReadOnlyStoreError):
                reader.plugin("compaction").compact()


def test_a_reader_looks_for_the_sizes_of_files_again_only_if_they_have_changed(
    tmp_path, monkeypatch
):
    looks = []
    find_sizes = reput_compaction.plugin.find_sizes
    monkeypatch.setattr(
        reput_compaction.plugin, "find_sizes", lambda *args: looks.append(1) or find_sizes(*args)
    )
    with compacted(tmp_path / "store", (1200, 200)), compacted(tmp_path / "other", (2400, 400)):
        pass
    looks.clear()
    options = {"plugins": ["compaction"], "config": {"compaction": {"topics": ["t"]}}}
    with reput.open(tmp_path / "store", "r", **options) as reader:
        before = [read(reader), read(reader, queue_id=1), reader.queues()]
        assert len(looks) == 2  # one at the opening

        for name in ("compaction", "reput/compaction"):
            shutil.rmtree(tmp_path / "store" / name)
            shutil.move(tmp_path / "other" / name, tmp_path / "store" / name)

        assert [read(reader), read(reader, queue_id=1), reader.queues()] == before
        assert len(looks) == 3


def test_queues_say_what_reads_find(tmp_path):
    with open_store(tmp_path) as store:
        put(store, ("a", b"1"), ("a", b"2"), ("b", b"3"))
        put(store, ("a", b"1"), queue_id=2)
        store.plugin("compaction").compact()

        found = [(i.queue_id, i.min_queue_offset, i.max_queue_offset) for i in store.queues()]

        assert found == [(0, 1, 3), (2, 0, 1)]
        result = store.read("t", 0, 99)
        assert (result.status, result.next_queue_offset) == (ReadStatus.OFFSET_OVERFLOW_BADLY, 3)
        assert store.read("t", 7, 0).status is ReadStatus.NO_MATCHED_LOGIC_QUEUE


@pytest.mark.parametrize(
    "message",
    [
        reput.Message("t", b"x"),
        reput.Message("t", b"x", keys="  "),
        reput.Message("t", b"x", keys=[]),
        reput.Message("t", b"x", properties={"a": "b"}),
        reput.Message("t", b"x", properties=b"KEYS\x01\t\x02"),
    ],
)
def test_messages_without_a_key_are_refused(tmp_path, message):
    with open_store(tmp_path) as store:
        with pytest.raises(MessageIllegalError, match="compacted by key"):
            store.put(message)
        store.put(reput.Message("other", b"x"))
        store.put(reput.Message("t", b"x", properties=b"KEYS\x01k\x02"))
        store.put(reput.Message("t", b"x", properties={"KEYS": "k"}))


def test_a_topic_that_is_not_compacted_is_an_error_that_names_those_that_are(tmp_path):
    with open_store(tmp_path) as store:
        with pytest.raises(ValueError, match="'other' is not compacted; compacted topics: t"):
            store.plugin("compaction").compact("other")


def test_a_topic_that_is_named_later_gets_what_was_stored_before(tmp_path):
    with open_store(tmp_path) as store:
        put(store, ("a", b"1"))
        store.put(reput.Message("late", b"2", keys="k"))
        store.wait_dispatched()

    with open_store(tmp_path, topics=["t", "late"]) as store:
        store.wait_dispatched()

        assert [view.body for view in store.read("late", 0, 0)] == [b"2"]
        assert read(store) == [(0, "a", b"1")]


@pytest.mark.shows("compaction")
@pytest.mark.costly
def test_every_operation_of_a_run_may_fail_once(tmp_path):
    """The run is tried again, from the beginning or from where names were changing."""
    number, failed = 0, True
    while failed:
        number += 1
        disk = FaultyDisk(error=errno.EIO, operations=("create", "write", "rename", "remove"))
        with open_store(tmp_path / str(number), disk=disk) as store:
            put(store, *[(f"k{n % 4}", b"%d" % n) for n in range(14)])
            disk.fail_at = len(disk.calls) + number
            try:
                store.plugin("compaction").compact()
                failed = False
            except OSError:
                failed = True
            assert {key: body for _, key, body in read(store)} == LATEST
            put(store, ("k9", b"behind"))
            disk.mend()
            store.plugin("compaction").compact()
            store.plugin("compaction").compact()
            assert read(store)[:4] == [(n, f"k{n % 4}", b"%d" % n) for n in range(10, 14)]
            assert {key: body for _, key, body in read(store)} == {**LATEST, "k9": b"behind"}
        with open_store(tmp_path / str(number)) as store:
            assert {key: body for _, key, body in read(store)} == {**LATEST, "k9": b"behind"}
    assert number > 20


LATEST = {f"k{n % 4}": b"%d" % n for n in range(14)}


def test_when_tombstones_may_go_survives_a_crash_in_the_exchange(tmp_path):
    clock = ManualClock()
    root = tmp_path / "store"
    options = {"tombstone_retention_ms": HOUR, "interval_ms": 60_000}
    store = open_store(root, clock, **options)
    put(store, *EXAMPLE, ("c", b"z"))
    copied = tmp_path / "crashed"

    def crash(disk, places):
        shutil.copytree(root, copied)
        raise OSError("the machine stops")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tombstones, "save", lambda self, disk, places: crash(disk, places))
        with pytest.raises(OSError, match="the machine stops"):
            store.plugin("compaction").compact()
    store.close()
    assert len(list(copied.rglob("replacing"))) == 1

    with open_store(copied, clock, **options) as store:
        assert len(read(store)) == 3
        work_until(store, clock, clock() + 2 * HOUR)

        assert read(store) == [(2, "a", b"y"), (4, "c", b"z")]


def test_threads_compact_by_themselves_and_are_left_in_good_order(tmp_path):
    """With threads: a run begins as soon as it is due, and closing does not wait for its end."""
    clock = ManualClock()
    done = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        finish = Compaction.finish

        def finished(self):
            finish(self)
            done.set()

        patch.setattr(Compaction, "finish", finished)
        config = {
            "commitlog": {"file_size": 1 << 16},
            "compaction": {"topics": ["t"], "interval_ms": 1_000, "roll_ms": 0},
        }
        with reput.open(
            tmp_path, plugins=["compaction"], config=config, clock=clock, disk=QuickDisk()
        ) as store:
            for number in range(20):
                store.put(reput.Message("t", b"%d" % number, keys="k"))
            assert store.wait_dispatched(60)
            store.flush()
            for _ in range(60):
                clock.advance(1_000)
                store.work()
                if done.wait(1):
                    break
            assert done.is_set()
            assert read(store)[-1] == (19, "k", b"19")
            assert len(read(store)) < 5
