"""Spark reads a store, in batches and as a stream, while a follower feeds it."""

from __future__ import annotations

import pytest

pytest.importorskip("reput_server.follow")

from fakemaster import FakeLog, FakeMaster
from followers import caught_up, followed
from masterlogs import log_of, message

from reput_server.follow import FollowConfig
from reput_spark import read, read_stream

HALF, COUNT = 150, 300


def test_each_message_of_a_master_is_in_the_stream_once(spark, tmp_path):
    first = log_of(tmp_path / "master", HALF)
    rest = log_of(tmp_path / "master", COUNT - HALF, start=HALF)[len(first) :]
    root, out = str(tmp_path / "followed"), str(tmp_path / "out")

    def run():
        log = read_stream(spark, root, columns=["topic", "body"])
        query = log.writeStream.format("parquet").option("checkpointLocation", f"{out}-place")
        query.trigger(availableNow=True).start(out).awaitTermination()
        return sorted(bytes(row.body) for row in spark.read.parquet(out).collect())

    config = FollowConfig(ask_interval=0.01, retry_interval=0.01)
    with (
        FakeMaster(FakeLog(first)) as master,
        followed(root, master, config) as (store, follower),
    ):
        caught_up(follower)
        begun = run()
        master.append(rest)
        caught_up(follower)
        assert store.log.max_physical_offset == len(first) + len(rest)
        ended = run()
        batch = [bytes(row.body) for row in read(spark, root, columns=["body"]).collect()]

    bodies = [bytes(message(at).body) for at in range(COUNT)]
    assert begun == sorted(bodies[:HALF])
    assert ended == sorted(batch) == sorted(bodies)
