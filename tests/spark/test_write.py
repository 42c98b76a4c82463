"""Rows become a store: valid, in the stated order, each message as it was given."""

from __future__ import annotations

import shutil

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statefiles import forget_progress
from writtenstores import (
    FILE_SIZE,
    NOW,
    batch,
    bodies_of,
    planned,
    rows_of,
    table_of,
    write,
    written,
)

import reput
from reput.files import Disk
from reput_arrow import check_schema, columns_of, to_arrow
from reput_arrow.addedcolumns import ADDED_COLUMNS
from reput_arrow.logwriter.publication import publish
from reput_arrow.logwriter.publication.commit import commit_write, intent_of, publish_write
from reput_arrow.logwriter.staging import segments
from reput_arrow.logwriter.staging.segments import write_task
from reput_arrow.logwriter.stagingdirectories import path_of
from reput_spark import SparkReputError
from reput_spark.writer.segments import stage_segment
from reput_tools.offline import LocalEngine

CONFIG = {"commitlog": {"file_size": FILE_SIZE}}


def queues_of(root):
    """Bodies of every queue, by its own offsets; queues are derived while it is opened."""
    found = {}
    with reput.open(root) as store:
        store.wait_dispatched()
        for queue in store.queues():
            read = store.read(queue.topic, queue.queue_id, 0, max_count=100_000)
            bodies = [message.body for message in read]
            assert [message.queue_offset for message in read] == list(range(len(bodies)))
            assert queue.max_queue_offset == len(bodies)
            found[queue.topic, queue.queue_id] = bodies
    return found


def expected_queues(batches):
    """What queues must hold, when batches are put in that order."""
    found = {}
    for each in batches:
        for row in each.to_pylist():
            found.setdefault((row["topic"], row["queue_id"]), []).append(row["body"])
    return found


def test_queues_hold_partitions_in_their_order_and_rows_in_theirs(tmp_path):
    partitions = [[rows_of(0, 400), rows_of(0, 70)], [], [rows_of(2, 5)], [rows_of(3, 333)]]

    write(tmp_path / "store", partitions)

    batches = [each for partition in partitions for each in partition]
    assert bodies_of(tmp_path / "store") == [
        body for each in batches for body in each.column("body").to_pylist()
    ]
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > len(partitions)
    assert queues_of(tmp_path / "store") == expected_queues(batches)


def test_the_order_of_messages_is_that_of_partitions_whoever_ends_first(tmp_path):
    plan = planned(tmp_path / "store")
    tasks = written(plan, [[rows_of(number, 20)] for number in range(3)])

    commit_write(plan, reversed(tasks))

    firsts = [body.split(b"-")[0] for body in bodies_of(tmp_path / "store")]
    assert firsts == sorted(firsts)


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=6), st.integers(0, 2))
def test_one_partition_is_byte_for_byte_what_puts_would_have_written(tmp_path_factory, counts, v):
    root = tmp_path_factory.mktemp("same")
    batches = [rows_of(number, count, 1 + v) for number, count in enumerate(counts)]
    with reput.open(root / "put", plugins=(), config=CONFIG, clock=lambda: NOW) as store:
        for each in batches:
            store.put_many(columns_of(each))

    write(root / "written", [batches])

    ours = {file.name: file.read_bytes() for file in (root / "written" / "commitlog").iterdir()}
    theirs = {file.name: file.read_bytes() for file in (root / "put" / "commitlog").iterdir()}
    assert ours == theirs


WORD = st.text(st.characters(codec="utf-8", exclude_characters=" \x01\x02"), min_size=1, max_size=5)
TEXT = st.none() | WORD.filter(lambda word: word.strip() == word)
ROW = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["a", "b", "%RETRY%" + "x" * 130]),
        "queue_id": st.integers(0, 2),
        "body": st.binary(max_size=200),
        "tags": TEXT,
        "uniq_key": TEXT,
        "flag": st.integers(-5, 5),
        "born_host": st.sampled_from(["10.0.0.1:80", "10.0.0.2:81", "[::1]:9"]),
        "born_timestamp": st.integers(0, NOW),
    }
)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=3), st.booleans())
def test_rows_come_back_as_they_were_given(tmp_path_factory, partitions, record_crc):
    root = tmp_path_factory.mktemp("rows") / "store"
    config = {"commitlog": {**CONFIG["commitlog"], "record_crc": record_crc}}
    with reput.open(root, plugins={"consumequeue"}, config=config):
        pass

    # A column of nothing has no type: a batch of one row more says it.
    some = {**partitions[0][0], "tags": "t", "uniq_key": "u"}
    write(root, [[pa.RecordBatch.from_pylist([some, *rows])] for rows in partitions])

    found = table_of(root, [*some, "queue_offset"]).to_pylist()
    following = {}
    for row in found:
        row["born_timestamp"] = int(row["born_timestamp"].timestamp() * 1_000 + 0.5)
        key = row["topic"], row["queue_id"]
        assert row.pop("queue_offset") == following.get(key, 0)
        following[key] = following.get(key, 0) + 1
    assert found == [row for rows in partitions for row in (some, *rows)]


def test_puts_and_writes_take_turns(tmp_path):
    root = tmp_path / "store"
    batches = [rows_of(number, 150) for number in range(4)]
    for number, each in enumerate(batches):
        if number % 2:
            write(root, [[each]])
        else:
            with reput.open(root, config=CONFIG) as store:
                store.put_many(columns_of(each))

    assert queues_of(root) == expected_queues(batches)


@pytest.mark.parametrize("case", ["basic", "transaction", "delay", "v6"])
def test_a_store_of_rocketmqs_is_written_on(case, golden_store):
    root = golden_store(case)
    before = table_of(root)
    with reput.open(root, "r") as store:
        queues = {(each.topic, each.queue_id): each.max_queue_offset for each in store.queues()}
    topic, queue_id = max(queues, key=lambda key: queues[key])
    added = batch(topic=topic, queue_id=pa.array([queue_id] * 9), body=[b"new"] * 9)

    write(root, [[added], [added]], raw=True)

    after = table_of(root)
    assert after.slice(0, before.num_rows) == before
    new = after.slice(before.num_rows)
    first = queues[topic, queue_id]
    assert new.column("queue_offset").to_pylist() == list(range(first, first + 18))
    assert new.column("body").to_pylist() == [b"new"] * 18


@pytest.mark.parametrize("case", ["basic", "batch", "transaction", "delay", "v6"])
def test_what_a_log_gives_a_write_takes_with_hosts_and_times(case, golden_store, tmp_path):
    tables = []
    with reput.open(golden_store(case), "r", plugins=()) as store:
        tables = [to_arrow(each, unit="us") for each in store.scan()]
        size = store.config.file_size

    write(tmp_path / "copy", [tables], keep="store_timestamp,store_host", raw=True, file_size=size)

    ours, theirs = table_of(tmp_path / "copy"), pa.Table.from_batches(tables)
    different = {"physical_offset", "size", "msg_id"}  # Java writes empty tags, which read as none
    for name in set(ours.column_names) - different:
        assert ours.column(name).to_pylist() == theirs.column(name).to_pylist(), name


def test_no_rows_make_an_empty_store(tmp_path):
    write(tmp_path / "store", [[], [rows_of(0, 0)]])

    assert bodies_of(tmp_path / "store") == []
    assert table_of(tmp_path / "store") is None


def test_no_rows_leave_a_store_as_it_is(tmp_path):
    write(tmp_path / "store", [[rows_of(0, 10)]])
    write(tmp_path / "store", [[]])

    assert len(bodies_of(tmp_path / "store")) == 10


def test_what_is_not_said_is_the_stores(tmp_path):
    config = {"commitlog": {**CONFIG["commitlog"], "store_address": "10.1.2.3:99"}}
    with reput.open(tmp_path / "store", plugins=(), config=config):
        pass

    write(tmp_path / "store", [[batch(topic="T", body=[b"x", b"y"])]])

    with reput.open(tmp_path / "store", "r", plugins=()) as store:
        (view, _) = [each.message(row) for each in store.scan() for row in range(2)]
    assert view.store_host == view.born_host == ("10.1.2.3", 99)
    assert view.store_timestamp == view.born_timestamp == NOW
    assert view.queue_id == 0


@pytest.mark.parametrize("record_crc", [False, True])
@pytest.mark.parametrize("other", ["2.2.2.2:2", "[::2]:2"])
def test_store_hosts_that_alternate_are_kept_at_once(tmp_path, monkeypatch, record_crc, other):
    config = {"commitlog": {**CONFIG["commitlog"], "record_crc": record_crc}}
    with reput.open(tmp_path / "store", plugins=(), config=config):
        pass
    hosts = ["1.1.1.1:1", other, None] * 30
    born = [None, "3.3.3.3:3"] * 45
    rows = batch(topic="T", body=[b"%d" % number for number in range(90)], store_host=hosts)
    calls = []
    prepare = segments.prepare_columns
    monkeypatch.setattr(
        segments, "prepare_columns", lambda *given: calls.append(1) or prepare(*given)
    )

    with_born = rows.append_column("born_host", pa.array(born))
    write(tmp_path / "store", [[rows, with_born]], keep="store_host")

    own = "127.0.0.1:10911"
    found = table_of(tmp_path / "store", ["store_host", "born_host"])
    expected = [host or own for host in hosts]
    assert found.column("store_host").to_pylist() == expected * 2
    both = zip(born, expected, strict=True)
    assert found.column("born_host").to_pylist() == expected + [mine or its for mine, its in both]
    assert len(calls) == (0 if ":" in other[:3] else 2)


def test_the_column_of_damage_is_passed_over_and_its_rows_are_refused(tmp_path):
    columns = {"topic": "T", "body": [b"x"], "store": "s", "damage": pa.nulls(1, pa.string())}
    check_schema(batch(**columns).schema, ADDED_COLUMNS)

    write(tmp_path / "store", [[batch(**columns)]])
    with pytest.raises(SparkReputError, match="a value, not null"):
        write(tmp_path / "store", [[batch(**{**columns, "topic": [None], "damage": ["here"]})]])

    assert bodies_of(tmp_path / "store") == [b"x"]


def test_a_write_one_of_whose_tasks_says_nothing_is_not_published(tmp_path):
    pytest.importorskip("pyspark")
    from reput_spark.source.writer import LogWriter, TaskMessage

    plan = planned(tmp_path / "store")
    segment = stage_segment([rows_of(0, 5)], plan, 0, 0, Disk())

    with pytest.raises(SparkReputError, match=r"\[REPUT_JOB\].*None"):
        LogWriter(plan).commit([TaskMessage(segment), None])

    assert not (tmp_path / "store" / "commitlog").exists()


def test_what_a_task_wrote_is_on_disk_before_it_says_so(tmp_path):
    class Noting(Disk):
        """Notes which bytes wait for a flush."""

        def __init__(self):
            self.waiting = set()
            self.flushed = []

        def write(self, descriptor, data, position):
            super().write(descriptor, data, position)
            self.waiting.add(descriptor)

        def flush(self, descriptor):
            super().flush(descriptor)
            self.waiting.discard(descriptor)

        def close(self, descriptor):
            assert descriptor not in self.waiting
            super().close(descriptor)

        def flush_directory(self, path):
            super().flush_directory(path)
            self.flushed.append(path)

    plan, disk = planned(tmp_path / "store"), Noting()
    task = write_task(plan, 0, [rows_of(0, 400)], disk)

    assert len(task.segments) > 1
    assert disk.flushed == [path_of(plan.root, plan.staging)]


def test_hosts_and_births_of_rows(tmp_path):
    rows = batch(
        topic="T",
        body=[b"a", b"b", b"c"],
        born_host=["10.0.0.1:80", None, "[::1]:9"],
        born_timestamp=pa.array([5, None, 7], pa.int64()),
        store_timestamp=pa.array([50, 60, None], pa.timestamp("ms")),
        store_host=["1.2.3.4:5", None, "1.2.3.4:5"],
    )

    write(tmp_path / "plain", [[rows]])
    write(tmp_path / "kept", [[rows.slice(0, 2), rows.slice(2)]], keep="store_timestamp,store_host")

    names = ["born_host", "store_host", "born_timestamp", "store_timestamp"]
    own = "127.0.0.1:10911"
    plain = table_of(tmp_path / "plain", names)
    assert plain.column("born_host").to_pylist() == ["10.0.0.1:80", own, "[::1]:9"]
    assert set(plain.column("store_host").to_pylist()) == {own}
    assert ms(plain, "store_timestamp") == [NOW] * 3
    assert ms(plain, "born_timestamp") == [5, NOW, 7]
    kept = table_of(tmp_path / "kept", names)
    assert kept.column("store_host").to_pylist() == ["1.2.3.4:5", own, "1.2.3.4:5"]
    assert ms(kept, "store_timestamp") == [50, 60, NOW]
    assert ms(kept, "born_timestamp") == [5, 60, 7]


def ms(table, name):
    return table.column(name).cast(pa.int64()).to_pylist()


def test_a_store_with_record_checksums_gets_them(tmp_path):
    config = {"commitlog": {**CONFIG["commitlog"], "record_crc": True}}
    with reput.open(tmp_path / "store", config=config) as store:
        store.put(reput.Message("T0", b"first"))

    write(tmp_path / "store", [[rows_of(0, 300)], [rows_of(1, 30)]])

    forget_progress(tmp_path / "store")  # so that opening reads all there is
    with reput.open(tmp_path / "store", "r", plugins=()) as store:
        assert store.recovery.finding is None
        assert store.recovery.message_count >= 30
        views = [each.message(row) for each in store.scan() for row in range(len(each))]
    assert len(views) == 331
    assert all("__CRC32#" in view.properties for view in views)
    assert [view.queue_offset for view in views if view.topic == "T0"][:3] == [0, 1, 0]


def test_prepared_and_rolled_back_records_take_no_queue_offset(tmp_path):
    rows = batch(
        topic="T", body=[b"a", b"b", b"c", b"d"], sys_flag=pa.array([4, 0, 12, 8], pa.int32())
    )

    write(tmp_path / "store", [[rows], [rows]])

    found = table_of(tmp_path / "store", ["queue_offset"]).column("queue_offset").to_pylist()
    assert found == [0, 0, 0, 1, 0, 2, 0, 3]


def test_several_processes_number_files_the_same(tmp_path):
    partitions = [[rows_of(number, 200)] for number in range(3)]
    write(tmp_path / "one", partitions)
    plan = planned(tmp_path / "two")

    with LocalEngine(2) as engine:
        intent = intent_of(plan, written(plan, partitions))
        done = publish_write(plan.root, intent, engine, plan.options)

    assert (done.record_count, done.start_offset) == (600, 0)
    assert done.file_count == len(list((tmp_path / "two" / "commitlog").iterdir()))
    for file in (tmp_path / "one" / "commitlog").iterdir():
        assert (tmp_path / "two" / "commitlog" / file.name).read_bytes() == file.read_bytes()


def test_dispatch_brings_queues_up_to_date(tmp_path):
    write(tmp_path / "store", [[rows_of(0, 90)]], dispatch=True)

    assert not (tmp_path / "store" / "abort").exists()
    with reput.open(tmp_path / "store", "r") as store:
        assert sum(queue.max_queue_offset for queue in store.queues()) == 90


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "no path was given"),
        ({"file_siz": "1"}, "no option 'file_siz' of a write. 'file_size' was meant?"),
        ({"file_size": "x"}, "'file_size' is 'x'; an integer"),
        ({"file_size": "50"}, "'file_size' is '50'; an integer from"),
        ({"keep": "body"}, "'keep' is 'body'; store_timestamp or store_host"),
        ({"raw": "yes"}, "'raw' is 'yes'; true or false"),
        ({"write_id": "../x"}, "'write_id' is '../x'"),
        ({"lock_timeout": "soon"}, "'lock_timeout' is 'soon'; seconds"),
        ({"jobs": "2"}, "no option 'jobs' of a write"),
        ({"staged": f"write-{'0' * 32}"}, "no option 'staged' of a write"),
        ({"path": "s3://bucket/store"}, "a store is written where files can be mapped"),
    ],
)
def test_an_option_that_cannot_be_is_refused(tmp_path, options, said):
    from reput_arrow.logwriter.writeoptions import WriteOptions
    from reput_arrow.logwriter.writeplan import plan_write

    with pytest.raises(SparkReputError, match="REPUT_OPTION") as caught:
        plan_write(WriteOptions.parse({"path": str(tmp_path / "s"), **options}), overwrite=False)

    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_open_is_refused(tmp_path):
    with (
        reput.open(tmp_path / "store", plugins=(), config=CONFIG),
        pytest.raises(SparkReputError, match=r"\[REPUT_LOCKED\].*close it, then write again"),
    ):
        planned(tmp_path / "store")


def test_a_store_that_was_not_closed_is_brought_to_its_end_first(tmp_path):
    # Without threads, or a file could be renamed while it is copied.
    with reput.open(
        tmp_path / "store", plugins={"consumequeue"}, config=CONFIG, threads=False
    ) as store:
        store.put_many(columns_of(rows_of(0, 40)))
        store.flush()
        shutil.copytree(tmp_path / "store", tmp_path / "killed")

    write(tmp_path / "killed", [[rows_of(1, 40)]])

    batches = [rows_of(0, 40), rows_of(1, 40)]
    assert queues_of(tmp_path / "killed") == expected_queues(batches)


def test_a_store_that_was_opened_meanwhile_is_refused_at_the_end(tmp_path):
    write(tmp_path / "store", [[rows_of(0, 5)]])
    plan = planned(tmp_path / "store")
    tasks = written(plan, [[rows_of(1, 5)]])

    with (
        reput.open(tmp_path / "store", plugins=None),
        pytest.raises(SparkReputError, match="REPUT_LOCKED"),
    ):
        commit_write(plan, tasks)

    assert len(bodies_of(tmp_path / "store")) == 5


def test_a_damaged_store_is_refused(tmp_path):
    write(tmp_path / "store", [[rows_of(0, 50)]])
    forget_progress(tmp_path / "store")
    file = tmp_path / "store" / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[90] ^= 1
    file.write_bytes(data)

    with pytest.raises(SparkReputError, match=r"\[REPUT_DAMAGED\].*open the store once"):
        planned(tmp_path / "store")


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(SparkReputError, match=r"\[REPUT_NO_LOG\]"):
        planned(tmp_path)
    with pytest.raises(SparkReputError, match="never overwritten"):
        planned(tmp_path, overwrite=True)

    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_only_nothing_is_overwritten(tmp_path):
    (tmp_path / "store").mkdir()
    write(tmp_path / "store", [[rows_of(0, 5)]], overwrite=True)

    with pytest.raises(SparkReputError, match="never overwritten"):
        planned(tmp_path / "store", overwrite=True)


def test_a_store_that_is_made_behind_the_last_look_is_not_overwritten(tmp_path, monkeypatch):
    plan = planned(tmp_path / "store", overwrite=True)
    tasks = written(plan, [[rows_of(0, 5)]])
    look = publish.refuse_overwriting

    def looked(root, name, disk):
        look(root, name, disk)
        if not (tmp_path / "store" / "commitlog").exists():
            with reput.open(root, plugins=(), config=CONFIG) as store:
                store.put(reput.Message("T", b"mine"))

    monkeypatch.setattr(publish, "refuse_overwriting", looked)
    with pytest.raises(SparkReputError, match="never overwritten"):
        commit_write(plan, tasks)

    assert bodies_of(tmp_path / "store") == [b"mine"]


def test_a_named_write_of_a_new_store_may_come_again(tmp_path):
    for _ in range(2):
        write(tmp_path / "store", [[rows_of(0, 5)]], overwrite=True, write_id="day-1")
    with pytest.raises(SparkReputError, match="never overwritten"):
        planned(tmp_path / "store", overwrite=True, write_id="day-2")

    assert len(bodies_of(tmp_path / "store")) == 5


def test_files_of_another_size_are_refused(tmp_path):
    write(tmp_path / "store", [[rows_of(0, 5)]])

    with pytest.raises(SparkReputError, match=f"have {FILE_SIZE} bytes"):
        planned(tmp_path / "store", file_size=FILE_SIZE * 2)


def test_a_message_that_is_too_large_is_named(tmp_path):
    plan = planned(tmp_path / "store", file_size=8 << 20)
    rows = batch(topic=["A", "B"], body=[b"x", bytes((4 << 20) + 1)])

    with pytest.raises(SparkReputError, match=r"\[REPUT_ROW\] partition 0, .*row 1.*topic B"):
        written(plan, [[rows]])


def test_a_message_that_fits_into_no_file_is_named(tmp_path):
    plan = planned(tmp_path / "store")
    rows = batch(topic=["A", "B"], body=[b"x", bytes(FILE_SIZE)])

    with pytest.raises(SparkReputError, match=r"row 1 of these, of topic B: a record of \d+ bytes"):
        written(plan, [[rows]])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": ["a", "b c"]}, "topic"),
        ({"topic": ["a", None]}, "row 1: a value, not null"),
        ({"queue_id": pa.array([0, -1])}, "queue_id"),
        ({"tags": ["a", "x" * 40_000]}, "row 1: bytes"),
        ({"sys_flag": pa.array([0x80, 0x80])}, "counts as several messages"),
    ],
)
def test_a_row_that_cannot_be_stored_is_named(tmp_path, columns, said):
    plan = planned(tmp_path / "store")
    rows = batch(**{"topic": ["A", "B"], "body": [b"x", b"y"], **columns})
    if "sys_flag" in columns:
        kind = pa.map_(pa.string(), pa.string())
        rows = rows.append_column(
            "properties", pa.array([[("INNER_NUM", "2")], [("INNER_NUM", "2")]], kind)
        )

    with pytest.raises(SparkReputError, match=rf"\[REPUT_ROW\] partition 0, .*{said}"):
        written(plan, [[rows]])


def test_what_a_plugin_would_act_on_is_taken_only_raw(tmp_path):
    pytest.importorskip("reput_schedule")
    with reput.open(tmp_path / "store", plugins={"schedule", "consumequeue"}, config=CONFIG):
        pass
    kind = pa.map_(pa.string(), pa.string())
    rows = batch(topic="T", body=[b"x"], properties=pa.array([[("DELAY", "3")]], kind))

    with pytest.raises(SparkReputError, match=r"plugin 'schedule' .*raw=true"):
        written(planned(tmp_path / "store", keep="store_host"), [[rows]])
    write(tmp_path / "store", [[rows]], keep="store_host", raw=True)

    assert bodies_of(tmp_path / "store") == [b"x"]


def test_a_task_without_its_staging_directory_says_so(tmp_path):
    plan = attrs.evolve(planned(tmp_path / "store"), root=str(tmp_path / "elsewhere"))

    with pytest.raises(SparkReputError, match=r"\[REPUT_JOB\].*the same path"):
        write_task(plan, 0, [rows_of(0, 5)], Disk())
