"""Write DataFrames into stores: what people call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from reput_arrow.logwriter.publication.publish import Published
    from reput_arrow.logwriter.staging.writetasks import WritePlan
    from reput_spark.writer.segments import Segment


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    *,
    mode: str = "append",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Published:
    """Write a DataFrame into a store; each row once, whatever fails.

    Tasks check rows and keep them below the store's directory; then the caller puts them.
    ``df.write.format("reput").mode(mode).save(path)`` does the same, and says less of it.

    Args:
        df: columns of `reput_arrow.INPUT_COLUMNS`; the order of messages is that of its partitions,
            and in each that of its rows.
        path: the store's directory, under the same path for the driver and all executors.
        mode: ``"append"``, or ``"overwrite"``: only where nothing is yet.
        progress: called with bytes put and bytes in all.
        options: of a write: ``file_size=1 << 28``, ``write_id="2026-01-31"``, …

    Raises:
        SparkReputError: an option, a store or a row that cannot be; a task that failed; with the
            code ``UNSAFE``, a link below the store's directory, where none is followed.
    """
    from reput_arrow.addedcolumns import check_columns
    from reput_arrow.logwriter.writeoptions import WriteOptions
    from reput_arrow.logwriter.writeplan import plan_write
    from reput_arrow.textoptions import refusal, texts_of
    from reput_spark.errors import with_code
    from reput_spark.source.schema import plain_arrow_schema
    from reput_spark.writer.dataframesink import DataFrameSink, settle_before
    from reput_spark.writer.putter import Opening

    if mode.lower() not in ("append", "overwrite"):
        raise refusal("mode", mode, "append or overwrite")
    given = WriteOptions.parse({**texts_of(options), "path": os.fspath(path)})
    opening = Opening(given)
    check_columns(plain_arrow_schema(df.schema))
    with with_code():
        earlier = settle_before(opening)
        plan = plan_write(given, overwrite=mode.lower() == "overwrite")
        sink = DataFrameSink(plan, opening)
        try:
            segments = [] if plan.is_done else _stage(df, plan)
            size = sum(each.size for each in segments)
            if progress is not None:
                sink.told = lambda done: progress(done, size)
            return earlier.told_in(sink.commit(segments))
        except BaseException:
            sink.abort()
            raise


def _stage(df: DataFrame, plan: WritePlan) -> list[Segment]:
    """Have tasks keep the rows; return what they have kept."""
    from reput_spark.jobs.sparkengine import failure_of
    from reput_spark.writer.segments import Segment

    kinds = "key string, partition bigint, name string, row_count bigint, size bigint"
    try:
        rows = df.mapInArrow(partial(_kept, plan), kinds).collect()
    except Exception as error:
        raise failure_of(error) from error
    return [Segment(**row.asDict()) for row in rows]


def _kept(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from reput_spark.source.writer import LogWriter

    segment = LogWriter(plan).write(batches).segment
    yield pa.RecordBatch.from_pydict(
        {name: [value] for name, value in attrs.asdict(segment).items()}
    )
