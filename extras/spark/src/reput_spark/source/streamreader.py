"""The stream out of logs.

Spark 4.2 says where a batch begins and how much it may hold. Spark 4.1 says neither, so that the
last planned end is kept in mind, and the options are the only limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from reput_spark.reader.stream.options import StreamOptions
from reput_spark.reader.stream.planning import LogStream, read_stream_task
from reput_spark.source.reader import LogPartition
from reput_spark.source.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # they are new in Spark 4.2

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replaces Spark's own."""

    HAS_LIMITS = False
else:
    HAS_LIMITS = True


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams logs; what Spark sends to executors of it is plain values."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.stream = LogStream(options)
        self.target: dict[str, Any] | None = None
        self._arrow_schema()  # refused here, where the user sees it, and not in a task

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins."""
        return self.stream.initial()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return how far the next batch goes; Spark 4.1 passes neither argument."""
        max_bytes, max_records = limits_of(limit, self.options)
        return self.stream.latest(
            start, max_bytes=max_bytes, max_records=max_records, target=self.target
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan one partition for each split of the batch."""
        return [LogPartition(task) for task in self.stream.plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one split."""
        assert isinstance(partition, LogPartition)
        yield from read_stream_task(partition.task, self.options, self._arrow_schema())

    # ------------------------------------------------------------------ of Spark 4.2 and later

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return what a batch may hold where the trigger leaves it to the source."""
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        if self.options.max_records is not None:
            return ReadMaxRows(self.options.max_records)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Keep in mind how far the logs go now: this run ends there."""
        self.target = self.stream.now()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return how far the logs go, for the query's progress."""
        return self.stream.now()

    def _arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema, collects=self.options.read.corrupt == "collect")


def limits_of(limit: Any, options: StreamOptions) -> tuple[int | None, int | None]:
    """Return most bytes and most records of a batch, None for any number.

    Args:
        limit: Spark's; None where it has none, and the options decide.
        options: of the stream.
    """
    if not HAS_LIMITS or limit is None:
        return options.max_bytes, options.max_records
    if isinstance(limit, ReadAllAvailable):
        return None, None
    # Spark knows one limit at a time; that of the other kind is still the user's.
    if isinstance(limit, ReadMaxBytes):
        return limit.max_bytes, options.max_records
    if isinstance(limit, ReadMaxRows):
        return options.max_bytes, limit.max_rows
    return options.max_bytes, options.max_records
