"""Streams of the log: from a store into a store, batch by batch, beside the same in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_store
from benchmarks.tables import SPARK_STREAM
from benchmarks.trial import Latencies, Trial

_BATCHES = 8
_ROWS = 50_000
"""Rows of one batch, in a full run."""
_EMPTY = 8
_CONFIG = {"commitlog": {"file_size": 256 << 20}}
"""Options of each store: a case has several."""
_COLUMNS = ("topic", "body", "queue_id", "keys", "tags")


def cases() -> Iterator[Case]:
    """Without Spark, and with it on all cores."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"spark.stream.{name}.arrow",
            table=SPARK_STREAM,
            run=in_one_process,
            body_size=body,
            needs=("reput", "pyarrow"),
        )
        yield Case(
            name=f"spark.stream.{name}",
            table=SPARK_STREAM,
            run=on_spark,
            body_size=body,
            needs=("reput", "reput_spark", "pyspark", "psutil"),
        )


def in_one_process(trial: Trial) -> None:
    """Batches of the log are put as they are read; the store stays open."""
    import reput
    from reput_arrow import columns_of, schema_of, to_arrow

    rows, source, target = _source(trial)
    schema = schema_of(_COLUMNS)
    with (
        reput.open(source, "r", plugins=()) as log,
        open_store(target, config=_CONFIG) as store,
        trial.timed(
            "reput, scan and put_many, 1 process",
            rows,
            rows * trial.body_size,
            baseline=True,
        ),
    ):
        for batch in log.scan():
            store.put_many(columns_of(to_arrow(batch, schema)))
        store.flush()
    trial.require(_count(target) == rows, "rows were lost")


def on_spark(trial: Trial) -> None:
    """The session exists, and one batch was streamed before."""
    import reput
    from reput_spark import local_session

    rows, source, target = _source(trial)
    cores = os.cpu_count() or 1
    session = local_session(f"local[{cores}]", config={"spark.driver.memory": "2g"})
    try:
        _drained(_started(trial, session, source, trial.directory / "warm", most=rows // 2))
        for sink, where in (("dropped", None), ("into a store", target)):
            label = f"reput-spark, {sink}, local[{cores}]"
            with trial.timed(label, rows, rows * trial.body_size, descendants=True) as measured:
                times = _drained(_started(trial, session, source, where, most=rows // _BATCHES))
                measured.latencies = Latencies.of("batch", times)
        trial.require(_count(target) == rows, "rows were lost")
        query = _started(trial, session, source, trial.directory / "none", topic="nobody's")
        query.processAllAvailable()
        label = f"reput-spark, a batch without a row, local[{cores}]"
        with trial.timed(label, _EMPTY, unit="batches", descendants=True) as measured:
            times = []
            for _ in range(_EMPTY):
                with reput.open(source, plugins=()) as store:
                    store.put(reput.Message("another", b""))
                began = time.perf_counter_ns()
                query.processAllAvailable()
                times.append(time.perf_counter_ns() - began)
            measured.latencies = Latencies.of("batch", times)
        query.stop()
    finally:
        session.stop()


def _source(trial: Trial) -> tuple[int, Path, Path]:
    """Return the number of messages, the store that has them, and the path of the target."""
    import reput

    trial.warm_up()
    rows = trial.count(_ROWS * _BATCHES, _BATCHES * 100)
    body = os.urandom(trial.body_size)
    with reput.open(trial.directory / "source", plugins=(), config=_CONFIG) as store:
        for first in range(0, rows, 10_000):
            numbers = range(first, min(first + 10_000, rows))
            store.put_many(
                reput.Columns(
                    topic="orders",
                    body=[body] * len(numbers),
                    queue_id=[number % 8 for number in numbers],
                    keys=[f"k{number}" for number in numbers],
                    tags="created",
                )
            )
    return rows, trial.directory / "source", trial.directory / "target"


def _started(
    trial: Trial,
    session: Any,
    source: Path,
    target: Path | None,
    most: int | None = None,
    topic: str | None = None,
) -> Any:
    from reput_spark import read_stream

    if target is not None:
        open_store(target, config=_CONFIG).close()
    log = read_stream(session, source, columns=_COLUMNS, max_records_per_batch=most, topic=topic)
    checkpoint = trial.directory / f"checkpoint-{'none' if target is None else target.name}"
    writer = log.writeStream.option("checkpointLocation", str(checkpoint))
    if target is None:
        return writer.format("noop").start()
    return writer.format("reput").start(str(target))


def _drained(query: Any) -> list[int]:
    """Stream all messages and stop; return the time of each batch in nanoseconds."""
    query.processAllAvailable()
    found = [each for each in query.recentProgress if each["numInputRows"]]
    query.stop()
    return [each["durationMs"]["triggerExecution"] * 1_000_000 for each in found]


def _count(root: Path) -> int:
    import reput

    with reput.open(root, "r", plugins=()) as store:
        return sum(len(batch) for batch in store.scan())
