"""Rows of Spark as a store, beside puts of the same columns in one process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import SPARK_WRITE
from benchmarks.trial import Trial

_BATCH_ROWS = 8_192
_COLUMNS = ("topic", "queue_id", "tags", "keys", "properties", "flag", "born_timestamp", "body")


def cases() -> Iterator[Case]:
    """Columns out of a log, put by one process, and written by Spark on all cores."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"spark.write.{name}.put",
            table=SPARK_WRITE,
            run=in_one_process,
            body_size=body,
            needs=("reput", "pyarrow", "psutil"),
            big_log=True,
        )
        yield Case(
            name=f"spark.write.{name}",
            table=SPARK_WRITE,
            run=on_spark,
            body_size=body,
            needs=("reput", "reput_spark", "pyspark", "psutil"),
            big_log=True,
        )


def in_one_process(trial: Trial) -> None:
    """Arrow batches of one log, put into another, flushed at the end."""
    import reput
    from reput_arrow import columns_of, to_arrow

    assert trial.big_log is not None
    trial.warm_up()
    target = trial.directory / "put"
    label = "Arrow columns, store.put_many, 1 process"
    with (
        reput.open(trial.big_log, "r", plugins=()) as source,
        trial.timed(label, 0, baseline=True) as measured,
        reput.open(target, plugins=()) as store,
    ):
        for batch in source.scan():
            for first in range(0, len(batch), _BATCH_ROWS):
                part = batch[first : first + _BATCH_ROWS]
                store.put_many(columns_of(to_arrow(part, _COLUMNS)))
                measured.count += len(part)
        store.flush()
        measured.size = store.log.max_physical_offset
    shutil.rmtree(target)


def on_spark(trial: Trial) -> None:
    """The session exists, and its workers have imported what they need."""
    from reput_spark import local_session, read, write

    assert trial.big_log is not None
    trial.warm_up()
    cores = os.cpu_count() or 1
    session = local_session(f"local[{cores}]", config={"spark.driver.memory": "2g"})
    try:
        path = str(trial.big_log)
        small = read(session, path, columns=_COLUMNS, max_offset=1 << 20)
        write(small, trial.directory / "small", file_size=4 << 20)
        small.write.format("reput").mode("append").save(str(trial.directory / "small"))
        frame = read(session, path, columns=_COLUMNS)
        expected = read(session, path, columns=["queue_id"]).count()
        target = _store_in(trial)
        title = f"reput-spark, df.write, local[{cores}]"
        with trial.timed(title, expected, descendants=True) as measured:
            frame.write.format("reput").mode("append").save(str(target))
        measured.size = _size(target)
        shutil.rmtree(target)
        _store_in(trial)
        title = f"reput-spark, reput_spark.write, local[{cores}]"
        with trial.timed(title, expected, descendants=True) as measured:
            done = write(frame, target)
        measured.size = _size(target)
        trial.require(done.record_count == expected, f"{done.record_count} of {expected} rows")
        found = read(session, target, columns=["queue_id"]).count()
        trial.require(found == expected, f"{found} of {expected} rows are there")
        shutil.rmtree(target)
    finally:
        session.stop()


def _store_in(trial: Trial) -> Path:
    """Make a store without plugins, as one process has beside it; return its directory."""
    import reput

    target = trial.directory / "written"
    reput.open(target, plugins=()).close()
    return target


def _size(root: Path) -> int:
    """Return the bytes of records, without the unused ends of files."""
    import reput

    with reput.open(root, "r", plugins=()) as store:
        return sum(int(batch.size.sum()) for batch in store.scan())
