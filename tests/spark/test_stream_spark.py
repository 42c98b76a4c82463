"""Streams with Spark itself: from store to store, replays, kills, files that go."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import sessions
from sparkstores import FILE_SIZE, fill, messages_of

import reput
from reput_spark import code_of, read_stream
from reput_spark.writer.segments import directory_of
from reput_testing.casebudget import is_soak

KILLS = 25 if is_soak() else 2


def rows_in(root):
    """What a message is, wherever it stands."""
    return [
        (each.topic, each.queue_id, each.body, each.properties, each.flag, each.born_timestamp)
        for each in messages_of(root)
    ]


def run(log, target, checkpoint, format_name="reput", **options):
    """Stream all that is there, and end."""
    writer = log.writeStream.format(format_name).option("checkpointLocation", str(checkpoint))
    query = writer.options(**options).trigger(availableNow=True).start(str(target))
    query.awaitTermination()
    return [each["numInputRows"] for each in query.recentProgress]


def log_of(spark, root, **options):
    return spark.readStream.format("reput").options(columns="*", **options).load(str(root))


@pytest.fixture
def source(tmp_path):
    fill(tmp_path / "source", 120)
    return tmp_path / "source"


def test_a_stream_from_store_to_store_is_a_copy_also_when_it_is_replayed(spark, source, tmp_path):
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    run(log_of(spark, source), target, checkpoint, file_size=FILE_SIZE)
    fill(source, 30, 120)

    run(log_of(spark, source), target, checkpoint)

    assert rows_in(target) == rows_in(source)
    # As if Spark had died between our commit and its own.
    last = max(int(name) for name in os.listdir(checkpoint / "commits") if name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    assert run(log_of(spark, source), target, checkpoint)[0] == 30
    assert rows_in(target) == rows_in(source)
    (notes,) = (target / "reput" / "spark").iterdir()
    assert os.listdir(notes) == ["committed.json"]


def test_a_stream_follows_a_log_that_grows_over_the_ends_of_its_files(spark, source, tmp_path):
    pytest.importorskip("reput_consumequeue")
    target = tmp_path / "target"
    log = read_stream(spark, source, columns=["topic", "body", "keys"], max_records_per_batch=50)
    writer = log.writeStream.format("reput").option("checkpointLocation", str(tmp_path / "c"))
    writer = writer.option("plugins", "consumequeue").option("file_size", FILE_SIZE)
    query = writer.start(str(target))
    try:
        query.processAllAvailable()
        before = len(messages_of(target))
        with reput.open(source, plugins=()) as store:
            for number in range(40):
                store.put(reput.Message("late", b"%d" % number * 500))
            query.processAllAvailable()  # while the writer has it open
        batches = [each["numInputRows"] for each in query.recentProgress]
    finally:
        query.stop()

    assert before == 120
    assert max(batches) <= 50
    assert [each.body for each in messages_of(target)] == [
        each.body for each in messages_of(source)
    ]
    with reput.open(target, "r") as store:
        assert {each.max_queue_offset for each in store.queues() if each.topic == "late"} == {40}


def test_a_log_is_streamed_into_other_sinks_as_well(spark, source, tmp_path):
    for count in (120, 20):
        if count == 20:
            fill(source, 20, 120)
        log = log_of(spark, source, topic="topic-1,topic-2")
        run(log.select("physical_offset", "tags"), tmp_path / "out", tmp_path / "c", "parquet")

    found = spark.read.parquet(str(tmp_path / "out")).orderBy("physical_offset").toArrow()

    wanted = [each for each in messages_of(source) if each.topic in ("topic-1", "topic-2")]
    assert found.column("physical_offset").to_pylist() == [each.physical_offset for each in wanted]
    assert found.column("tags").to_pylist() == [each.tags for each in wanted]


def test_files_that_went_are_an_error_or_passed_over(spark, source, tmp_path):
    from pyspark.errors import StreamingQueryException

    checkpoint, target = tmp_path / "c", tmp_path / "target"
    first = log_of(spark, source, max_records_per_batch=5)
    run(first, target, checkpoint, file_size=FILE_SIZE)
    done = len(rows_in(target))  # 5 where Spark asks once, all where it goes on
    fill(source, 100, 120)
    for path in sorted((source / "commitlog").iterdir())[:-2]:
        path.unlink()

    with pytest.raises(StreamingQueryException) as caught:
        run(log_of(spark, source), target, checkpoint)
    assert code_of(caught.value) == "DATA_LOSS"
    assert "failOnDataLoss" in str(caught.value) or "fail_on_data_loss" in str(caught.value)
    run(log_of(spark, source, failOnDataLoss="false"), target, checkpoint)

    assert rows_in(target)[done:] == rows_in(source)


def test_what_is_wrong_is_said_before_anything_is_streamed(spark, source, tmp_path):
    from pyspark.errors import PySparkException

    log = log_of(spark, source)
    for frame, options, said in [
        (lambda: log.select("topic"), {}, "no column 'body'"),
        (lambda: log.withColumn("colour", log.topic), {}, "colour"),
        (lambda: log, {"txn_id": "x"}, "txn_app_id"),
        (lambda: log_of(spark, source, startin="latest"), {}, "starting"),
    ]:
        with pytest.raises(PySparkException) as caught:
            run(frame(), tmp_path / "target", tmp_path / "c", **options)
        assert code_of(caught.value) == "OPTION"
        assert said in str(caught.value)
    assert not (tmp_path / "target").exists()


@pytest.mark.shows("spark-rows")
@pytest.mark.proof
def test_a_query_that_is_killed_again_and_again_puts_each_row_once(spark, source, tmp_path):
    fill(source, 480 + 200 * KILLS, 120)
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    said, kills = tmp_path / "said.log", 0
    for number in range(KILLS):
        before = _batches(target)
        process = sessions.start("stream_life.py", source, target, checkpoint, log=said)
        try:
            sessions.wait_until(lambda: _batches(target) > before + number % 2, process)  # noqa: B023
            # The next one: while its tasks write, or while its rows are put.
            name = "intent.json" if number % 2 else ".arrow"
            sessions.wait_until(lambda: _has(target, name), process)  # noqa: B023
        except AssertionError as error:
            raise AssertionError(f"{error}\n{said.read_text(errors='replace')[-4_000:]}") from error
        finally:
            kills += sessions.kill(process) > 2  # Python, Java, and Python once more
    assert kills == KILLS
    assert len(rows_in(target)) < len(rows_in(source))

    # Spark 4.1 ends such a run behind the batch that was cut off; the next one does the rest.
    while sum(run(log_of(spark, source), target, checkpoint)):
        pass

    assert rows_in(target) == rows_in(source)


def _notes(target):
    found = list((target / "reput" / "spark").glob("query-*"))
    return found[0] if found else Path(directory_of(str(target), "none"))


def _batches(target):
    """Batches that are committed."""
    try:
        text = (_notes(target) / "committed.json").read_text()
    except FileNotFoundError:
        return 0
    return int(re.search(r'"batch_id": (\d+)', text)[1]) + 1


def _has(target, end):
    notes = _notes(target)
    return notes.exists() and any(name.endswith(end) for name in os.listdir(notes))
