"""The reader of logs: plans tasks on the driver, and reads each on an executor."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition

from reput_arrow.reader.readtasks import Task
from reput_spark.reader.tasks import plan_tasks, read_task
from reput_spark.source.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from reput_spark.reader.options import ReadOptions


class LogPartition(InputPartition):
    """One task of a read, or of a batch of a stream."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


class LogView(DataSourceReader):
    """Reads logs; it holds plain values only, as Spark sends it to executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self._arrow_schema()  # refused here, where the user sees it, and not in a task

    def partitions(self) -> Sequence[InputPartition]:
        """Plan one partition for each split."""
        return [LogPartition(task) for task in plan_tasks(self.options)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split; none for None, which Spark passes where there is no split."""
        if partition is not None:
            assert isinstance(partition, LogPartition)
            _settle()
            schema = self._arrow_schema()
            yield from read_task(partition.task, self.options, schema)

    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, collects=self.options.corrupt == "collect")


def _settle() -> None:
    """Leave what a worker has imported out of its garbage collections, once for each worker.

    Spark's workers collect after every task, which went through all modules each time: 10 ms and
    more, most of what a small task costs.
    """
    if TaskContext.get() is not None and gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()
