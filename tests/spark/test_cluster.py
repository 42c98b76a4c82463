"""A worker that is killed in the middle of a job changes nothing in what comes of it.

On a real cluster: a master and two workers from the installed package. A task has its own worker
killed, with its executor; another worker takes its place. That is six JVMs and a minute or two, so
that it has an environment of its own: ``spark-cluster``.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.functions import udf
from sparkcluster import Cluster, kill_own_worker

import reput
from reput_arrow import to_arrow
from reput_spark import SparkReputError, local_session, read
from reput_spark.jobs import verify as verifying
from reput_spark.jobs.export import export
from reput_spark.jobs.sparkengine import SparkEngine
from reput_spark.jobs.stats import COLUMNS as STATS_COLUMNS
from reput_spark.jobs.stats import stats
from reput_spark.source.datasource import ReputDataSource
from reput_spark.source.reader import LogView
from reput_testing import snapshot
from reput_tools.offline import run_rebuild

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not os.environ.get("REPUT_SPARK_CLUSTER"), reason="only in spark-cluster"),
]
PLUGINS = ["consumequeue", "index"]
COLUMNS = ["physical_offset", "topic", "body", "keys"]
MESSAGES = 24_000
SPLIT = 1 << 20
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Master and workers; they run this Python, which has everything installed."""
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from reput_spark.session.localsession import prepare_environment

    if SparkSession.getActiveSession() is not None:
        pytest.skip("there is a session in this process: run this file by itself")
    try:
        prepare_environment()
    except SparkReputError as error:
        pytest.skip(str(error))
    for name in (__name__, "sparkcluster"):  # executors do not see the tests' folder
        cloudpickle.register_pickle_by_value(sys.modules[name])
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start_master()
        made.start_worker()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def session(cluster):
    made = local_session(
        cluster.master,
        quick=True,
        config={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield made
    made.stop()


@pytest.fixture
def spark(session, cluster):
    """The session, while two workers are at its service."""
    executors = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos
    if len(cluster.processes) < 3:
        cluster.start_worker()
    until = time.monotonic() + WAIT_S
    while len(executors()) != 3:  # with the driver; Spark tells Python of none
        assert time.monotonic() < until, "the workers have not come"
        time.sleep(0.05)  # Spark tells Python of no executor; bounded by the time above
    return session


@pytest.fixture
def killing(spark, cluster, tmp_path):
    """The engine of the jobs; one task has its worker killed when it has done half of its work."""
    mark = str(tmp_path / "killed")
    engine = SparkEngine(spark)
    run = engine.run

    def running(work, tasks, told=lambda size: None):
        victim = str(tasks[len(tasks) // 2]) if tasks else ""
        return run(functools.partial(_half_done, work, mark, victim), tasks, told)

    engine.run = running
    yield engine
    _wait_killed(cluster, mark)


def _half_done(work, mark, victim, task, report):
    """Do a task; the worker of one in the middle is killed before it can say what came of it."""
    result = work(task, report)
    if str(task) == victim:
        kill_own_worker(mark)
    return result


def _wait_killed(cluster, mark):
    with open(mark) as file:  # is not there where nothing was killed: then the test fails
        cluster.wait_killed(int(file.read()))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A closed store of some splits."""
    root = tmp_path_factory.mktemp("made") / "store"
    config = {
        "commitlog": {"file_size": 2 << 20},
        "consumequeue": {"units_per_file": 2_000},
        "index": {"slots_per_file": 1_000, "items_per_file": 20_000},
    }
    with reput.open(root, plugins=PLUGINS, config=config) as store:
        for first in range(0, MESSAGES, 4_000):
            store.put_many(
                [
                    reput.Message(f"T{number % 3}", b"%d " % number * 60, keys=f"k{number}")
                    for number in range(first, first + 4_000)
                ]
            )
    return root


def rows(table):
    return table.sort_by("physical_offset").select(COLUMNS)


@pytest.fixture(scope="module")
def expected(made):
    """What the log holds, without Spark."""
    with reput.open(made, "r", plugins=()) as store:
        return rows(pa.Table.from_batches([to_arrow(batch) for batch in store.scan()]))


def bodies(root):
    """Those of a store that was written, whatever their order."""
    with reput.open(root, "r", plugins=()) as store:
        return sorted(
            batch.message(row).body for batch in store.scan() for row in range(len(batch))
        )


# --------------------------------------------------------------------------- reading


class DeadlyReader(LogView):
    """Has its worker killed in the middle of a split, when some of its rows are sent already."""

    def __init__(self, options, schema, mark):
        super().__init__(options, schema)
        self.mark = mark

    def read(self, partition):
        for number, batch in enumerate(super().read(partition)):
            yield batch
            if number and partition.task.split.start_offset > 0:
                kill_own_worker(self.mark)


class DeadlySource(ReputDataSource):
    """The data source, with a reader that has its worker killed."""

    mark = ""

    @classmethod
    def name(cls):
        return "deadly"

    def reader(self, schema):
        return DeadlyReader(self._read_options(), schema, self.mark)


@pytest.fixture
def deadly(spark, cluster, made, tmp_path):
    """A DataFrame of the store, the reading of which costs a worker."""
    mark = str(tmp_path / "killed")
    spark.dataSource.register(type("Deadly", (DeadlySource,), {"mark": mark}))
    options = {"columns": "*", "batch_rows": 200, "split_size": SPLIT}
    yield spark.read.format("deadly").options(**options).load(str(made))
    _wait_killed(cluster, mark)


def test_read(deadly, expected):
    table = rows(deadly.select(COLUMNS).toArrow())

    assert table.equals(expected.cast(table.schema))


def test_write(deadly, expected, tmp_path):
    from reput_spark import write

    write(deadly.select("topic", "keys", "body"), tmp_path / "store")

    assert bodies(tmp_path / "store") == sorted(expected["body"].to_pylist())


def test_stream(spark, cluster, made, expected, tmp_path):
    mark = str(tmp_path / "killed")

    def deadly(body):
        if body.startswith(b"15000 "):
            kill_own_worker(mark)
        return body

    with reput.open(tmp_path / "store", plugins=()):
        pass  # there before a stream goes into it
    log = spark.readStream.format("reput").options(split_size=SPLIT, columns="*").load(str(made))
    rows = log.select("topic", "keys", udf(deadly, "binary")("body").alias("body"))
    writer = rows.writeStream.format("reput").option("checkpointLocation", str(tmp_path / "marks"))
    writer.trigger(availableNow=True).start(str(tmp_path / "store")).awaitTermination()

    assert bodies(tmp_path / "store") == sorted(expected["body"].to_pylist())
    _wait_killed(cluster, mark)


# --------------------------------------------------------------------------- jobs


def test_rebuild(killing, made, tmp_path):
    path = shutil.copytree(made, tmp_path / "store")
    before = {name: snapshot(path / name) for name in PLUGINS}
    for name in PLUGINS:
        shutil.rmtree(path / name)

    run_rebuild(path, (), killing, split_size=SPLIT)

    assert {name: snapshot(path / name) for name in PLUGINS} == before
    assert not (path / "reput" / "rebuild").exists()


def test_verify(spark, deadly, made, monkeypatch):
    columns = "store string, physical_offset bigint, damage string"

    def reading(session, paths, **options):
        reader = session.read.format("deadly").schema(columns).option("batch_rows", "200")
        return reader.option("corrupt", "collect").option("check_crc", "true").load(paths)

    monkeypatch.setattr(verifying, "read", reading)

    found = verifying.verify(spark, str(made))

    assert (found.message_count, found.damages) == (MESSAGES, ())


def test_stats(spark, deadly, made):
    found = stats(deadly.select(*STATS_COLUMNS))
    rows = {name: table.collect() for name, table in found.items()}
    spark.catalog.clearCache()

    wanted = stats(read(spark, made, columns=STATS_COLUMNS))
    assert rows == {name: table.collect() for name, table in wanted.items()}
    spark.catalog.clearCache()


def test_export(killing, made, expected, tmp_path):
    done = export(str(made), str(tmp_path / "out"), killing, split_size=SPLIT)

    table = rows(ds.dataset(tmp_path / "out", partitioning="hive").to_table())
    assert table.equals(expected.cast(table.schema))
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == done.file_count


def test_what_nobody_disturbs_is_read_by_both(spark, made):
    frame = read(spark, made, columns=["topic"], split_size=SPLIT)

    assert frame.count() == MESSAGES
