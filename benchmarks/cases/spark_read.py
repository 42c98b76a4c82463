"""The log as rows of Spark, beside the same columns as Arrow batches in one process."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import SPARK_READ
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from reput_arrow.reader.readtasks import Task

_BATCH_ROWS = 8_192

_METADATA = ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp")


def cases() -> Iterator[Case]:
    """All columns, body and topic, five small ones; without Spark, and with it on all cores."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"spark.read.{name}.arrow",
            table=SPARK_READ,
            run=in_processes,
            body_size=body,
            needs=("reput", "pyarrow", "reput_arrow", "reput_tools.offline", "psutil"),
            big_log=True,
        )
        yield Case(
            name=f"spark.read.{name}",
            table=SPARK_READ,
            run=on_spark,
            body_size=body,
            needs=("reput", "reput_spark", "pyspark", "psutil"),
            big_log=True,
        )


def in_processes(trial: Trial) -> None:
    """Batches are made and dropped, as Spark's sink ``noop`` drops rows.

    The first row of several processes holds their start; the rows after it do not.
    """
    from reput_arrow import COLUMNS
    from reput_arrow.reader.wholelogs import plan
    from reput_tools.offline import LocalEngine

    assert trial.big_log is not None
    trial.warm_up()
    every = tuple(column.name for column in COLUMNS)
    choices = (("all columns", every), ("5 small columns", _METADATA))
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        again = (("all columns once more", every),) if jobs > 1 else ()
        with LocalEngine(jobs) as engine:
            for label, columns in choices + again:
                title = f"Arrow without Spark, {label}, {jobs} process{'es' * (jobs > 1)}"
                is_first = jobs == 1 and columns is every
                with trial.timed(title, 0, baseline=is_first, descendants=jobs > 1) as measured:
                    tasks = plan(str(trial.big_log), jobs)
                    work = functools.partial(_make_and_drop, columns)
                    measured.count = sum(engine.run(work, tasks))
                measured.size = sum(task.size for task in tasks)


def _make_and_drop(columns: Sequence[str], task: Task, report: Callable[[int], None]) -> int:
    from reput_arrow import schema_of, to_arrow
    from reput_arrow.reader.selection import Selection
    from reput_arrow.reader.wholelogs import batches_of

    schema, count = schema_of(columns, unit="us"), 0
    for batch in batches_of(task, report, Selection(paths=(task.place.store,))):
        for first in range(0, len(batch), _BATCH_ROWS):
            count += to_arrow(batch[first : first + _BATCH_ROWS], schema).num_rows
    return count


def on_spark(trial: Trial) -> None:
    """The session exists, and its workers have imported what they need."""
    from reput_arrow import COLUMNS
    from reput_spark import local_session, read

    assert trial.big_log is not None
    trial.warm_up()
    size = _size(trial.big_log)
    cores = os.cpu_count() or 1
    session = local_session(f"local[{cores}]", config={"spark.driver.memory": "2g"})
    path, parquet = str(trial.big_log), str(trial.directory / "rows.parquet")
    every = [column.name for column in COLUMNS]
    choices = (("all columns", every), ("5 small columns", list(_METADATA)))
    try:
        count = read(session, path, columns=["queue_id"]).count()
        # Each way has made rows of each choice of columns before they are measured: the JVM has
        # compiled what Spark generates for them.
        read(session, path, columns=every).write.parquet(parquet)
        ways: list[tuple[str, Callable[[list[str]], Any]]] = [
            ("reput-spark", lambda names: read(session, path, columns=names)),
            ("Parquet in Spark", lambda names: session.read.parquet(parquet).select(*names)),
        ]
        for name, frame_of in ways:
            for label, columns in choices:
                _drop(frame_of(columns))
                title = f"{name}, {label}, local[{cores}]"
                with _timed(trial, title, count, size):
                    _drop(frame_of(columns))
        with _timed(trial, f"reput-spark, count, local[{cores}]", count, size):
            found = read(session, path, columns=["queue_id"]).count()
        trial.require(found == count, f"{found} rows, {count} before")
        _few(trial, session, path)
    finally:
        session.stop()


def _few(trial: Trial, session: Any, path: str) -> None:
    """Ask for little of a large log: ten messages of a queue, and the last twentieth by time."""
    from reput_spark import read

    first = read(session, path, columns=["topic", "queue_id"], max_offset=1 << 20).first()
    queue = {"topic": first.topic, "queue_id": first.queue_id}
    queue.update(min_queue_offset=10, max_queue_offset=20)
    times = read(session, path, columns=["store_timestamp"])
    (low, high), *_ = times.selectExpr(
        "unix_millis(min(store_timestamp))", "unix_millis(max(store_timestamp))"
    ).collect()
    start = high - (high - low) // 20
    for label, options in (
        ("ten messages of a queue", queue),
        ("the last 5 % by time", {"start": start}),
    ):
        read(session, path, columns=["queue_offset"], **options).collect()
        with trial.timed(f"reput-spark, {label}", 0, 0, descendants=True) as measured:
            frame = read(session, path, columns=["queue_offset", "physical_offset"], **options)
            measured.count = len(frame.collect())
        if "topic" in options:
            trial.require(measured.count == 10, f"{measured.count} messages of ten")


@contextlib.contextmanager
def _timed(trial: Trial, title: str, count: int, size: int) -> Iterator[None]:
    with trial.timed(title, count, size, descendants=True) as measured:
        yield
    per_size = measured.cpu_seconds * (1 << 30) / size
    measured.facts["processor seconds a GiB"] = f"{per_size:.2f}"


def _drop(frame: Any) -> None:
    """Make every row and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def _size(root: Path) -> int:
    import reput

    with reput.open(root, "r", plugins=()) as store:
        return store.log.max_physical_offset - store.log.min_physical_offset
