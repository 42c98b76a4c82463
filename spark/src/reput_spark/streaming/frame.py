"""Logs that grow as DataFrames: what people call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reput_spark.reading.frame import absolute_path, register
from reput_spark.reading.options import texts_of
from reput_spark.streaming.options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read_stream"]


def read_stream(
    spark: Any,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """A streaming DataFrame over the logs at one path or several.

    Args:
        spark: the session, also one of Spark Connect.
        path: where: see `reput_spark.logs.places`.
        columns: those wanted; all but the body when left out, which is most of the bytes.
        options: of the data source: ``starting="latest"``, ``max_bytes_per_batch=64 << 20``,
            ``topic=["orders", "payments"]``, …

    Raises:
        SparkReputError: an option that is none, or no such column.
    """
    from reput_arrow import COLUMNS
    from reput_spark.schema import spark_schema

    register(spark)
    given = texts_of(options)
    checked = StreamOptions.parse(given)
    names = [each.name for each in COLUMNS if each.name != "body"] if columns is None else columns
    schema = spark_schema(names, collects=checked.read.corrupt == "collect")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    # A stream's reader takes one path only, where that of a read takes a list.
    given["paths"] = json.dumps([absolute_path(os.fspath(each)) for each in paths])
    found: DataFrame = spark.readStream.format("reput").schema(schema).options(**given).load()
    return found
