"""The data source ``reput``: what Spark calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from reput_spark.options import ReadOptions
from reput_spark.pushing import conditions_of
from reput_spark.reading import Task, plan_tasks, read_task
from reput_spark.rows import Condition
from reput_spark.schema import arrow_schema, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["LogPartition", "LogReader", "PushingLogReader", "ReputDataSource"]


class LogPartition(InputPartition):
    """One task of a read."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


class LogReader(DataSourceReader):
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


class PushingLogReader(LogReader):
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


class ReputDataSource(DataSource):
    """``spark.read.format("reput").load(path)``."""

    @classmethod
    def name(cls) -> str:
        """Its name for ``format``."""
        return "reput"

    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(dict(self.options))

    def schema(self) -> StructType:
        """All columns; ``.schema("topic string, …")`` is how to ask for fewer."""
        return spark_schema(collects=self._read_options().corrupt == "collect")

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in ``schema``."""
        options = self._read_options()
        kind = PushingLogReader if options.pushdown else LogReader
        return kind(options, schema)
