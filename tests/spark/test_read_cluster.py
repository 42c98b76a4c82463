"""A real cluster on this machine: a master and two workers from the installed package.

Takes three JVMs and a minute, so that it runs in an environment of its own: ``spark-cluster``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import zlib

import pytest
from sparkstores import messages_of

import reput
from reput_spark import SparkReputError
from reput_spark.session import prepare_environment

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not os.environ.get("REPUT_SPARK_CLUSTER"), reason="only in spark-cluster"),
]
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)|Successfully (registered) with")

DRIVER = """
import json, os, signal, sys, threading, time

from reput_spark import local_session, read

master, path, victim = sys.argv[1:]
spark = local_session(master, quick=True, config={
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
})
tracker = spark.sparkContext.statusTracker()
workers = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos
frame = read(
    spark, path, columns=["physical_offset", "topic", "body", "keys"], split_size=65536
).selectExpr(
    "count(*) AS n", "sum(physical_offset) AS offsets", "sum(crc32(body)) AS bodies",
    "sum(crc32(encode(topic, 'UTF-8')) + crc32(encode(keys[0], 'UTF-8'))) AS texts",
)
found = {}
job = threading.Thread(target=lambda: found.update(row=frame.collect()[0].asDict()))
job.start()
while job.is_alive() and "done" not in found:
    for stage in tracker.getActiveStageIds():
        about = tracker.getStageInfo(stage)
        if about is not None and about.numCompletedTasks >= 30:
            # Driver and master count as none of them: both workers are at work.
            found["executors"] = len(workers()) - 1
            found["done"], found["of"] = about.numCompletedTasks, about.numTasks
            os.killpg(int(victim), signal.SIGKILL)
            break
    time.sleep(0.01)  # Spark tells nobody how far a job is; a job that ends ends the loop
job.join()
found["left"] = len(workers()) - 1
print("found", json.dumps(found))
spark.stop()
"""


class Cluster:
    """Processes of ``spark-class``; each leads a group of its own, its executors included."""

    def __init__(self, directory):
        import pyspark

        self.home = os.path.dirname(pyspark.__file__)
        self.directory = directory
        self.processes = []
        self.readers = []
        self.environment = {
            **os.environ,
            "SPARK_HOME": self.home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(directory / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
        }

    def start(self, kind, *arguments):
        """Start a daemon; its group, and what it says once it is ready."""
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        process = subprocess.Popen(
            [f"{self.home}/bin/spark-class", name, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        said = []
        for line in process.stderr:
            said.append(line)
            found = _STARTED.search(line)
            if found:
                # What it goes on to say must not fill the pipe.
                reader = threading.Thread(target=process.stderr.read)
                reader.start()
                self.readers.append(reader)
                return process.pid, found[1]
        raise AssertionError("".join(said))

    def stop(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        for reader in self.readers:
            reader.join()
        for process in self.processes:
            process.stderr.close()


@pytest.fixture
def cluster(tmp_path):
    pytest.importorskip("pyspark")
    try:
        prepare_environment()
    except SparkReputError as error:
        pytest.skip(str(error))
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    config = {"commitlog": {"file_size": 8 << 20, "preallocate": False}}
    with reput.open(tmp_path / "store", plugins=(), config=config) as store:
        for first in range(0, 30_000, 5_000):
            store.put_many(
                [
                    reput.Message(f"T{number % 3}", b"%d " % number * 60, keys=[f"k{number}"])
                    for number in range(first, first + 5_000)
                ]
            )
    _, master = cluster.start("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    arguments = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "600m", master]
    victim, _ = cluster.start("Worker", *arguments)
    cluster.start("Worker", *arguments)

    done = subprocess.run(
        [sys.executable, "-c", DRIVER, master, str(tmp_path / "store"), str(victim)],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=tmp_path,
    )

    lines = [each for each in done.stdout.splitlines() if each.startswith("found ")]
    assert lines, done.stderr
    found = json.loads(lines[0].removeprefix("found "))
    messages = messages_of(tmp_path / "store")
    assert found["row"] == {
        "n": len(messages),
        "offsets": sum(each.physical_offset for each in messages),
        "bodies": sum(zlib.crc32(each.body) for each in messages),
        "texts": sum(
            zlib.crc32(each.topic.encode()) + zlib.crc32(each.keys[0].encode()) for each in messages
        ),
    }
    assert 30 <= found["done"] < found["of"]
    assert (found["executors"], found["left"]) == (2, 1)
