"""Tasks of a read and their Arrow batches, without a JVM."""

from __future__ import annotations

import os
import pickle
import shutil

import pyarrow as pa
import pytest
from sparkstores import FILE_SIZE, forged_store, messages_of

import reput
from reput_spark import ReadOptions, SparkReputError, code_of
from reput_spark.reader.tasks import plan_tasks, read_task
from reput_spark.source.datasource import ReputDataSource
from reput_spark.source.reader import LogPartition
from reput_spark.source.schema import arrow_schema, spark_schema


def options_of(path, **options):
    return ReadOptions.parse({"path": str(path), **options})


def rows_of(options, columns=("physical_offset",)):
    schema = arrow_schema(
        spark_schema(columns, collects=options.corrupt == "collect"),
        collects=options.corrupt == "collect",
    )
    return [
        row
        for task in plan_tasks(options)
        for batch in read_task(task, options, schema)
        for row in batch.to_pylist()
    ]


def offsets(options):
    return [row["physical_offset"] for row in rows_of(options)]


@pytest.fixture
def store(plain_store, tmp_path):
    """A copy that may be damaged."""
    shutil.copytree(plain_store, tmp_path / "store")
    return tmp_path / "store"


def damage(store, physical_offset, at=4):
    """Spoil a record: its magic, when nothing else is said."""
    path = store / "commitlog" / f"{physical_offset // FILE_SIZE * FILE_SIZE:020d}"
    with path.open("r+b") as file:
        file.seek(physical_offset % FILE_SIZE + at)
        file.write(b"\xff\xff\xff\xff")


def test_columns_come_in_the_order_that_is_asked_for(plain_store):
    first = rows_of(options_of(plain_store), ["store", "flag", "topic"])[1]

    assert list(first.items()) == [("store", str(plain_store)), ("flag", 1), ("topic", "topic-1")]


def test_a_projection_of_no_column_counts(plain_store):
    options = options_of(plain_store)
    schema = pa.schema([])

    count = sum(
        batch.num_rows for task in plan_tasks(options) for batch in read_task(task, options, schema)
    )

    assert count == 400


def test_small_splits_are_all_of_the_log_once(tmp_path):
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(tmp_path, plugins=(), config=config) as store:
        store.put_many(
            [reput.Message("T", b"x" * (number * 37 % 2_000)) for number in range(3_000)]
        )
    whole = [message.physical_offset for message in messages_of(tmp_path)]

    tasks = plan_tasks(options_of(tmp_path, split_size="65536"))

    assert len(tasks) > 20
    assert offsets(options_of(tmp_path, split_size="65536")) == whole


def test_a_record_larger_than_a_window_is_one_row(tmp_path):
    with reput.open(tmp_path, plugins=()) as store:
        limit = 4 << 20
        store.put(reput.Message("T", b"x" * (limit - 1_000)))
        store.put(reput.Message("T", b"y"))

    rows = rows_of(options_of(tmp_path, split_size="65536"), ["body"])

    assert [len(row["body"]) for row in rows] == [limit - 1_000, 1]


# --------------------------------------------------------------------------- damage


def test_damage_fails_with_the_file_and_the_ways_out(store):
    victim = messages_of(store)[100].physical_offset
    damage(store, victim)

    with pytest.raises(SparkReputError) as failure:
        rows_of(options_of(store))

    assert code_of(failure.value) == "DAMAGED"
    base = f"{victim // FILE_SIZE * FILE_SIZE:020d}, byte {victim % FILE_SIZE}"
    for part in (base, "split_size=file", "corrupt=skip", "corrupt=collect"):
        assert part in str(failure.value)


@pytest.mark.parametrize("numbers", [[100], [0], [100, 101, 250], [399]])
def test_what_is_damaged_is_left_out_when_asked_to(store, numbers):
    messages = messages_of(store)
    whole = [message.physical_offset for message in messages]
    for number in numbers:
        damage(store, whole[number])

    assert offsets(options_of(store, corrupt="skip")) == [
        offset for number, offset in enumerate(whole) if number not in numbers
    ]


def test_damage_is_collected_as_rows_between_the_others(store):
    whole = [message.physical_offset for message in messages_of(store)]
    damage(store, whole[100])

    rows = rows_of(
        options_of(store, corrupt="collect"), ["topic", "physical_offset", "store", "body"]
    )

    assert [row["physical_offset"] for row in rows] == whole
    bad = rows[100]
    assert bad["damage"].startswith("neither a record nor a blank")
    assert (bad["topic"], bad["body"], bad["store"]) == (None, None, str(store))
    assert all(row["damage"] is None for number, row in enumerate(rows) if number != 100)


def test_a_range_of_offsets_holds_for_damage_too(store):
    whole = [message.physical_offset for message in messages_of(store)]
    damage(store, whole[100])
    options = {"corrupt": "collect", "max_offset": str(whole[100])}

    assert offsets(options_of(store, **options)) == whole[:100]
    options = {"corrupt": "collect", "min_offset": str(whole[100] + 1)}
    assert offsets(options_of(store, **options)) == whole[101:]


def test_a_body_that_does_not_match_its_checksum_is_noticed_when_asked_for(store):
    whole = [message.physical_offset for message in messages_of(store)]
    damage(store, whole[201], at=88)

    assert offsets(options_of(store)) == whole
    with pytest.raises(SparkReputError, match="checksum"):
        offsets(options_of(store, check_crc="true"))
    skipped = offsets(options_of(store, check_crc="true", corrupt="skip"))
    assert skipped == [*whole[:201], *whole[202:]]


def test_a_forged_body_fails_and_never_becomes_rows(tmp_path):
    whole, at = forged_store(tmp_path / "store", before=400)
    splits = {"split_size": str(at - 20)}  # a cut inside of the record with that body

    # The driver is taken in, and the task that lands there is not.
    assert [
        task.split.start_offset for task in plan_tasks(options_of(tmp_path / "store", **splits))
    ][1] == at
    with pytest.raises(SparkReputError, match=r"\[REPUT_DAMAGED\].*one piece"):
        offsets(options_of(tmp_path / "store", **splits))
    assert offsets(options_of(tmp_path / "store", split_size="file")) == whole
    for corrupt in ("skip", "collect"):
        assert offsets(options_of(tmp_path / "store", corrupt=corrupt, **splits)) == whole


def test_a_file_that_is_cut_between_planning_and_reading_is_told(store):
    options = options_of(store)
    tasks = plan_tasks(options)
    os.truncate(sorted((store / "commitlog").iterdir())[1], 5_000)
    schema = arrow_schema(spark_schema(["topic"]))

    with pytest.raises(SparkReputError, match=r"\[REPUT_DAMAGED\].*has 5000 bytes"):
        list(read_task(tasks[0], options, schema))


def test_reading_leaves_no_file_open(plain_store):
    options = options_of(plain_store, split_size="file")
    rows_of(options)
    before = set(os.listdir("/proc/self/fd"))

    rows_of(options)
    schema = arrow_schema(spark_schema(["topic"]))
    batches = read_task(plan_tasks(options)[0], options, schema)
    next(batches)
    batches.close()  # as a query with a LIMIT leaves its reader

    assert set(os.listdir("/proc/self/fd")) <= before


# --------------------------------------------------------------------------- what Spark calls


def test_source_reader_and_partitions_go_to_executors_and_come_back(plain_store):
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    source = ReputDataSource({"path": str(plain_store), "split_size": "file", "topic": "topic-1"})
    again = pickle.loads(cloudpickle.dumps(source))
    schema = again.schema()
    reader = again.reader(schema)
    partitions = reader.partitions()

    reader, partitions = pickle.loads(cloudpickle.dumps((reader, partitions)))

    assert isinstance(partitions, list)
    assert all(isinstance(each, LogPartition) for each in partitions)
    assert len(partitions) > 3
    rows = [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]
    assert {row["topic"] for row in rows} == {"topic-1"}
    assert len(rows) == 100
    assert list(rows[0]) == schema.names


def test_a_log_without_splits_is_read_as_nothing(tmp_path):
    (tmp_path / f"{0:020d}").write_bytes(bytes(FILE_SIZE))
    source = ReputDataSource({"path": str(tmp_path)})
    reader = source.reader(source.schema())

    assert reader.partitions() == []
    assert list(reader.read(None)) == []
