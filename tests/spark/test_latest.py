"""The latest message of every key, of any topic."""

from __future__ import annotations

import pytest

import reput

pytest.importorskip("pyspark")

from reput_spark import SparkReputError
from reput_spark.jobs.latest import latest


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store, and what a dict says of its keys."""
    root, latest_of = tmp_path_factory.mktemp("latest") / "store", {}
    config = {"commitlog": {"file_size": 1 << 16, "preallocate": False}}
    with reput.open(root, plugins=[], config=config, threads=False) as store:
        for number in range(900):
            topic, queue, key = "ab"[number % 2], number % 3, f"k{number * 7919 % 90} é"
            body = b"" if number % 10 == 9 else b"%d" % number * 20
            store.put(reput.Message(topic, body, queue, keys=key))
            latest_of[topic, queue, tuple(key.split())] = body
        store.put(reput.Message("a", b"without a key"))
        store.put(reput.Message("a", b"prepared", keys="k1 é", sys_flag=4))
    return root, latest_of


def found(rows):
    return {(row.topic, row.queue_id, tuple(row.keys)): bytes(row.body) for row in rows}


COLUMNS = ("topic", "queue_id", "keys", "body")


def test_it_is_what_a_dict_says(spark, filled):
    root, expected = filled

    rows = latest(spark, root, columns=COLUMNS, tombstones=True, partitions=3).collect()

    assert len(rows) == len(expected)
    assert found(rows) == expected


def test_deleted_keys_are_left_out_and_a_topic_can_be_named(spark, filled):
    root, expected = filled

    frame = latest(spark, str(root), "b", columns=["queue_id", "keys", "topic"], partitions=1)

    keys = {(row.topic, row.queue_id, tuple(row["keys"])) for row in frame.collect()}
    assert keys == {key for key, body in expected.items() if body and key[0] == "b"}
    assert frame.columns == ["queue_id", "keys", "topic"]


def test_a_path_without_a_log_is_told_at_once(spark, tmp_path):
    with pytest.raises(SparkReputError, match="NO_LOG"):
        latest(spark, tmp_path)
