"""The log as rows of Spark, beside the same columns as Arrow batches in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import SPARK_READ
from benchmarks.trial import Trial

__all__ = ["cases"]

_METADATA = ("topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp")


def cases() -> Iterator[Case]:
    """All columns and five small ones; without Spark, and with it on all cores."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"spark.read.{name}.arrow",
            table=SPARK_READ,
            run=in_one_process,
            body_size=body,
            needs=("reput", "pyarrow"),
            big_log=True,
        )
        yield Case(
            name=f"spark.read.{name}",
            table=SPARK_READ,
            run=on_spark,
            body_size=body,
            needs=("reput", "reput_spark", "pyspark"),
            big_log=True,
        )


def in_one_process(trial: Trial) -> None:
    """Batches are made and dropped, as Spark's sink that keeps nothing drops them."""
    import reput
    from reput.arrow import COLUMNS, schema_of, to_arrow

    assert trial.big_log is not None
    trial.warm_up()
    size = _size(trial.big_log)
    for label, columns in (
        ("reput, Arrow, all columns, 1 process", [column.name for column in COLUMNS]),
        ("reput, Arrow, 5 small columns, 1 process", _METADATA),
    ):
        schema, count = schema_of(columns, unit="us"), 0
        with (
            reput.open(trial.big_log, "r", plugins=()) as store,
            trial.timed(label, 0, size, baseline=columns is not _METADATA) as measured,
        ):
            for batch in store.scan():
                for first in range(0, len(batch), 8_192):
                    count += to_arrow(batch[first : first + 8_192], schema).num_rows
        measured.count = count


def on_spark(trial: Trial) -> None:
    """The session is there, and its workers have imported what they need."""
    from reput.arrow import COLUMNS
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
        for label, columns in (("all columns", every), ("5 small columns", list(_METADATA))):
            with trial.timed(f"reput-spark, {label}, local[{cores}]", count, size):
                _drop(read(session, path, columns=columns))
        with trial.timed(f"reput-spark, count, local[{cores}]", count, size):
            found = read(session, path, columns=["queue_id"]).count()
        trial.require(found == count, f"{found} rows, {count} before")
    finally:
        session.stop()


def _drop(frame: Any) -> None:
    """Make every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def _size(root: Path) -> int:
    import reput

    with reput.open(root, "r", plugins=()) as store:
        return store.log.max_physical_offset - store.log.min_physical_offset
