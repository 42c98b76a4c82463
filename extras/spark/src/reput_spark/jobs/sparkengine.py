"""Run tasks on Spark's executors: each reads its split where the log is, and no row is sent.

A job is a column of a DataFrame of numbers: a function of Spark's does the task of each number,
and returns what came of it. So results travel as Spark's do, also through Spark Connect; of each
task those of one attempt count, and a task that fails is begun again as often as the session
allows. What a task writes, it writes so that no other attempt is in its way.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reput.errors import CorruptFileError, ReputError
from reput_spark.errors import SparkReputError, code_of, with_code
from reput_spark.jobs.jobwatch import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from reput_tools.offline import Task, Work


class SparkEngine:
    """Runs tasks on a Spark session; see `reput_tools.offline.Engine`."""

    splits = True
    is_here = False
    is_local = False

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
        from pyspark import cloudpickle
        from pyspark.sql.functions import udf

        if not tasks:
            return []
        count, size = len(tasks), sum(task.size for task in tasks)
        # As bytes: every task gets the whole list, and takes in only its own.
        pickled: Callable[[Any], bytes] = cloudpickle.dumps
        given = [pickled(task) for task in tasks]
        do = udf(lambda number: do_task(work, given[number]), "binary", useArrow=False)
        # Not to be called a second time, whatever Spark makes of the plan.
        result = do.asNondeterministic()("id").alias("result")
        # As many partitions as numbers: one for each task.
        frame = self._spark.range(0, count, 1, count).select("id", result)
        rows = collected(frame, lambda share: told(round(size * share)))
        results = {row.id: pickle.loads(bytes(row.result)) for row in rows}
        told(size)
        return [results[number] for number in range(count)]


def collected(frame: DataFrame, told: Callable[[float], None] = lambda share: None) -> list[Row]:
    """Return all rows of a DataFrame.

    Args:
        frame: the DataFrame.
        told: called with the share of Spark's tasks that are done, which never falls.

    Raises:
        SparkReputError: a task failed as often as Spark began it.
    """
    try:
        with watched(frame.sparkSession, told):
            rows: list[Row] = frame.collect()
            return rows
    except Exception as error:
        raise failure_of(error) from error


def do_task(work: Work, given: bytes) -> bytes:
    """Do one task, on an executor.

    Args:
        work: see `reput_tools.offline.Work`.
        given: the task, pickled.

    Returns:
        What came of it, pickled.

    Raises:
        SparkReputError: whatever was raised, with a code and the task in its text, as Spark keeps
            nothing else of it.
    """
    task = pickle.loads(given)
    try:
        with with_code():
            return pickle.dumps(work(task, lambda size: None))
    except SparkReputError:
        raise
    except ReputError as error:
        code = "DAMAGED" if isinstance(error, CorruptFileError) else "JOB"
        raise SparkReputError(code, f"{task}: {error}") from error
    except Exception as error:
        raise SparkReputError("JOB", f"{task}: {type(error).__name__}: {error}") from error


def _parallelism_of(spark: SparkSession) -> int:
    """Return how many tasks the session runs at once; a guess where it does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return os.cpu_count() or 1


def failure_of(error: Exception) -> SparkReputError:
    """Return our error from the text of a Spark error; without one, the shortened text."""
    code = code_of(error)
    text = str(error)
    if code is None:
        return SparkReputError("JOB", text.strip().partition("\n")[0] or type(error).__name__)
    _, _, rest = text.partition(f"[REPUT_{code}] ")
    return SparkReputError(code, rest.partition("\n")[0].strip())
