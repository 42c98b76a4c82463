"""Logs as DataFrames: what arrives behind the JVM is what is in the log."""

from __future__ import annotations

import datetime as dt
import functools
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit
from sparkstores import messages_of

import reput
from reput_arrow import COLUMNS, to_arrow
from reput_spark import SparkReputError, code_of, read
from reput_spark.source.schema import DEFAULT_COLUMNS

COLUMN_NAMES = [*(each.name for each in COLUMNS), "store"]


def sorted_table(frame):
    """All rows in the log's order; sorted here, as Spark would read everything twice for it."""
    return frame.toArrow().sort_by([("store", "ascending"), ("physical_offset", "ascending")])


@pytest.mark.parametrize("case", ["demo", "batch", "trimmed", "v6", "transaction", "delay"])
def test_every_column_of_a_store_is_what_the_log_gives_without_spark(case, spark, golden_store):
    root = golden_store(case)
    with reput.open(root, "r", plugins=()) as store:
        expected = pa.Table.from_batches([to_arrow(batch, unit="us") for batch in store.scan()])

    size = "4194304" if case == "demo" else "65536"  # a task costs more than its bytes
    table = sorted_table(read(spark, root, columns="*", split_size=size))

    assert set(table["store"].to_pylist()) == {str(root)}
    table = table.drop_columns("store")
    assert table.column_names == expected.column_names
    assert table.equals(expected.cast(table.schema))


def test_a_projection_by_schema_is_all_that_is_read(spark, plain_store):
    frame = spark.read.format("reput").schema("body binary, queue_id int").load(str(plain_store))

    assert frame.columns == ["body", "queue_id"]
    assert [row.body for row in frame.collect()] == [each.body for each in messages_of(plain_store)]


def test_who_names_no_column_gets_those_that_cost_little(spark, plain_store):
    frame = spark.read.format("reput").load(str(plain_store))
    chosen = spark.read.format("reput").option("columns", "topic, body").load(str(plain_store))

    assert frame.columns == list(DEFAULT_COLUMNS)
    assert read(spark, plain_store).schema == frame.schema
    assert frame.count() == 400
    assert chosen.columns == ["topic", "body"]
    assert read(spark, plain_store, columns="topic, body").schema == chosen.schema


def test_a_relative_path_is_meant_where_it_is_written(spark, plain_store, monkeypatch):
    monkeypatch.chdir(plain_store.parent)

    assert read(spark, "store", columns=["store"]).first().store == str(plain_store)


def test_people_write_options_as_they_are_used_to(spark, plain_store):
    frame = read(
        spark,
        [plain_store, str(plain_store)],
        columns=["topic", "store"],
        topic=["topic-1", "topic-2"],
        start=dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        check_crc=True,
    )

    assert {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()} == {
        "topic-1": 200,
        "topic-2": 200,
    }


CONDITIONS = [
    "physical_offset < 5000",
    "physical_offset = 0",
    "topic = 'topic-1' AND queue_id IN (0, 2)",
    "topic IN ('topic-1', 'nobody')",
    "tags = 'A' OR flag < 10",
    "tags IS NULL AND flag >= 300",
    "NOT (queue_id = 1)",
    "tags_code = 65 AND queue_offset > 3 AND queue_offset <= 20",
    "store_timestamp >= timestamp'2020-01-01 00:00:00.0005' AND flag < 50",
    "store_timestamp < timestamp'2020-01-01'",
    "born_timestamp = timestamp'2020-01-01'",
    "keys[0] = 'k17'",
    "properties['number'] = '18'",
    "flag = 18 AND size > 100 AND topic LIKE 'topic%'",
    "body IS NOT NULL AND length(body) = 0",
]


def test_conditions_of_a_query_are_decided_by_spark(spark, plain_store):
    flags = [f"coalesce({condition}, false) AS `{condition}`" for condition in CONDITIONS]
    whole = read(spark, plain_store, columns=COLUMN_NAMES)
    chosen = [whole.where(each).withColumn("asked", lit(each)) for each in CONDITIONS]

    expected = sorted_table(whole.selectExpr("*", *flags))
    found = sorted_table(functools.reduce(DataFrame.unionAll, chosen))

    for condition in CONDITIONS:
        wanted = expected.filter(expected[condition]).drop_columns(CONDITIONS).to_pylist()
        rows = found.filter(pc.equal(found["asked"], condition)).drop_columns("asked").to_pylist()
        assert rows == wanted, condition
        assert rows or "born" in condition or "2020-01-01'" in condition, condition


def test_a_frame_that_is_used_twice_gives_each_use_its_own_rows(spark, plain_store):
    """Spark keeps what it gave a source last for all uses of a frame: so this one takes nothing."""
    frame = read(spark, plain_store, columns=["flag", "topic"])
    few, some = frame.where("flag < 5"), frame.where("topic = 'topic-1'")

    whole = few.unionAll(some).unionAll(frame).count()
    joined = few.join(frame, "topic").count()

    assert (whole, joined) == (5 + 100 + 400, 500)
    assert (few.count(), frame.count()) == (5, 400)


def test_an_option_that_was_removed_says_what_to_use(spark, plain_store):
    with pytest.raises(SparkReputError, match="topic, queue_id, min_offset"):
        read(spark, plain_store, pushdown=True)


def test_the_filter_of_consumers_selects_the_same_messages(spark, plain_store):
    pytest.importorskip("reput_filter")
    expected = [
        message.flag
        for message in messages_of(plain_store)
        if int(message.properties["weight"]) > 7
    ]

    frame = read(spark, plain_store, columns=["flag"], filter="weight > 7")
    tagged = read(spark, plain_store, columns=["tags"], filter="A || C", filter_kind="TAG")

    assert [row.flag for row in frame.collect()] == expected
    assert {row.tags for row in tagged.collect()} == {"A"}


def test_sql_reads_a_store_through_a_view(spark, plain_store):
    options = f"path '{plain_store}', topic 'topic-3'"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW log USING reput OPTIONS ({options})")

    assert spark.sql("SELECT count(*) AS n FROM log").collect()[0].n == 100
    spark.catalog.dropTempView("log")


def test_damage_is_collected_as_rows(spark, tmp_path, plain_store):
    shutil.copytree(plain_store, tmp_path / "store")
    victim = messages_of(plain_store)[30].physical_offset
    with (tmp_path / "store" / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(victim + 4)
        file.write(b"\xff")

    frame = read(spark, tmp_path / "store", corrupt="collect")

    (bad,) = frame.where("damage IS NOT NULL").collect()
    assert bad.physical_offset == victim
    assert frame.count() == 400
    # SQL's rule for what is not known, also where the condition is applied while reading.
    assert frame.where("topic = 'topic-2'").count() == 99
    assert frame.where(f"physical_offset = {victim}").count() == 1


@pytest.mark.parametrize(
    ("options", "path", "code"),
    [
        ({"topci": "x"}, None, "OPTION"),
        ({"corrupt": "perhaps"}, None, "OPTION"),
        ({}, "nothing", "NO_LOG"),
    ],
)
def test_what_cannot_be_read_is_refused_before_any_task(options, path, code, spark, plain_store):
    with pytest.raises(AnalysisException) as failure:
        spark.read.format("reput").options(**options).load(path or str(plain_store)).count()

    assert code_of(failure.value) == code


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("topics string", "no column 'topics'"),
        ("queue_id bigint", "is int, not bigint"),
        ("tags string not null", "may be null"),
    ],
)
def test_a_schema_that_no_log_has_is_refused(schema, text, spark, plain_store):
    with pytest.raises(PySparkException, match=text) as failure:
        spark.read.format("reput").schema(schema).load(str(plain_store)).count()

    assert code_of(failure.value) == "OPTION"


def test_people_are_told_of_mistakes_without_spark(spark, plain_store):
    with pytest.raises(SparkReputError, match="no column 'keyz'"):
        read(spark, plain_store, columns=["keyz"])
    with pytest.raises(SparkReputError, match="'min_ofset'"):
        read(spark, plain_store, min_ofset=5)
