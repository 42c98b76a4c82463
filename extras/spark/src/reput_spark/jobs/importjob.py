"""Import Parquet into a new store: the way back from `reput_spark.jobs.export`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from reput_arrow.logwriter.publication.publish import Published

_FILE_SIZE: Final = 1 << 30
_FILLED: Final = 0.9
"""How full the file of a task is to be; Spark samples ranges, which are not all alike."""
_PARTITION_COLUMNS: Final = ("topic", "day")
_ORDERS: Final = (
    ("store", "physical_offset"),
    ("physical_offset",),
    ("topic", "queue_id", "queue_offset"),
)
"""Columns that say the order of messages; the first tuple that the Parquet has counts."""


def import_parquet(
    spark: Any,
    source: str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    file_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Published:
    """Make a store of an export: the same messages, each queue in the order that it had.

    The messages are in the order of the log: that of the column ``physical_offset``, one store
    after another where there is a column ``store``. Without ``physical_offset``, each queue is in
    the order of ``queue_offset``; without either, messages are in the order in which Spark reads.

    Hosts and times are kept. Queue offsets begin at 0, physical offsets are those of the new log;
    ``prepared_transaction_offset`` still names a place in the old one.

    Args:
        spark: the session, also one of Spark Connect.
        source: directory or URI of an export, or of other Parquet with columns of messages.
        store: directory of the store; nothing may be there yet.
        file_size: bytes of a log file; 1 GiB when left out.
        progress: called with bytes numbered and bytes in all.
        options: further ones of a write: ``write_id``, ``dispatch``.

    Raises:
        SparkReputError: no Parquet of messages, something at the store's place, or a row that
            cannot be stored.
    """
    from reput_arrow.logwriter.writeoptions import KEPT
    from reput_spark.jobs.write import write

    frame = _read(spark, os.fspath(source))
    keep = [name for name in KEPT if name in frame.columns]
    return write(
        _ordered(frame, file_size or _FILE_SIZE),
        store,
        mode="overwrite",
        progress=progress,
        file_size=file_size,
        raw=True,
        keep=keep or None,
        **options,
    )


def _read(spark: Any, source: str) -> DataFrame:
    """Read the rows, without days, hours and increments: only directories are named by these."""
    from pyspark.errors import PySparkException

    from reput_spark.errors import SparkReputError
    from reput_spark.jobs.sparkengine import failure_of

    path = source if ":/" in source else os.path.abspath(source)
    try:
        found: DataFrame = spark.read.parquet(path)
        # Topics are names of directories, and Spark takes one of digits for a number.
        found = spark.read.schema(_with_text(found.schema)).parquet(path)
    except PySparkException as error:
        raise SparkReputError(
            "NO_LOG", f"{source}: no Parquet: {failure_of(error).reason}"
        ) from None
    return found.drop("day", "hour", "export")


def _with_text(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType(
        [
            StructField(field.name, StringType()) if field.name in _PARTITION_COLUMNS else field
            for field in schema
        ]
    )


def _ordered(frame: DataFrame, file_size: int) -> DataFrame:
    """Return the rows in the order of the log, in partitions of a file each."""
    given = set(frame.columns)
    order = next((names for names in _ORDERS if given >= set(names)), None)
    if order is None:
        return frame
    if "size" not in given:
        return frame.orderBy(*order)
    total = frame.selectExpr("sum(cast(size as bigint)) total").first()
    count = math.ceil((total.total or 0) / (file_size * _FILLED)) if total is not None else 1
    parted = frame.repartition(1) if count <= 1 else frame.repartitionByRange(count, *order)
    return parted.sortWithinPartitions(*order)
