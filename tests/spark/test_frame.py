"""A DataFrame is put into a store, without Spark: its order, its names, and what cuts it short."""

from __future__ import annotations

import logging
import os

import attrs
import pyarrow as pa
import pytest
from putframes import (
    CONFIG,
    NOW,
    bodies_in,
    bodies_of,
    directory_in,
    made,
    options_of,
    put,
    rows_of,
    staged,
)

import reput
from reput.errors import PluginFlushError
from reput.files import Disk
from reput_arrow import columns_of
from reput_arrow.logwriter.publication.journal import load_writes
from reput_arrow.logwriter.stagingdirectories import STALE_MS, sweep
from reput_spark import SparkReputError
from reput_spark.writer import putter as putting
from reput_testing import PowerCuts
from reput_testing.disks.simulateddisk import SimulatedDisk

OLD = rows_of(9, 5)
PARTITIONS = [[rows_of(0, 20), rows_of(0, 3)], [], [rows_of(2, 9)]]
ROWS = [each for batches in PARTITIONS for each in batches]
BODIES, OLD_BODIES = bodies_in(*ROWS), bodies_in(OLD)


def left_in(root):
    """What writes have left in a store's directory."""
    found = os.path.join(root, "reput", "spark")
    return sorted(os.listdir(found)) if os.path.isdir(found) else []


# --------------------------------------------------------------------------- what is there


def test_rows_stand_in_the_order_of_partitions_and_byte_for_byte_as_if_put(tmp_path):
    root = made(tmp_path / "written", rows=OLD)
    done = put(root, PARTITIONS)

    with reput.open(tmp_path / "put", plugins=(), config=CONFIG) as store:
        for body in OLD_BODIES:
            store.put(reput.Message("T0", body))
        for each in ROWS:
            store.put_many(attrs.evolve(columns_of(each), born_timestamp=NOW))
        end = store.log.max_physical_offset

    assert (done.record_count, done.end_offset, done.was_there) == (32, end, False)
    assert bodies_of(root) == OLD_BODIES + BODIES
    ours, theirs = timeless(root), timeless(tmp_path / "put")
    assert ours == theirs
    assert left_in(root) == ["writes.json"]


def timeless(root):
    """Records without their store times, and of the old ones without the time of their birth."""
    with reput.open(root, "r", plugins=()) as store:
        found = [m for batch in store.scan() for m in map(batch.message, range(len(batch)))]
    return [
        (m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.body, dict(m.properties))
        for m in found
    ]


def test_a_store_is_made_with_files_of_the_size_that_was_asked_for(tmp_path):
    done = put(tmp_path / "store", PARTITIONS, file_size=4_096, overwrite=True)

    assert bodies_of(tmp_path / "store") == BODIES
    assert done.file_count == len(os.listdir(tmp_path / "store" / "commitlog"))
    assert done.start_offset == 0


def test_queues_are_complete_when_a_write_ends(tmp_path):
    pytest.importorskip("reput_consumequeue")
    root = made(tmp_path / "store", plugins={"consumequeue"})
    put(root, PARTITIONS)

    with reput.open(root, "r") as store:
        found = {(each.topic, each.queue_id): each.max_queue_offset for each in store.queues()}

    assert sum(found.values()) == len(BODIES)


def test_what_plugins_act_on_they_act_on(tmp_path):
    pytest.importorskip("reput_schedule")
    root = made(tmp_path / "store", plugins={"schedule", "consumequeue"})
    delays = pa.array([[("DELAY", "3")]], pa.map_(pa.string(), pa.string()))

    put(root, [[rows_of(0, 1, properties=delays)]])

    with reput.open(root, "r", plugins=()) as store:
        (topics,) = [batch.topics for batch in store.scan()]
    assert list(topics) == ["SCHEDULE_TOPIC_XXXX"]


def test_a_named_write_counts_once(tmp_path):
    root = made(tmp_path / "store")

    first = put(root, PARTITIONS, write_id="day-1")
    again = put(root, PARTITIONS, write_id="day-1")

    assert (first.was_there, again.was_there) == (False, True)
    assert again.record_count == first.record_count == len(BODIES)
    assert again.start_offset == first.start_offset
    assert bodies_of(root) == BODIES
    assert left_in(root) == ["writes.json"]


def test_of_two_writes_of_one_name_at_once_one_counts(tmp_path):
    root = made(tmp_path / "store")
    one = staged(root, PARTITIONS, write_id="day-1")
    two = staged(root, PARTITIONS, write_id="day-1")

    assert not one.commit().was_there
    assert two.commit().was_there

    assert bodies_of(root) == BODIES
    assert left_in(root) == ["writes.json"]


def test_no_rows_leave_a_store_as_it_is(tmp_path):
    root = made(tmp_path / "store", rows=OLD)

    assert put(root, [[], []]).record_count == 0

    assert bodies_of(root) == OLD_BODIES


def test_a_store_that_somebody_makes_while_tasks_write_is_not_overwritten(tmp_path):
    root = tmp_path / "store"
    writing = staged(root, PARTITIONS, overwrite=True, file_size=4_096)
    made(root, rows=OLD)

    with pytest.raises(SparkReputError, match="never overwritten"):
        writing.commit()
    writing.sink.abort()

    assert bodies_of(root) == OLD_BODIES
    assert left_in(root) == []


# --------------------------------------------------------------------------- what is refused


def test_a_task_without_its_staging_directory_says_so(tmp_path):
    root = made(tmp_path / "store")
    writing = staged(root, [[]])
    writing.sink.abort()

    with pytest.raises(SparkReputError, match=r"\[REPUT_JOB\].*the same path"):
        stage_again(writing.plan)


def stage_again(plan):
    from reput_spark.writer.segments import stage_segment

    return stage_segment([rows_of(0, 3)], plan, 0, 0, Disk())


def test_copies_have_no_stamps(tmp_path):
    with pytest.raises(SparkReputError, match=r"\[REPUT_OPTION\] option 'stamp'.*keep and raw"):
        options_of(tmp_path, stamp="true", raw="true")


def test_a_store_that_stays_open_is_an_error_and_nothing_is_left(tmp_path):
    root = made(tmp_path / "store", rows=OLD)
    writing = staged(root, PARTITIONS, lock_timeout=0)
    with reput.open(root, plugins=()):
        with pytest.raises(SparkReputError, match=r"\[REPUT_LOCKED\].*lock_timeout"):
            writing.commit()
        writing.sink.abort()

    assert bodies_of(root) == OLD_BODIES
    assert left_in(root) == []


# --------------------------------------------------------------------------- copies


@pytest.mark.parametrize("kept", [{"keep": "store_timestamp,store_host"}, {"raw": "true"}])
def test_a_copy_is_written_as_whole_files_behind_what_is_there(tmp_path, kept):
    root = made(tmp_path / "store", rows=OLD)
    hosts = {"store_host": ["1.2.3.4:5"] * 9, "store_timestamp": [NOW + 7] * 9}

    done = put(root, [[], [rows_of(0, 9, **hosts)]], **kept)

    assert done.record_count == 9
    assert bodies_of(root) == OLD_BODIES + bodies_in(rows_of(0, 9))
    with reput.open(root, "r", plugins=()) as store:
        last = [batch.message(len(batch) - 1) for batch in store.scan()][-1]
    assert (last.store_timestamp == NOW + 7) == ("keep" in kept)
    assert (last.store_host == ("1.2.3.4", 5)) == ("keep" in kept)
    assert left_in(root) == ["writes.json"]


def test_a_copy_is_told_of_what_was_cut_short_before_it(tmp_path):
    root = made(tmp_path / "store", rows=OLD)
    cut_short(root, 7, write_id="first")

    done = put(root, [[rows_of(7, 2)]], raw="true")

    assert done.finished == ("first",)
    assert bodies_of(root) == OLD_BODIES + BODIES + bodies_in(rows_of(7, 2))


# --------------------------------------------------------------------------- cut short


def cut_short(root, row_count, first=0, **options):
    """A write whose driver dies when so many rows are in the log, from ``first`` on."""
    writing = staged(root, PARTITIONS, **options)
    with writing.sink.opening.open() as store:
        sink = writing.sink
        filled = [each for each in writing.segments if each.row_count]
        stamp = f"{sink.name}:0:" if writing.plan.options.stamp else ""
        putter = putting.Putter(store, str(root), sink._notes)
        intent = putter.begin(0, filled, NOW, stamp=stamp, name=sink.name)
        messages = [m for each in ROWS for m in columns_of(each).to_messages()]
        for number, message in list(enumerate(messages))[first : first + row_count]:
            own = f"reput_stamp\1{stamp}{number}\2".encode() if stamp else b""
            own = message.properties + own
            store.put(attrs.evolve(message, born_timestamp=NOW, properties=own))
    return intent


@pytest.mark.parametrize("stamp", ["false", "true"])
@pytest.mark.parametrize("row_count", [0, 1, 23, 32])
def test_a_write_that_was_cut_short_is_finished_or_taken_back(tmp_path, row_count, stamp, caplog):
    root = made(tmp_path / "store", rows=OLD)
    cut_short(root, row_count, write_id="first", stamp=stamp)

    with caplog.at_level(logging.WARNING, "reput_spark"):
        done = put(root, [[rows_of(7, 2)]])

    assert bodies_of(root) == OLD_BODIES + BODIES * (row_count > 0) + bodies_in(rows_of(7, 2))
    said = [each.getMessage() for each in caplog.records]
    assert any(("finishing" if row_count else "took back") in each for each in said)
    assert (done.finished if row_count else done.taken_back) == ("first",)
    assert (done.record_count, left_in(root)) == (2, ["writes.json"])
    assert ("first" in load_writes(root, Disk())) == (row_count > 0)


@pytest.mark.parametrize("stamp", ["false", "true"])
def test_what_others_have_put_meanwhile_is_not_taken_for_rows(tmp_path, stamp):
    root = made(tmp_path / "store")
    cut_short(root, 10, write_id="first", stamp=stamp)
    twin = columns_of(ROWS[0]).to_messages()[15]
    with reput.open(root, plugins=()) as store:
        store.put(attrs.evolve(twin, born_timestamp=NOW + 1))

    again = put(root, PARTITIONS, write_id="first")

    assert again.was_there
    found = bodies_of(root)
    assert found[:11] == [*BODIES[:10], twin.body]
    assert found[11:] == BODIES[10:]


def test_with_stamps_even_what_is_equal_in_everything_is_told_apart(tmp_path):
    root = made(tmp_path / "store")
    cut_short(root, 10, write_id="first", stamp="true")
    twin = columns_of(ROWS[0]).to_messages()[15]
    with reput.open(root, plugins=()) as store:
        store.put(attrs.evolve(twin, born_timestamp=NOW))

    put(root, [], write_id="second")

    assert bodies_of(root) == [*BODIES[:10], twin.body, *BODIES[10:]]


def test_a_write_whose_segments_are_gone_stops_the_next_one(tmp_path):
    root = made(tmp_path / "store")
    intent = cut_short(root, 3, write_id="first")
    gone = os.path.join(root, "reput", "spark", intent.segments[1].key, intent.segments[1].name)
    os.rename(gone, tmp_path / "aside")

    with pytest.raises(SparkReputError, match=r"\[REPUT_DATA_LOSS\] write first .*intent\.json"):
        put(root, [], write_id="second")
    os.rename(tmp_path / "aside", gone)
    put(root, [], write_id="second")

    assert bodies_of(root) == BODIES


def test_a_write_that_waits_to_be_finished_is_not_swept(tmp_path):
    root = made(tmp_path / "store")
    intent = cut_short(root, 3, write_id="first")
    staging = intent.segments[0].key

    assert sweep(root, Disk(), set(), clock=lambda: 1 << 40) == []

    assert staging in left_in(root)
    os.remove(os.path.join(root, "reput", "spark", staging, "intent.json"))
    assert sweep(root, Disk(), set(), clock=lambda: (1 << 40) + STALE_MS) == [staging]


def test_an_abort_behind_the_intent_keeps_what_is_to_follow(tmp_path):
    root = made(tmp_path / "store", rows=OLD)
    writing = staged(root, PARTITIONS, write_id="first")

    def interrupted(size):
        raise KeyboardInterrupt

    writing.sink.told = interrupted
    with pytest.raises(KeyboardInterrupt):
        writing.commit()
    writing.sink.abort()
    assert bodies_of(root) == OLD_BODIES + BODIES[:20]

    put(root, PARTITIONS, write_id="first")

    assert bodies_of(root) == OLD_BODIES + BODIES


@pytest.mark.parametrize("stamp", ["false", "true"])
def test_an_intent_is_not_moved_past_rows_that_were_found(tmp_path, monkeypatch, stamp):
    monkeypatch.setattr(putting, "_STEP_SIZE", 1)
    root = made(tmp_path / "store", rows=OLD)
    cut_short(root, 1, first=25, write_id="first", stamp=stamp)
    put_rows = putting.Putter._put

    def dying(self, batch, intent, first, there):
        if first >= 20:
            raise KeyboardInterrupt
        put_rows(self, batch, intent, first, there)

    monkeypatch.setattr(putting.Putter, "_put", dying)
    with pytest.raises(KeyboardInterrupt):
        put(root, [])
    monkeypatch.setattr(putting.Putter, "_put", put_rows)
    put(root, [])

    assert sorted(bodies_of(root)) == sorted(OLD_BODIES + BODIES)


def test_a_plugin_that_cannot_flush_fails_no_write(tmp_path, monkeypatch, caplog):
    root = made(tmp_path / "store", rows=OLD)

    def failing(store):
        raise PluginFlushError("consumequeue", "its disk is full")

    monkeypatch.setattr(reput.Store, "flush", failing)
    put(root, PARTITIONS)

    assert bodies_of(root) == OLD_BODIES + BODIES
    assert "consumequeue" in caplog.text


def test_an_intent_is_moved_behind_what_is_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(putting, "_STEP_SIZE", 1)
    root = made(tmp_path / "store", rows=OLD)
    writing = staged(root, PARTITIONS)
    moved = []
    writing.sink.told = lambda size: moved.append(writing.sink._notes.intent())

    writing.commit()

    assert [(each.done, each.start) for each in moved] == [
        (done, moved[0].log_end) for done in (0, 20, 23)
    ]
    assert moved[0].log_end < moved[1].log_end < moved[2].log_end


# --------------------------------------------------------------------------- at every step


def life(disk, **options):
    """A write into a store, every step of which is a place to die at."""
    root = made(directory_in(disk), disk, rows=OLD)
    disk.points.clear()
    put(root, PARTITIONS, disk=disk, write_id="first", **options)
    return disk.points


@pytest.mark.shows("spark-rows")
@pytest.mark.proof
@pytest.mark.parametrize(("stamp", "step"), [("false", 1), ("true", 1 << 30)])
def test_wherever_a_write_is_killed_each_row_is_there_once_in_the_end(
    tmp_path, monkeypatch, step, stamp
):
    monkeypatch.setattr(putting, "_STEP_SIZE", step)
    (tmp_path / "disk").mkdir()
    points = life(SimulatedDisk(tmp_path / "disk"), stamp=stamp)
    seen = set()
    for number, point in enumerate(points):
        later = SimulatedDisk.after_kill(point, tmp_path / f"{number}")
        root = directory_in(later)
        seen.add(len(bodies_of(root, later)))

        put(root, PARTITIONS, disk=later, write_id="first", stamp=stamp)

        assert bodies_of(root, later) == OLD_BODIES + BODIES
        assert not [each for each in left_in(root) if each.endswith(".json")][1:]
    assert len(seen) > 3


@pytest.mark.shows("spark-rows")
@pytest.mark.proof
@pytest.mark.parametrize("stamp", ["false", "true"])
def test_wherever_the_power_goes_each_row_is_there_once_in_the_end(tmp_path, monkeypatch, stamp):
    monkeypatch.setattr(putting, "_STEP_SIZE", 1)
    cuts = PowerCuts(tmp_path, most=8, random_count=2, tries=25)
    disk = cuts.disk()
    life(disk, stamp=stamp)

    def check(state, directory):
        root = str(directory / "store")
        put(root, PARTITIONS, write_id="first", stamp=stamp)
        assert sorted(bodies_of(root)) == sorted(OLD_BODIES + BODIES)

    cuts.try_all(disk.points, check)

    cuts.check_tried(at_least=20)
