"""Spark Connect: the same reads, jobs, writes and streams through a server.

In a process of its own: one that has an ordinary session cannot start a server.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from sparkstores import messages_of

import reput
from reput_spark import SparkReputError
from reput_spark.session.localsession import prepare_environment
from reput_testing import snapshot

pytestmark = pytest.mark.proof

START = """
import json, sys
from reput_spark.session.localsession import prepare_environment

prepare_environment()
from pyspark.sql import SparkSession

builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
spark = builder.config("spark.driver.extraJavaOptions", quick).getOrCreate()
path, directory = sys.argv[1:]
found = {"kind": type(spark).__module__}
"""

PARTS = {
    "read": """
from reput_spark import code_of, read

frame = read(spark, path, columns=["physical_offset", "topic", "body"])
found["offsets"] = sorted(row.physical_offset for row in frame.collect())
some = read(spark, path, columns=["physical_offset", "topic"], topic="topic-1", max_offset=5000)
found["pruned"] = some.count()
found["plain"] = spark.read.format("reput").load(path).where("topic = 'topic-1'").count()
by_topic = read(spark, path, columns=["topic", "size"]).pandas_api().groupby("topic")["size"]
found["pandas"] = int(by_topic.count().sum())
try:
    spark.read.format("reput").load("/nothing/there").count()
except Exception as error:
    found["code"] = code_of(error)
""",
    "jobs": """
from reput_spark.jobs.export import export
from reput_spark.jobs.sparkengine import SparkEngine
from reput_spark.jobs.rebuild import rebuild
from reput_spark.jobs.stats import COLUMNS, stats
from reput_spark.jobs.verify import verify

engine = SparkEngine(spark)
found["sound"] = verify(spark, path).message_count
topics = stats(read(spark, path, columns=COLUMNS))["topics"]
found["counted"] = sum(row.messages for row in topics.collect())
found["exported"] = export(path, directory + "/parquet", engine).message_count
built = rebuild(spark, directory + "/derived", ["consumequeue"], split_size=1 << 20)
found["built"] = [each.message_count for each in built]
""",
    "write": """
from reput_spark import read, write

rows = read(spark, path, columns=["topic", "body", "keys", "queue_id"])
write(rows, directory + "/written")
rows.write.format("reput").mode("append").save(directory + "/written")
found["written"] = read(spark, directory + "/written", columns=["topic"]).count()
""",
    "stream": """
rows = spark.readStream.format("reput").option("columns", "topic,body,keys,queue_id").load(path)
query = rows.writeStream.format("reput").option("checkpointLocation", directory + "/checkpoint")
query = query.trigger(availableNow=True).start(directory + "/streamed")
query.awaitTermination()
from reput_spark import read
found["streamed"] = read(spark, directory + "/streamed", columns=["topic"]).count()
""",
}

END = """
print("found", json.dumps(found))
spark.stop()
"""


@pytest.fixture(scope="module")
def found(plain_store, tmp_path_factory):
    """What a program found that does everything through one server, for that takes seconds."""
    for name in ("pyspark", "grpc", "grpc_status", "pandas", "zstandard"):
        pytest.importorskip(name, reason="pyspark[connect] is not installed")
    try:
        prepare_environment()
    except SparkReputError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("connect")
    with reput.open(directory / "derived", plugins=["consumequeue"]) as store:
        store.put_many([reput.Message("T", b"%d" % number) for number in range(500)])
    shutil.copytree(directory / "derived", directory / "before")
    shutil.rmtree(directory / "derived" / "consumequeue")
    with reput.open(directory / "streamed", plugins=()):
        pass

    done = subprocess.run(
        [sys.executable, "-c", "".join([START, *PARTS.values(), END]), plain_store, directory],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=directory,
    )

    lines = [each for each in done.stdout.splitlines() if each.startswith("found ")]
    assert lines, done.stderr
    return {**json.loads(lines[0].removeprefix("found ")), "directory": directory}


def test_a_store_is_read(found, plain_store):
    messages = messages_of(plain_store)
    pruned = [each for each in messages if each.topic == "topic-1" and each.physical_offset < 5_000]

    assert found["kind"] == "pyspark.sql.connect.session"
    assert found["offsets"] == [each.physical_offset for each in messages]
    assert found["pruned"] == len(pruned)
    assert found["plain"] == 100
    assert found["code"] == "NO_LOG"
    assert found["pandas"] == 400  # not beside every pandas that Spark Connect would take


def test_jobs_run(found):
    directory = found["directory"]

    assert (found["sound"], found["counted"], found["exported"]) == (400, 400, 400)
    assert found["built"] == [500]
    built = snapshot(directory / "derived" / "consumequeue")
    assert built == snapshot(directory / "before" / "consumequeue")
    assert built


def test_a_store_is_written_and_appended_to(found, plain_store):
    written = messages_of(found["directory"] / "written")

    assert found["written"] == 800
    wanted = sorted(2 * [(each.topic, each.body) for each in messages_of(plain_store)])
    assert sorted((each.topic, each.body) for each in written) == wanted


def test_a_stream_goes_from_store_to_store(found, plain_store):
    streamed = messages_of(found["directory"] / "streamed")

    assert found["streamed"] == 400
    wanted = [(each.topic, each.body) for each in messages_of(plain_store)]
    assert [(each.topic, each.body) for each in streamed] == wanted
