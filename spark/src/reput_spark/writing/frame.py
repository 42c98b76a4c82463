"""DataFrames into stores: what people call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reput_spark.writing.publishing import Published

__all__ = ["write"]


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    *,
    mode: str = "append",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Published:
    """Write a DataFrame into a store; its files are numbered by tasks of Spark.

    ``df.write.format("reput").mode(mode).save(path)`` does the same, and numbers them on the
    driver.

    Args:
        df: columns of `reput.arrow.INPUT_COLUMNS`; the order of messages is that of its partitions,
            and in each that of its rows.
        path: the store's directory, under the same path for the driver and all executors.
        mode: ``"append"``, or ``"overwrite"``: only where nothing is yet.
        progress: called with bytes numbered and bytes in all.
        options: of a write: ``file_size=1 << 28``, ``write_id="2026-01-31"``, …

    Raises:
        SparkReputError: an option, a store or a row that cannot be; a task that failed.
    """
    from reput.disk import Disk
    from reput_spark.jobs.engine import SparkEngine, failure_of
    from reput_spark.reading.frame import register
    from reput_spark.reading.options import texts_of
    from reput_spark.writing.driver import engine_for, publish_write, size_of, staged_intent
    from reput_spark.writing.options import WriteOptions
    from reput_spark.writing.plan import local_path
    from reput_spark.writing.publishing import take_back
    from reput_spark.writing.staging import forget, new_name

    root, staging, disk = local_path(os.fspath(path)), new_name(), Disk()
    given = texts_of(options)
    checked = WriteOptions.parse({**given, "path": root})
    register(df.sparkSession)
    made_root = not disk.exists(root)
    try:
        df.write.format("reput").mode(mode).options(**given, staged=staging).save(root)
    except Exception as error:
        raise failure_of(error) from error
    intent = staged_intent(root, staging)
    size = size_of(intent)
    told = progress or (lambda done, total: None)
    engine = engine_for(size, SparkEngine(df.sparkSession))
    try:
        return publish_write(root, intent, engine, checked, lambda done: told(done, size))
    except BaseException:
        if take_back(root, staging, disk):
            forget(root, staging, disk, with_root=made_root)
        raise
