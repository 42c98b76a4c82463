"""The reader of logs: plans tasks on the driver, and reads each on an executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from reput_spark.reading.tasks import Task, plan_tasks, read_task
from reput_spark.source.pushing import conditions_of
from reput_spark.source.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from reput_spark.reading.options import ReadOptions
    from reput_spark.reading.rows import Condition

__all__ = ["LogPartition", "LogView", "PushingLogReader"]


class LogPartition(InputPartition):
    """One task of a read."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


class LogView(DataSourceReader):
    """Reads logs; everything that it holds is a plain value, for it is sent to executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.conditions: tuple[Condition, ...] = ()
        self._arrow_schema()  # refused here, where the user sees it, and not in a task

    def partitions(self) -> Sequence[InputPartition]:
        """One for each split."""
        return [LogPartition(task) for task in plan_tasks(self.options, self.conditions)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one split; of none where there is no split, which Spark asks for, too."""
        if partition is not None:
            assert isinstance(partition, LogPartition)
            schema = self._arrow_schema()
            yield from read_task(partition.task, self.options, schema, self.conditions)

    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, collects=self.options.corrupt == "collect")


class PushingLogReader(LogView):
    """Takes conditions of the query.

    A class of its own, for Spark refuses to read at all with a reader that has this method while
    ``spark.sql.python.filterPushdown.enabled`` is off, which it is by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Keep those conditions that columns of numbers can decide; the others are Spark's.

        Rows for what is damaged have no numbers: with them, Spark looks at everything again.
        """
        for each in filters:
            found = conditions_of(each)
            self.conditions += found.conditions
            if not found.is_all or self.options.corrupt == "collect":
                yield each
