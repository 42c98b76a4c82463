"""The writer of a store: tasks write log files aside, the driver publishes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from reput.files import Disk, system_clock
from reput_export.columns import check_columns
from reput_export.writing.options import WriteOptions
from reput_export.writing.plan import plan_write
from reput_export.writing.publish.driver import abort_write, commit_write
from reput_export.writing.staging.segments import write_task
from reput_export.writing.staging.values import TaskWritten, WritePlan
from reput_spark.errors import SparkReputError, with_code

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["LogWriter", "TaskMessage", "writer_of"]


@attrs.define
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    task: TaskWritten


class LogWriter(DataSourceArrowWriter):
    """Writes a store; it holds plain values only, as Spark sends it to executors."""

    def __init__(self, plan: WritePlan) -> None:
        super().__init__()
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        bound = Disk().at(self.plan.root, follow_links=self.plan.options.follow_links)
        with with_code():
            return TaskMessage(write_task(self.plan, partition, iterator, bound))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks have written."""
        with with_code():
            commit_write(self.plan, map(_task_of, messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave nothing; Spark calls this also after a `commit` that failed."""
        with with_code():
            abort_write(self.plan)


def _task_of(message: WriterCommitMessage | None) -> TaskWritten:
    if not isinstance(message, TaskMessage):
        raise SparkReputError("JOB", f"Spark ends a write one of whose tasks says {message!r}")
    return message.task


def writer_of(options: WriteOptions, schema: StructType, *, overwrite: bool) -> LogWriter:
    """Return a writer of a DataFrame with ``schema``, and make its staging directory.

    Raises:
        SparkReputError: a column that no message has, or a store that cannot be written.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    check_columns(to_arrow_schema(schema))
    with with_code():
        return LogWriter(plan_write(options, overwrite=overwrite, clock=system_clock))
