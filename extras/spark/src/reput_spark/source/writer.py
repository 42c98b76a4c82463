"""The writer of a store: tasks keep rows in segments, the driver puts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from reput.files import Disk, system_clock
from reput_arrow.addedcolumns import check_columns
from reput_arrow.logwriter.staging.writetasks import WritePlan
from reput_arrow.logwriter.writeoptions import WriteOptions
from reput_arrow.logwriter.writeplan import plan_write
from reput_spark.errors import SparkReputError, with_code
from reput_spark.writer.dataframesink import DataFrameSink, settle_before
from reput_spark.writer.putter import Opening
from reput_spark.writer.segments import Segment, stage_segment

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@attrs.define
class TaskMessage(WriterCommitMessage):
    """The message of a task to the driver."""

    segment: Segment


class LogWriter(DataSourceArrowWriter):
    """Writes a store; it holds plain values only, as Spark sends it to executors."""

    def __init__(self, plan: WritePlan) -> None:
        super().__init__()
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Keep the rows of one partition in a segment."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        attempt = 0 if context is None else context.taskAttemptId()
        # Rows are taken also where the write is in the store already: Spark waits for that.
        rows = (batch for batch in iterator if not self.plan.is_done)
        with with_code():
            return TaskMessage(stage_segment(rows, self.plan, partition, attempt, Disk()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put what all tasks have kept."""
        segments = [_segment_of(message) for message in messages]
        with with_code():
            DataFrameSink(self.plan, Opening(self.plan.options)).commit(segments)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave nothing; Spark calls this also after a `commit` that failed."""
        with with_code():
            DataFrameSink(self.plan, Opening(self.plan.options)).abort()


def _segment_of(message: WriterCommitMessage | None) -> Segment:
    if not isinstance(message, TaskMessage):
        raise SparkReputError("JOB", f"Spark ends a write one of whose tasks says {message!r}")
    return message.segment


def writer_of(options: WriteOptions, schema: StructType, *, overwrite: bool) -> LogWriter:
    """Return a writer of a DataFrame with ``schema``, and make its staging directory.

    Raises:
        SparkReputError: a column that no message has, or a store that cannot be written.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    check_columns(to_arrow_schema(schema))
    with with_code():
        settle_before(Opening(options))
        return LogWriter(plan_write(options, overwrite=overwrite, clock=system_clock))
