"""The log as Parquet files: in one process, on all cores, on Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.case import BODIES, Case, body_name
from benchmarks.tables import EXPORT
from benchmarks.trial import Trial

if TYPE_CHECKING:
    from reput_tools.offline import Engine


def cases() -> Iterator[Case]:
    """All columns, zstd, by topic and day."""
    for body in BODIES:
        name = body_name(body)
        yield Case(
            name=f"export.{name}",
            table=EXPORT,
            run=on_this_machine,
            body_size=body,
            needs=("reput", "reput_arrow.export", "pyarrow", "psutil"),
            big_log=True,
        )
        yield Case(
            name=f"export.spark.{name}",
            table=EXPORT,
            run=on_spark,
            body_size=body,
            needs=("reput", "reput_spark", "pyspark", "psutil"),
            big_log=True,
        )


def on_this_machine(trial: Trial) -> None:
    """One process, and one process per processor."""
    from reput_tools.offline import LocalEngine

    trial.warm_up()
    for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
        with LocalEngine(jobs) as engine:
            label = f"reput export, {jobs} process{'es' * (jobs > 1)}"
            _export(trial, engine, label, baseline=jobs == 1)


def on_spark(trial: Trial) -> None:
    """The session exists, and its workers have imported what they need."""
    from reput_arrow.export.exporter.exportjob import export
    from reput_spark import local_session
    from reput_spark.jobs.sparkengine import SparkEngine

    trial.warm_up()
    cores = os.cpu_count() or 1
    session = local_session(f"local[{cores}]")
    try:
        engine = SparkEngine(session)
        export(str(trial.directory / "warm-up"), str(trial.directory / "small"), engine)
        _export(trial, engine, f"reput-spark, local[{cores}]", baseline=False)
    finally:
        session.stop()


def _export(trial: Trial, engine: Engine, label: str, *, baseline: bool) -> None:
    from reput_arrow.export.exporter.exportjob import export

    target = trial.directory / "parquet"
    with trial.timed(label, 0, baseline=baseline, descendants=True) as measured:
        done = export(str(trial.big_log), str(target), engine)
    measured.count, measured.size = done.message_count, done.size
    measured.facts["written"] = f"{done.written_size / 1e6:.0f} MB in {done.file_count} files"
    shutil.rmtree(target)
