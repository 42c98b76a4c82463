"""Spark Connect: the same read through a server that this process starts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from sparkstores import messages_of

from reput_spark import SparkReputError
from reput_spark.session import prepare_environment

PROGRAM = """
import json, sys
from reput_spark import code_of, read
from reput_spark.session import prepare_environment

prepare_environment()
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
path = sys.argv[1]
frame = read(spark, path, columns=["physical_offset", "topic", "body"])
found = {
    "kind": type(spark).__module__,
    "offsets": sorted(row.physical_offset for row in frame.collect()),
    "pushed": frame.where("topic = 'topic-1' AND physical_offset < 5000").count(),
    "plain": spark.read.format("reput").load(path).where("topic = 'topic-1'").count(),
}
try:
    spark.read.format("reput").load("/nothing/there").count()
except Exception as error:
    found["code"] = code_of(error)
print("found", json.dumps(found))
spark.stop()
"""


def test_a_store_is_read_through_a_server(plain_store, tmp_path):
    """In a process of its own: one that has an ordinary session cannot start a server."""
    for name in ("pyspark", "grpc", "grpc_status", "pandas", "zstandard"):
        pytest.importorskip(name, reason="pyspark[connect] is not installed")
    try:
        prepare_environment()
    except SparkReputError as error:
        pytest.skip(str(error))
    messages = messages_of(plain_store)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(plain_store)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )

    lines = [each for each in done.stdout.splitlines() if each.startswith("found ")]
    assert lines, done.stderr
    found = json.loads(lines[0].removeprefix("found "))
    pushed = [each for each in messages if each.topic == "topic-1" and each.physical_offset < 5_000]
    assert found == {
        "kind": "pyspark.sql.connect.session",
        "offsets": [each.physical_offset for each in messages],
        "pushed": len(pushed),
        "plain": 100,
        "code": "NO_LOG",
    }
