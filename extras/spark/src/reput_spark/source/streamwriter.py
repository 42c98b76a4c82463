"""The stream into a store: tasks keep rows in segments, the driver puts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from reput.errors import ReputError
from reput.files import Disk
from reput_arrow.addedcolumns import check_columns
from reput_spark.errors import SparkReputError, with_code
from reput_spark.source.schema import plain_arrow_schema
from reput_spark.writer.options import SinkOptions
from reput_spark.writer.segments import Segment, TaskFacts, write_segment
from reput_spark.writer.storesink import StoreSink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class SegmentMessage(WriterCommitMessage):
    """The message of a task to the driver."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Streams into a store; what Spark sends to executors of it is plain values."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        check_columns(plain_arrow_schema(schema))  # here, where the user sees it, not in a task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SegmentMessage:
        """Keep the rows of one task in a segment."""
        with with_code():
            return SegmentMessage(write_segment(iterator, self.options, _task_facts(), Disk()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Put the rows of a batch."""
        try:
            segments = _segments(messages)
            if len(segments) != len(messages):  # rows would be lost without a word
                raise SparkReputError(
                    "JOB",
                    f"batch {batchId}: of {len(messages)} tasks {len(segments)} have said what "
                    "they wrote. The batch comes again when the query is started again",
                )
            with with_code():
                StoreSink(self.options).commit(segments, batchId)
        except SparkReputError:
            raise
        except ReputError as error:  # Spark keeps the text alone, and not whose error it is
            raise SparkReputError("JOB", f"{self.options.path}: {error}") from error

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what is left of a batch."""
        with with_code():
            StoreSink(self.options).abort(_segments(messages), batchId)


def _segments(messages: Sequence[WriterCommitMessage | None]) -> list[Segment]:
    return [each.segment for each in messages if isinstance(each, SegmentMessage)]


def _task_facts() -> TaskFacts:
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
    if context is None or not query_id:
        raise SparkReputError(
            "JOB", "Spark does not say which query this is; it has to be a stream"
        )
    batch_id = context.getLocalProperty(_BATCH_ID)
    return TaskFacts(
        query_id,
        int(batch_id) if batch_id is not None and batch_id.isdigit() else None,
        context.partitionId(),
        context.taskAttemptId(),
    )
