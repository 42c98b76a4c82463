"""Logs as DataFrames: what people call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reput_spark.reading.options import ReadOptions, texts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["absolute_path", "read", "register"]


def register(spark: Any) -> None:
    """Make ``format("reput")`` known to a session, where Spark does not find it by itself."""
    from reput_spark.source import ReputDataSource

    spark.dataSource.register(ReputDataSource)


def read(
    spark: Any,
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """A DataFrame over the logs at one path or several.

    Args:
        spark: the session, also one of Spark Connect.
        path: where: see `reput_spark.logs.places`.
        columns: those wanted; all but the body when left out, which is most of the bytes.
        options: of the data source: ``topic=["orders", "payments"]``, ``start="2026-01-31"``,
            ``check_crc=True``, …

    Raises:
        SparkReputError: an option that is none, or no such column.
    """
    from reput_arrow import COLUMNS
    from reput_spark.schema import spark_schema

    register(spark)
    given = texts_of(options)
    checked = ReadOptions.parse(given)
    names = [each.name for each in COLUMNS if each.name != "body"] if columns is None else columns
    schema = spark_schema(names, collects=checked.corrupt == "collect")
    if checked.pushdown:
        # Without this setting, a reader that wants the query's conditions cannot be used at all.
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    reader = spark.read.format("reput").schema(schema).options(**given)
    found: DataFrame = reader.load([absolute_path(os.fspath(each)) for each in paths])
    return found


def absolute_path(path: str) -> str:
    """A local path as it is meant here: Spark's own processes may work in another directory."""
    return path if ":/" in path else os.path.abspath(path)
