"""Logs as DataFrames: what people call to read and to stream."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from reput_arrow.textoptions import texts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""One path or several."""


def register(spark: Any) -> None:
    """Make ``format("reput")`` known to a session, where Spark does not find it by itself."""
    from reput_spark.source.datasource import ReputDataSource

    spark.dataSource.register(ReputDataSource)


def read(
    spark: Any,
    path: Paths,
    *,
    columns: str | Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return a DataFrame over the logs at one path or several.

    Args:
        spark: the session, also one of Spark Connect.
        path: where: see `reput_arrow.logs.discovery`.
        columns: those wanted, ``"*"`` for all; `DEFAULT_COLUMNS`, which cost little, when left out.
        options: of the data source: ``topic=["orders", "payments"]``, ``start="2026-01-31"``,
            ``check_crc=True``, …

    Raises:
        SparkReputError: an option that is none, or no such column.
    """
    from reput_spark.reader.options import ReadOptions

    register(spark)
    given = texts_of(options)
    checked = ReadOptions.parse(given)
    schema = _schema_of(columns, collects=checked.corrupt == "collect")
    reader = spark.read.format("reput").schema(schema).options(**given)
    found: DataFrame = reader.load(absolute_paths(path))
    return found


def read_stream(
    spark: Any,
    path: Paths,
    *,
    columns: str | Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return a streaming DataFrame over the logs at one path or several.

    Args:
        spark: the session, also one of Spark Connect.
        path: where: see `reput_arrow.logs.discovery`.
        columns: those wanted, ``"*"`` for all; `DEFAULT_COLUMNS`, which cost little, when left out.
        options: of the data source: ``starting="latest"``, ``max_bytes_per_batch=64 << 20``,
            ``topic=["orders", "payments"]``, …

    Raises:
        SparkReputError: an option that is none, or no such column.
    """
    from reput_spark.reader.stream.options import StreamOptions

    register(spark)
    given = texts_of(options)
    checked = StreamOptions.parse(given)
    schema = _schema_of(columns, collects=checked.read.corrupt == "collect")
    # A stream's reader takes one path only, where that of a read takes a list.
    given["paths"] = json.dumps(absolute_paths(path))
    found: DataFrame = spark.readStream.format("reput").schema(schema).options(**given).load()
    return found


def absolute_paths(
    path: Paths,
) -> list[str]:
    """Return local paths as the caller means them: Spark's processes may work in other directories.

    URIs stay as they are.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    texts = [os.fspath(each) for each in paths]
    return [each if ":/" in each else os.path.abspath(each) for each in texts]


def _schema_of(columns: str | Iterable[str] | None, *, collects: bool) -> StructType:
    from reput_spark.source.schema import spark_schema

    names = columns.replace(",", " ").split() if isinstance(columns, str) else columns
    return spark_schema(names, collects=collects)
