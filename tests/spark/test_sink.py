"""A stream into a store, without Spark: segments, commits, replays, aborts, the lock."""

from __future__ import annotations

import itertools
import json
import os
import pickle

import attrs
import pyarrow as pa
import pytest
from sinkrows import QUERY, bodies_of, expected, options_of, rows_of, segments_of, sink_of

import reput
from reput.errors import CorruptFileError
from reput.files import Disk
from reput_arrow import columns_of
from reput_arrow.addedcolumns import check_columns
from reput_spark import SparkReputError
from reput_spark.writer.options import SinkOptions
from reput_spark.writer.rows import messages_of
from reput_spark.writer.segments import (
    Segment,
    TaskFacts,
    directory_of,
    read_segment,
    write_segment,
)
from reput_testing.disks.failingdisk import FaultyDisk


def files_in(root):
    directory = directory_of(str(root), QUERY)
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


# --------------------------------------------------------------------------- options


def test_options_have_defaults_and_take_texts(tmp_path):
    assert SinkOptions.parse({"path": str(tmp_path)}) == SinkOptions(path=str(tmp_path))

    found = SinkOptions.parse(
        {
            "path": f"file://{tmp_path}",
            "checkpointLocation": "/somewhere",
            "queryName": "q",
            "TXN_APP_ID": "nightly-1",
            "lock_timeout": "2.5",
            "plugins": "consumequeue, index",
            "file_size": "65536",
        }
    )

    assert found == SinkOptions(
        path=str(tmp_path),
        txn_app_id="nightly-1",
        lock_timeout=2.5,
        plugins=("consumequeue", "index"),
        file_size=65_536,
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("path", "", "no path"),
        ("path", "s3://bucket/store", "mapped, locked and renamed"),
        ("path", "hdfs:/data/store", "mapped, locked and renamed"),
        ("path", "file:data/store", "mapped, locked and renamed"),
        ("path", "file://elsewhere/store", "mapped, locked and renamed"),
        ("txn_app_id", "../up", "letters"),
        ("txn_app_id", ".hidden", "letters"),
        ("lock_timeout", "soon", "seconds"),
        ("lock_timeout", "-1", "seconds"),
        ("lock_timeout", "nan", "seconds"),
        ("file_size", "12", "integer"),
        ("txn_ap_id", "x", "'txn_app_id' was meant?"),
    ],
)
def test_a_wrong_option_is_refused(name, value, said):
    with pytest.raises(SparkReputError, match=r"^\[REPUT_OPTION\]") as caught:
        SinkOptions.parse({"path": "/store", name: value})

    assert said in str(caught.value)


@pytest.mark.parametrize("spelled", ["file:/a/store", "file://localhost/a/store", "/a/x/../store"])
def test_a_store_has_many_spellings_and_one_path(spelled):
    assert SinkOptions.parse({"path": spelled}).path == "/a/store"


# --------------------------------------------------------------------------- segments


def test_a_segment_gives_back_its_rows(tmp_path):
    batches = [rows_of(0, 0, 5), rows_of(0, 0, 0), rows_of(0, 1, 3)]

    segment = write_segment(batches, options_of(tmp_path), TaskFacts(QUERY, 0, 0, 7), Disk())

    assert pickle.loads(pickle.dumps(segment)) == segment
    assert segment.row_count == 8
    assert segment.name.startswith("00000000000000000000-00000-7-")
    found = [messages_of(each, 7) for each in read_segment(str(tmp_path), segment, Disk())]
    assert [each.to_messages() for each in found] == [
        attrs.evolve(columns_of(each), born_timestamp=7).to_messages()
        for each in batches
        if each.num_rows
    ]


def test_a_task_without_rows_writes_nothing(tmp_path):
    segment = write_segment(
        [rows_of(0, 0, 0)], options_of(tmp_path), TaskFacts(QUERY, 0, 3, 0), Disk()
    )

    assert segment == Segment(QUERY, 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"x" * 5_000_000, "too large|4194304"), (b"x" * 5_000, "files of this size")],
)
def test_a_row_that_the_store_would_refuse_is_refused_by_its_task(tmp_path, body, said):
    rows = pa.RecordBatch.from_pydict({"topic": ["T", "T"], "body": [b"", body]})

    with pytest.raises(SparkReputError, match=said) as caught:
        write_segment([rows], options_of(tmp_path), TaskFacts(QUERY, 0, 4, 0), Disk())

    assert "partition 4" in str(caught.value)
    assert "row 1" in str(caught.value)
    assert files_in(tmp_path) == []


def test_a_row_of_a_rare_kind_is_refused_by_its_task_as_well(tmp_path):
    wrong = pa.array([{"INNER_NUM": "1"}] * 5, pa.map_(pa.string(), pa.string()))
    rows = rows_of(0, 0, 5).append_column("properties", wrong)

    with pytest.raises(SparkReputError, match="INNER_NUM"):
        write_segment([rows], options_of(tmp_path), TaskFacts(QUERY, 0, 0, 0), Disk())

    assert files_in(tmp_path) == []


def test_a_null_topic_is_refused_by_its_task(tmp_path):
    rows = pa.RecordBatch.from_pydict({"topic": ["T", None], "body": [b"", b""]})

    with pytest.raises(SparkReputError, match="topic"):
        write_segment([rows], options_of(tmp_path), TaskFacts(QUERY, 0, 0, 0), Disk())


def test_a_task_that_fails_leaves_nothing(tmp_path):
    def failing():
        yield rows_of(0, 0, 5)
        raise RuntimeError("the query's own fault")

    with pytest.raises(RuntimeError):
        write_segment(failing(), options_of(tmp_path), TaskFacts(QUERY, 0, 0, 0), Disk())

    assert files_in(tmp_path) == []


def test_a_segment_that_was_cut_is_noticed(tmp_path):
    (segment,) = segments_of(tmp_path, 0, (5,))
    path = os.path.join(directory_of(str(tmp_path), QUERY), segment.name)
    os.truncate(path, segment.size - 1)

    with pytest.raises(CorruptFileError, match="were written"):
        list(read_segment(str(tmp_path), segment, Disk()))


@pytest.mark.parametrize("name", ["../../manifest.json", "x.arrow", ""])
def test_a_segment_leads_nowhere_else(tmp_path, name):
    with pytest.raises(SparkReputError, match="not a name of a segment"):
        list(read_segment(str(tmp_path), Segment(QUERY, 0, name, 1, 1), Disk()))


@pytest.mark.parametrize("key", ["..", "a/b", "", "x" * 200])
def test_a_query_leads_nowhere_else(tmp_path, key):
    with pytest.raises(SparkReputError, match="not an id of a query"):
        directory_of(str(tmp_path), key)


# --------------------------------------------------------------------------- commits


def test_a_batch_is_put_by_partition_and_then_by_row(tmp_path):
    segments = segments_of(tmp_path, 0)

    sink_of(tmp_path).commit(segments[::-1], 0)

    assert bodies_of(tmp_path) == expected(0)
    assert files_in(tmp_path) == ["committed.json"]


def test_what_was_put_can_be_read_by_consumers_at_once(tmp_path):
    pytest.importorskip("reput_consumequeue")
    sink_of(tmp_path, plugins="consumequeue").commit(segments_of(tmp_path, 0), 0)

    with reput.open(tmp_path, "r") as store:
        found = {(each.topic, each.queue_id): each.max_queue_offset for each in store.queues()}

    assert found == {("payments", 0): 2, ("payments", 1): 1, ("orders", 0): 3, ("orders", 1): 2}


def test_a_batch_that_comes_again_is_passed_over(tmp_path):
    for batch_id in (0, 1):
        sink_of(tmp_path).commit(segments_of(tmp_path, batch_id), batch_id)

    for batch_id in (1, 0):
        sink_of(tmp_path).commit(segments_of(tmp_path, batch_id, attempt=8), batch_id)

    assert bodies_of(tmp_path) == expected(0, 1)
    assert files_in(tmp_path) == ["committed.json"]


def test_another_query_has_its_own_batches(tmp_path):
    sink_of(tmp_path).commit(segments_of(tmp_path, 0), 0)

    sink_of(tmp_path).commit(segments_of(tmp_path, 0, query="another"), 0)

    assert bodies_of(tmp_path) == expected(0, 0)


def test_an_application_keeps_its_batches_from_checkpoint_to_checkpoint(tmp_path):
    sink = sink_of(tmp_path, txn_app_id="nightly")
    sink.commit(segments_of(tmp_path, 0, query="one", txn_app_id="nightly"), 0)

    sink.commit(segments_of(tmp_path, 0, query="two", txn_app_id="nightly"), 0)

    assert bodies_of(tmp_path) == expected(0)


def test_a_batch_without_rows_opens_no_store(tmp_path):
    sink_of(tmp_path / "store").commit(segments_of(tmp_path / "store", 0, (0, 0)), 0)
    sink_of(tmp_path / "store").commit([], 1)

    assert not (tmp_path / "store").exists()


def test_many_batches_leave_one_file(tmp_path):
    for batch_id in range(6):
        sink_of(tmp_path).commit(segments_of(tmp_path, batch_id, (1,)), batch_id)

    assert files_in(tmp_path) == ["committed.json"]
    text = (tmp_path / "reput/spark" / f"query-{QUERY}" / "committed.json").read_text()
    assert json.loads(text)["batch_id"] == 5


def test_segments_of_attempts_that_do_not_count_are_swept(tmp_path):
    segments_of(tmp_path, 0, attempt=100)  # nobody tells the driver of these
    later = segments_of(tmp_path, 1, attempt=200)

    sink_of(tmp_path).commit(segments_of(tmp_path, 0), 0)

    assert files_in(tmp_path) == sorted(["committed.json", *(each.name for each in later)])


def test_rows_keep_the_birth_that_they_state(tmp_path):
    rows = pa.RecordBatch.from_pydict(
        {"topic": ["T", "T"], "body": [b"1", b"2"], "born_timestamp": [5, None]}
    )
    segment = write_segment([rows], options_of(tmp_path), TaskFacts(QUERY, 0, 0, 0), Disk())

    sink_of(tmp_path, now=lambda: 77).commit([segment], 0)

    with reput.open(tmp_path, "r", plugins=()) as store:
        assert [each.born_timestamp.tolist() for each in store.scan()] == [[5, 77]]


def test_segments_that_are_gone_are_noticed_before_anything_is_put(tmp_path):
    segments = segments_of(tmp_path, 0)
    os.remove(os.path.join(directory_of(str(tmp_path), QUERY), segments[1].name))

    with pytest.raises(SparkReputError, match="is gone"):
        sink_of(tmp_path).commit(segments, 0)

    assert bodies_of(tmp_path) == []
    assert "intent.json" not in files_in(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "[]", "nonsense", "[" * 100_000])
@pytest.mark.parametrize("name", ["committed.json", "intent.json"])
def test_a_damaged_note_is_refused(tmp_path, name, text):
    segments = segments_of(tmp_path, 0)
    path = os.path.join(directory_of(str(tmp_path), QUERY), name)
    with open(path, "w") as file:
        file.write(text)

    with pytest.raises(CorruptFileError, match=name):
        sink_of(tmp_path).commit(segments, 0)

    assert not (tmp_path / "commitlog").exists() or bodies_of(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [({"file_size": "8192"}, "have 4096 bytes"), ({"plugins": "index"}, "does without index")],
)
def test_a_store_that_is_another_than_was_asked_for_is_refused(tmp_path, options, said):
    sink_of(tmp_path).commit(segments_of(tmp_path, 0), 0)

    with pytest.raises(SparkReputError, match=rf"^\[REPUT_OPTION\].*{said}"):
        sink_of(tmp_path, **options).commit(segments_of(tmp_path, 1), 1)

    assert bodies_of(tmp_path) == expected(0)


def test_a_store_may_have_come_to_more_plugins_than_were_asked_for(tmp_path):
    pytest.importorskip("reput_consumequeue")
    sink_of(tmp_path, plugins="consumequeue").commit(segments_of(tmp_path, 0), 0)

    sink_of(tmp_path, plugins="").commit(segments_of(tmp_path, 1), 1)

    assert bodies_of(tmp_path) == expected(0, 1)


def test_what_a_read_gives_is_taken_with_the_columns_that_no_message_has(tmp_path):
    rows = rows_of(0, 0, 5)
    damage = pa.nulls(5, pa.string())
    read = rows.append_column("damage", damage).append_column("store", pa.array(["here"] * 5))
    check_columns(read.schema)
    segment = write_segment([read], options_of(tmp_path), TaskFacts(QUERY, 0, 0, 0), Disk())

    sink_of(tmp_path).commit([segment], 0)

    assert bodies_of(tmp_path) == [each.as_py().decode() for each in rows.column("body")]


def test_a_task_that_says_nothing_is_an_error_and_nothing_is_put(tmp_path):
    pytest.importorskip("pyspark")
    from reput_spark.source.schema import spark_schema
    from reput_spark.source.streamwriter import LogStreamWriter, SegmentMessage

    writer = LogStreamWriter(options_of(tmp_path), spark_schema(["topic", "body"]))
    messages = [SegmentMessage(each) for each in segments_of(tmp_path, 0)]

    with pytest.raises(SparkReputError, match=r"^\[REPUT_JOB\].*of 3 tasks 2"):
        writer.commit([*messages, None], 0)

    assert not (tmp_path / "commitlog").exists()
    writer.abort([*messages, None], 0)
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------- the lock


def test_a_store_that_is_open_elsewhere_is_waited_for(tmp_path):
    store = reput.open(tmp_path, plugins=(), config={"commitlog": {"file_size": 4_096}})
    sink = sink_of(tmp_path)
    waited = []

    def wait(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            store.close()

    sink.opening.wait = wait
    sink.commit(segments_of(tmp_path, 0), 0)

    assert len(waited) == 3
    assert bodies_of(tmp_path) == expected(0)


def test_a_store_that_stays_open_is_an_error_and_the_batch_comes_again(tmp_path):
    segments = segments_of(tmp_path, 0)
    sink = sink_of(tmp_path, lock_timeout="2")
    sink.opening.clock, sink.opening.wait = itertools.count().__next__, lambda seconds: None
    with reput.open(tmp_path, plugins=(), config={"commitlog": {"file_size": 4_096}}):
        with pytest.raises(SparkReputError, match=r"\[REPUT_LOCKED\].*lock_timeout"):
            sink.commit(segments, 0)
        sink.abort(segments, 0)  # as Spark does after a commit that failed
    assert bodies_of(tmp_path) == []

    sink.commit(segments_of(tmp_path, 0, attempt=8), 0)

    assert bodies_of(tmp_path) == expected(0)


# --------------------------------------------------------------------------- aborts


def test_an_abort_leaves_nothing(tmp_path):
    segments = segments_of(tmp_path, 0)

    sink_of(tmp_path).abort(segments, 0)

    assert list(tmp_path.iterdir()) == []


def test_an_abort_leaves_other_queries_alone(tmp_path):
    others = segments_of(tmp_path, 0, query="another")

    sink_of(tmp_path).abort(segments_of(tmp_path, 0), 0)

    assert sum(1 for each in others for _ in read_segment(str(tmp_path), each, Disk())) == 2


def test_an_abort_behind_a_commit_that_failed_keeps_what_the_commit_took_on(tmp_path):
    segments = segments_of(tmp_path, 0)
    disk = FaultyDisk(1, operations={"rename"}, below="committed.json")
    with pytest.raises(OSError, match=r"committed\.json"):
        sink_of(tmp_path, disk=disk).commit(segments, 0)

    sink_of(tmp_path).abort(segments, 0)

    assert bodies_of(tmp_path) == expected(0)
    again = segments_of(tmp_path, 0, (8,), attempt=8)  # the same rows, differently cut
    sink_of(tmp_path).commit(again, 0)
    assert bodies_of(tmp_path) == expected(0)
    assert files_in(tmp_path) == ["committed.json"]


@pytest.mark.parametrize("fault", range(1, 200, 9))
def test_a_disk_that_fails_anywhere_loses_no_row_and_puts_none_twice(tmp_path, fault):
    sink_of(tmp_path).commit(segments_of(tmp_path, 0), 0)
    disk = FaultyDisk(fault)
    failed = False
    try:
        sink_of(tmp_path, disk=disk).commit(segments := segments_of(tmp_path, 1), 1)
    except (OSError, reput.ReputError):
        failed = True
        sink_of(tmp_path).abort(segments, 1)

    if failed:
        sink_of(tmp_path).commit(segments_of(tmp_path, 1, attempt=8), 1)

    assert bodies_of(tmp_path) == expected(0, 1)
    # What is done ahead of need (the next file), or at the end, may fail unseen.
    assert failed == disk.failed or fault > 20
