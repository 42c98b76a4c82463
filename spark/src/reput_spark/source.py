"""The data source ``reput``: what Spark calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)

from reput_spark.errors import SparkReputError
from reput_spark.reading.options import ReadOptions
from reput_spark.reading.pushing import conditions_of
from reput_spark.reading.rows import Condition
from reput_spark.reading.tasks import Task, plan_tasks, read_task
from reput_spark.schema import arrow_schema, spark_schema
from reput_spark.streaming.options import StreamOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["LogPartition", "LogView", "PushingLogReader", "ReputDataSource"]


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
        # Spark does not say whether it asks for a read or for a stream; that comes behind it.
        options = ReadOptions.parse(dict(self.options), StreamOptions.names())
        return spark_schema(collects=options.corrupt == "collect")

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in ``schema``."""
        options = self._read_options()
        kind = PushingLogReader if options.pushdown else LogView
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream of the columns in ``schema``."""
        from reput_spark.streaming.reader import LogStreamReader

        return LogStreamReader(StreamOptions.parse(dict(self.options)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A stream of messages into a store."""
        from reput_spark.sink.options import SinkOptions
        from reput_spark.sink.writer import LogStreamWriter

        if overwrite:
            raise SparkReputError(
                "OPTION", "outputMode is complete; a log is never written over: append or update"
            )
        return LogStreamWriter(SinkOptions.parse(dict(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of messages into a store."""
        from reput_spark.writing.options import WriteOptions
        from reput_spark.writing.writer import writer_of

        return writer_of(WriteOptions.parse(dict(self.options)), schema, overwrite=overwrite)
