"""Logs in SQL: tables and views of the format, and Spark's own properties beside our options."""

from __future__ import annotations

import zlib

import pytest

import reput
from reput.record.layout import COMPRESSED
from reput_spark import ReadOptions, SparkReputError, read, register
from reput_spark.reader.options import without_table_properties


def test_a_tables_options_are_told_from_sparks_properties():
    given = {"owner": "me", "Provider": "reput", "location": "/s", "path": "/s", "a": "b"}

    found = without_table_properties({**given, "option.topic": "orders", "topic": "orders"})

    assert found == {"path": "/s", "topic": "orders"}


def test_a_misspelt_option_of_a_table_is_told():
    given = {"provider": "reput", "path": "/s", "option.topc": "orders", "topc": "orders"}

    with pytest.raises(SparkReputError, match="'topic' was meant"):
        ReadOptions.parse(without_table_properties(given))


def test_without_a_table_every_option_counts():
    assert without_table_properties({"Owner": "me"}) == {"owner": "me"}


def test_a_table_a_view_of_it_and_a_temporary_view(spark, plain_store):
    register(spark)
    path = str(plain_store)
    spark.sql(
        f"CREATE TABLE made USING reput OPTIONS (path '{path}', topic 'topic-0') "
        "TBLPROPERTIES ('team'='orders') COMMENT 'what it is'"
    )
    try:
        spark.sql(f"CREATE VIEW seen AS SELECT topic FROM made WITH (path '{path}')")
        spark.sql(f"CREATE TEMP VIEW now USING reput OPTIONS (path '{path}', topic 'topic-1')")
        topics = spark.sql("SELECT DISTINCT topic FROM seen ORDER BY topic").collect()
        now = spark.sql("SELECT DISTINCT topic FROM now").collect()
        with pytest.raises(Exception, match=r"REPUT_OPTION.*WITH \(path"):
            spark.sql("SELECT topic FROM made").collect()
    finally:
        for each in ("VIEW seen", "VIEW now", "TABLE made"):
            spark.sql(f"DROP {each.replace('VIEW', 'VIEW IF EXISTS')}")

    assert [each.topic for each in topics] == [f"topic-{number}" for number in range(4)]
    assert [each.topic for each in now] == ["topic-1"]


@pytest.fixture
def packed(tmp_path):
    """Directory of a store with a compressed body in the directory of a broker."""
    config = {"commitlog": {"file_size": 65_536}}
    with reput.open(tmp_path / "broker-a" / "store", plugins=(), config=config) as store:
        store.put(reput.Message("orders", zlib.compress(b"x" * 500), sys_flag=COMPRESSED))
    return tmp_path


def test_bodies_are_unpacked_unless_raw_ones_are_wanted(spark, packed):
    columns = ["broker", "body", "sys_flag"]

    (row,) = read(spark, f"{packed}/*/store", columns=columns).collect()
    (raw,) = read(spark, packed / "broker-a", columns=columns, raw=True).collect()

    assert (row.broker, bytes(row.body), row.sys_flag) == ("broker-a", b"x" * 500, 0)
    assert (raw.broker, raw.sys_flag) == ("broker-a", COMPRESSED)
    assert zlib.decompress(raw.body) == b"x" * 500
