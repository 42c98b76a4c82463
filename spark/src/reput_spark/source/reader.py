"""The reader of logs: plans tasks on the driver, and reads each on an executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from reput_arrow.reading.tasks import Task
from reput_spark.reading.tasks import plan_tasks, read_task
from reput_spark.source.pushing import conditions_of
from reput_spark.source.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from reput_arrow.reading.rows import Condition
    from reput_spark.reading.options import ReadOptions

__all__ = ["LogPartition", "LogView", "PushingLogReader"]


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
        self.conditions: tuple[Condition, ...] = ()
        self._arrow_schema()  # refused here, where the user sees it, and not in a task

    def partitions(self) -> Sequence[InputPartition]:
        """Plan one partition for each split."""
        return [LogPartition(task) for task in plan_tasks(self.options, self.conditions)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split; none for None, which Spark passes where there is no split."""
        if partition is not None:
            assert isinstance(partition, LogPartition)
            schema = self._arrow_schema()
            yield from read_task(partition.task, self.options, schema, self.conditions)

    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, collects=self.options.corrupt == "collect")


class PushingLogReader(LogView):
    """A `LogView` that takes conditions of the query.

    It is a class of its own, as Spark refuses to read at all with a reader that has `pushFilters`
    while ``spark.sql.python.filterPushdown.enabled`` is off, which it is by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Keep the conditions that columns of numbers can decide, and leave the others to Spark.

        Rows for what is damaged have no numbers: with such rows, Spark checks all conditions again.

        Returns:
            What Spark is to check.
        """
        for each in filters:
            found = conditions_of(each)
            self.conditions += found.conditions
            if not found.is_all or self.options.corrupt == "collect":
                yield each
