"""The schema in Spark's types and in Arrow's: what one says, the other says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from reput_arrow import COLUMNS, schema_of
from reput_spark import SparkReputError
from reput_spark.source.schema import DEFAULT_COLUMNS, arrow_schema, spark_schema

NAMES = [column.name for column in COLUMNS]


def test_all_columns_and_the_store():
    schema = spark_schema("*")

    assert schema.names == [*NAMES, "store"]
    made = arrow_schema(schema)
    expected = schema_of(unit="us").append(pa.field("store", pa.string(), nullable=False))
    assert made.names == expected.names
    for found, wanted in zip(made, expected, strict=True):
        assert (found.type, found.nullable) == (wanted.type, wanted.nullable)


def test_what_is_read_where_nobody_says_costs_little():
    names = spark_schema().names

    assert names == list(DEFAULT_COLUMNS)
    assert not {"body", "properties", "born_host", "store_host", "msg_id", "store"} & {*names}
    assert spark_schema(collects=True).names == [*names, "damage"]


def test_with_rows_for_damage_every_column_but_the_store_may_be_null():
    schema = spark_schema(["topic", "body", "store"], collects=True)

    assert [(field.name, field.nullable) for field in schema] == [
        ("topic", True),
        ("body", True),
        ("store", False),
        ("damage", True),
    ]
    assert all(
        field.nullable for field in arrow_schema(schema, collects=True) if field.name != "store"
    )
    with pytest.raises(SparkReputError, match="'topic' may be null"):
        arrow_schema(spark_schema(["topic"]), collects=True)


def test_what_is_never_null_may_be_declared_either_way():
    for nullable in (True, False):
        schema = StructType([StructField("topic", StringType(), nullable)])

        assert arrow_schema(schema) == pa.schema([pa.field("topic", pa.string(), nullable)])


@pytest.mark.parametrize(
    ("field", "match"),
    [
        (StructField("topics", StringType()), "no column 'topics'"),
        (StructField("queue_offset", IntegerType()), "'queue_offset' is bigint, not int"),
        (StructField("keys", ArrayType(IntegerType())), "is array<string>, not array<int>"),
        (StructField("uniq_key", StringType(), False), "may be null"),
        (StructField("store_timestamp", TimestampNTZType()), "is timestamp, not timestamp_ntz"),
    ],
)
def test_another_type_than_the_logs_is_refused(field, match):
    with pytest.raises(SparkReputError, match=match):
        arrow_schema(StructType([field]))


def test_no_such_column():
    with pytest.raises(SparkReputError, match=r"REPUT_OPTION.*no column 'x'"):
        spark_schema(["x"])
