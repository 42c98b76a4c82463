"""A job as a data source: its partitions are the tasks, and its rows are what came of them.

There is one row for each task. So results travel as Spark's do, also through Spark Connect, of each
task those of one attempt count, and a task that fails is begun again as often as the session
allows. What a task writes, it writes so that no other attempt is in its way; see
`reput_rebuild.tasks`.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from reput.errors import CorruptFileError, ReputError
from reput_spark.errors import SparkReputError, with_code

if TYPE_CHECKING:
    from reput_rebuild.engine import Task, Work

__all__ = ["TaskPartition", "TaskReader", "task_source"]

_SCHEMA = "number long, result binary"


class TaskPartition(InputPartition):
    """One task."""

    def __init__(self, number: int, task: Task) -> None:
        super().__init__(number)
        self.task = task


class TaskReader(DataSourceReader):
    """Does tasks; the row of each task is its number and its pickled result."""

    def __init__(self, work: Work, tasks: Sequence[Task]) -> None:
        self.work = work
        self.tasks: Sequence[Task] = tasks

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the tasks: Spark gives each executor those that it does."""
        return {"work": self.work, "tasks": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each task."""
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
    """A job. Each job is a class of its own, which goes to Spark by value, with its tasks.

    Tasks do not travel as options, which are texts that anybody who can write SQL may set.
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
    """Return a data source that does ``tasks``."""
    members = {
        "job": f"reput-job-{uuid.uuid4().hex}",
        "work": (work,),  # in a tuple, for a function that a class holds becomes its method
        "tasks": list(tasks),
    }
    return type("TaskSource", (_TaskSource,), members)
