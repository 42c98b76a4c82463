"""Runs tasks on Spark's executors: each reads its split where the log is, and no row is sent.

A job is a data source of its own, whose partitions are the tasks, and whose rows are what came of
them, one for each. So results travel as Spark's do, also through Spark Connect, of each task those
of one attempt count, and a task that fails is begun anew as often as the session allows. What a
task writes, it writes so that no other attempt is in its way; see `reput_rebuild.tasks`.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from reput.errors import CorruptFileError, ReputError
from reput_spark.errors import SparkReputError, code_of, with_code
from reput_spark.jobs.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput_rebuild.engine import Task, Work

__all__ = ["SparkEngine", "TaskPartition", "TaskReader", "failure_of", "task_source"]

_SCHEMA = "number long, result binary"


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
    """Tasks that the session runs at once; a guess where it does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return os.cpu_count() or 1


# ---------------------------------------------------------------------- what Spark calls


class TaskPartition(InputPartition):
    """One task."""

    def __init__(self, number: int, task: Task) -> None:
        super().__init__(number)
        self.task = task


class TaskReader(DataSourceReader):
    """Does tasks; the row of each is its number and its pickled result."""

    def __init__(self, work: Work, tasks: Sequence[Task]) -> None:
        self.work = work
        self.tasks: Sequence[Task] = tasks

    def __getstate__(self) -> dict[str, Any]:
        """Without the tasks: each executor is given those that it does."""
        return {"work": self.work, "tasks": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        return [TaskPartition(number, task) for number, task in enumerate(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Do one task."""
        assert isinstance(partition, TaskPartition)
        try:
            with with_code():
                result = self.work(partition.task, lambda size: None)
        except SparkReputError:
            raise
        except ReputError as error:
            code = "DAMAGED" if isinstance(error, CorruptFileError) else "JOB"
            raise SparkReputError(code, f"{partition.task}: {error}") from error
        except Exception as error:
            text = f"{partition.task}: {type(error).__name__}: {error}"
            raise SparkReputError("JOB", text) from error
        yield pa.record_batch(
            [pa.array([partition.value], pa.int64()), pa.array([pickle.dumps(result)])],
            names=["number", "result"],
        )


class _TaskSource(DataSource):
    """A job. Each is a class of its own, which goes to Spark by value, with its tasks.

    Not by options, which are texts that anybody who can write SQL may set.
    """

    job = ""
    work: Any = None
    tasks: Sequence[Task] = ()

    @classmethod
    def name(cls) -> str:
        return cls.job

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        (work,) = self.work
        return TaskReader(work, self.tasks)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


def task_source(work: Work, tasks: Sequence[Task]) -> type[DataSource]:
    """The data source that does tasks."""
    members = {
        "job": f"reput-job-{uuid.uuid4().hex}",
        "work": (work,),  # in a tuple, for a function that a class holds becomes its method
        "tasks": list(tasks),
    }
    return type("TaskSource", (_TaskSource,), members)


def failure_of(error: Exception) -> SparkReputError:
    """Ours out of Spark's text; Spark's own, shortened, where it is none of ours."""
    code = code_of(error)
    text = str(error)
    if code is None:
        return SparkReputError("JOB", text.strip().partition("\n")[0] or type(error).__name__)
    _, _, rest = text.partition(f"[REPUT_{code}] ")
    return SparkReputError(code, rest.partition("\n")[0].strip())
