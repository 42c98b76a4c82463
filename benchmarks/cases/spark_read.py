"""The log as rows of Spark, beside the same columns as Arrow batches in one process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import SPARK_READ
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from reput_arrow.reading.tasks import Task

__all__ = ["cases"]

_BATCH_ROWS = 8_192

_FLAT = [
    "topic", "queue_id", "queue_offset", "physical_offset", "size", "tags", "body", "flag",
    "sys_flag", "born_timestamp", "store_timestamp", "reconsume_times",
]  # fmt: skip
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
            needs=("reput", "pyarrow", "reput_spark", "psutil"),
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
    """Batches are made and dropped, as Spark's sink ``noop`` drops rows."""
    from reput_arrow import COLUMNS
    from reput_arrow.reading.whole import plan
    from reput_rebuild.engine import LocalEngine

    assert trial.big_log is not None
    trial.warm_up()
    every = tuple(column.name for column in COLUMNS)
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        with LocalEngine(jobs) as engine:
            for label, columns in (("all columns", every), ("5 small columns", _METADATA)):
                title = f"Arrow without Spark, {label}, {jobs} process{'es' * (jobs > 1)}"
                is_first = jobs == 1 and columns is every
                with trial.timed(title, 0, baseline=is_first, descendants=jobs > 1) as measured:
                    tasks = plan(str(trial.big_log), jobs)
                    work = functools.partial(_make_and_drop, columns)
                    measured.count = sum(engine.run(work, tasks))
                measured.size = sum(task.size for task in tasks)


def _make_and_drop(columns: Sequence[str], task: Task, report: Callable[[int], None]) -> int:
    from reput_arrow import schema_of, to_arrow
    from reput_arrow.reading.whole import batches_of

    schema, count = schema_of(columns, unit="us"), 0
    for batch in batches_of(task, report):
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
    try:
        path = str(trial.big_log)
        every = [column.name for column in COLUMNS]
        _drop(read(session, path, columns=["topic"], max_offset=1 << 20))
        count = read(session, path, columns=["queue_id"]).count()
        for label, columns in (
            ("all columns", every),
            ("numbers, topic, tags, body", _FLAT),
            ("5 small columns", list(_METADATA)),
        ):
            title = f"reput-spark, {label}, local[{cores}]"
            with trial.timed(title, count, size, descendants=True):
                _drop(read(session, path, columns=columns))
        with trial.timed(f"reput-spark, count, local[{cores}]", count, size, descendants=True):
            found = read(session, path, columns=["queue_id"]).count()
        trial.require(found == count, f"{found} rows, {count} before")
    finally:
        session.stop()


def _drop(frame: Any) -> None:
    """Make every row and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def _size(root: Path) -> int:
    import reput

    with reput.open(root, "r", plugins=()) as store:
        return store.log.max_physical_offset - store.log.min_physical_offset
