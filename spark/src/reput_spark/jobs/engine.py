"""Run tasks on Spark's executors: each reads its split where the log is, and no row is sent."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reput_spark.errors import SparkReputError, code_of
from reput_spark.jobs.watching import watched
from reput_spark.source.tasks import task_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput_rebuild.engine import Task, Work

__all__ = ["SparkEngine", "failure_of"]


class SparkEngine:
    """Runs tasks on a Spark session; see `reput_rebuild.engine.Engine`."""

    splits = True
    is_here = False

    def __init__(self, spark: SparkSession, parallelism: int | None = None) -> None:
        self._spark = spark
        self.parallelism = parallelism or _parallelism_of(spark)

    def run(
        self, work: Work, tasks: Sequence[Task], told: Callable[[int], None] = lambda size: None
    ) -> list[Any]:
        """See `Engine.run`.

        Raises:
            SparkReputError: a task failed as often as Spark began it; the text says which.
        """
        if not tasks:
            return []
        source = task_source(work, tasks)
        self._spark.dataSource.register(source)
        size = sum(task.size for task in tasks)
        try:
            with watched(self._spark, len(tasks), lambda share: told(round(size * share))):
                rows = self._spark.read.format(source.name()).load().collect()
        except Exception as error:
            raise failure_of(error) from error
        results = {row.number: pickle.loads(bytes(row.result)) for row in rows}
        if sorted(results) != list(range(len(tasks))):
            raise SparkReputError("JOB", f"{len(results)} results came of {len(tasks)} tasks")
        told(size)
        return [results[number] for number in range(len(tasks))]


def _parallelism_of(spark: SparkSession) -> int:
    """Return how many tasks the session runs at once; a guess where it does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return os.cpu_count() or 1


def failure_of(error: Exception) -> SparkReputError:
    """Return our error from the text of Spark's; Spark's own text, shortened, without one."""
    code = code_of(error)
    text = str(error)
    if code is None:
        return SparkReputError("JOB", text.strip().partition("\n")[0] or type(error).__name__)
    _, _, rest = text.partition(f"[REPUT_{code}] ")
    return SparkReputError(code, rest.partition("\n")[0].strip())
