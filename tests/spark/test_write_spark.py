"""Spark writes stores: DataFrame, store, DataFrame; tasks that fail; writes that are given up."""

from __future__ import annotations

import pytest
from writtenstores import FILE_SIZE, bodies_of, table_of

import reput
import reput_spark
from reput_spark import SparkReputError

OPTIONS = {"file_size": str(FILE_SIZE), "dispatch": "false"}


def sorted_rows(table, columns):
    return sorted(table.select(columns).to_pylist(), key=lambda row: row["body"])


def test_what_is_read_is_written_and_read_again_the_same(spark, plain_store, tmp_path):
    source = spark.read.format("reput").option("columns", "*").load(str(plain_store)).coalesce(1)

    written = source.write.format("reput").mode("append").option("raw", "true")
    written.options(**OPTIONS, keep="store_timestamp,store_host").save(str(tmp_path / "copy"))

    same = ["topic", "queue_id", "queue_offset", "tags", "keys", "uniq_key", "properties", "body"]
    same += ["flag", "sys_flag", "born_timestamp", "store_timestamp", "born_host", "store_host"]
    ours = reput_spark.read(spark, tmp_path / "copy", columns=same).toArrow()
    theirs = source.select(*same).toArrow()
    assert ours.num_rows == theirs.num_rows > 0
    assert sorted_rows(ours, same) == sorted_rows(theirs, same)


def test_rows_stand_in_the_order_of_partitions_and_a_second_write_behind_them(spark, tmp_path):
    frame = spark.range(0, 1_000, 1, 4).selectExpr(
        "concat('T', id % 3) topic", "int(id % 2) queue_id", "cast(id as string) body"
    )

    for _ in range(2):
        writer = frame.write.format("reput").mode("append")
        writer.options(**OPTIONS).save(str(tmp_path / "s"))

    assert bodies_of(tmp_path / "s") == [b"%d" % number for number in range(1_000)] * 2
    with reput.open(tmp_path / "s") as store:
        store.wait_dispatched()
        read = store.read("T1", 1, 0, max_count=1_000)
        assert [message.body for message in read] == [b"%d" % n for n in range(1, 1_000, 6)] * 2


def test_a_task_that_fails_once_is_written_once(spark, tmp_path):
    from pyspark.sql.functions import udf

    failed = tmp_path / "failed"

    @udf("string")
    def body(number):
        if number == 450 and not failed.exists():
            failed.touch()
            raise ValueError("the first try")
        return str(number)

    frame = spark.range(0, 500, 1, 2).select(body("id").alias("body")).selectExpr("'T' topic", "*")
    done = reput_spark.write(frame, tmp_path / "store", file_size=FILE_SIZE)

    assert failed.exists()
    assert bodies_of(tmp_path / "store") == [b"%d" % number for number in range(500)]
    assert done.record_count == 500


def test_a_row_that_cannot_be_stored_leaves_nothing(spark, tmp_path):
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "case when id = 77 then null else 'T' end topic", "cast(id as string) body"
    )

    with pytest.raises(SparkReputError, match=r"\[REPUT_ROW\] partition 1, .*topic.*not null"):
        reput_spark.write(frame, tmp_path / "store")

    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_said_before_a_task_begins(spark, tmp_path):
    frame = spark.range(3).selectExpr("'T' topic", "'x' body", "id number")

    with pytest.raises(SparkReputError, match=r"\[REPUT_OPTION\] column 'number' is not"):
        reput_spark.write(frame, tmp_path / "store")
    with pytest.raises(SparkReputError, match="no option 'keeps' of a write"):
        reput_spark.write(frame, tmp_path / "store", keeps="x")
    with pytest.raises(SparkReputError, match="'mode' is 'ignore'; append or overwrite"):
        reput_spark.write(frame, tmp_path / "store", mode="ignore")
    with pytest.raises(SparkReputError, match=r"s3://b/s: .*name a directory .* copy it"):
        reput_spark.write(frame, "s3://b/s")


def test_stamps_number_rows_in_the_order_of_partitions(spark, tmp_path):
    frame = spark.range(0, 10, 1, 3).selectExpr("'T' topic", "cast(id as string) body")

    reput_spark.write(frame, tmp_path / "s", file_size=FILE_SIZE, write_id="day-1", stamp=True)
    writer = frame.write.format("reput").mode("append").options(write_id="day-2", stamp="true")
    writer.save(str(tmp_path / "s"))

    found = table_of(tmp_path / "s", ["body", "properties"]).to_pylist()
    assert [dict(row["properties"]) for row in found] == [
        {"reput_stamp": f"{name}:0:{row}"} for name in ("day-1", "day-2") for row in range(10)
    ]
    assert [row["body"] for row in found] == [b"%d" % row for row in range(10)] * 2


def test_empty_frames_and_names_of_writes(spark, tmp_path):
    frame = spark.range(0, 10, 1, 3).selectExpr("'T' topic", "cast(id as string) body")

    for _ in range(2):
        done = reput_spark.write(frame, tmp_path / "s", file_size=FILE_SIZE, write_id="day-1")
    reput_spark.write(frame.where("body = ''"), tmp_path / "s")

    assert done.was_there
    assert table_of(tmp_path / "s", ["queue_offset"]).column(0).to_pylist() == list(range(10))
