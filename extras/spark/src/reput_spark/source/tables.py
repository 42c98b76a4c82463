"""The data source of the tables whose rows are made by reput, and not by Spark.

It is a source and not a function of batches, as Spark's functions of Arrow batches need pandas,
which nothing else here does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from reput_arrow import schema_of
from reput_arrow.tables.messagetrace import TRACE_COLUMNS, TRACE_TOPIC, trace_batch
from reput_arrow.tables.queuerows import COLUMNS, store_batch
from reput_spark.errors import SparkReputError, reading_with_code
from reput_spark.reader.options import ReadOptions
from reput_spark.reader.tasks import find_logs, plan_tasks, read_task

if TYPE_CHECKING:
    import pyarrow as pa

    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.reader.readtasks import Task

TABLE_FORMAT = "reput_table"
_TRACE = "trace"


class _Part(InputPartition):
    """One store, or one task of a log."""

    def __init__(self, part: LogPlace | Task) -> None:
        super().__init__(part)
        self.part: Any = part


class _StoreReader(DataSourceReader):
    """Makes the rows of one table, a task for each store."""

    def __init__(self, table: str, paths: tuple[str, ...]) -> None:
        self.table = table
        self.paths = paths

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(place) for place in find_logs(self.paths)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        with reading_with_code():
            yield store_batch(self.table, partition.part)


class _TraceReader(DataSourceReader):
    """Makes a row of each record in the messages of a trace topic."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(task) for task in plan_tasks(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        schema = schema_of(["physical_offset", "store_timestamp", "body"], unit="us")
        for batch in read_task(partition.part, self.options, schema):
            yield trace_batch(batch, partition.part.place)


class TableSource(DataSource):
    """What ``format("reput_table")`` names; the option ``table`` says which one."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return TABLE_FORMAT

    def schema(self) -> str:
        """Return the columns of the table."""
        table = self.options.get("table", "")
        if table == _TRACE:
            return TRACE_COLUMNS
        if table not in COLUMNS:
            known = ", ".join(sorted({*COLUMNS, _TRACE}))
            raise SparkReputError("OPTION", f"option 'table' is {table!r}; known tables: {known}")
        return COLUMNS[table]

    def reader(self, schema: Any) -> DataSourceReader:
        """Return what makes the table's rows."""
        given = dict(self.options)
        options = ReadOptions.parse(
            {name: given[name] for name in ("path", "paths") if name in given}
        )
        if given["table"] == _TRACE:
            topics = frozenset({given.get("topic", TRACE_TOPIC)})
            return _TraceReader(attrs.evolve(options, topics=topics))
        return _StoreReader(given["table"], options.paths)
