"""Write DataFrames into stores: what people call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reput_export.writing.publish.publishing import Published

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
        df: columns of `reput_arrow.INPUT_COLUMNS`; the order of messages is that of its partitions,
            and in each that of its rows.
        path: the store's directory, under the same path for the driver and all executors.
        mode: ``"append"``, or ``"overwrite"``: only where nothing is yet.
        progress: called with bytes numbered and bytes in all.
        options: of a write: ``file_size=1 << 28``, ``write_id="2026-01-31"``, …

    Raises:
        SparkReputError: an option, a store or a row that cannot be; a task that failed; with the
            code ``UNSAFE``, a link below the store's directory, where none is followed.
    """
    from reput.files import Disk
    from reput_export.localpaths import local_path
    from reput_export.options import texts_of
    from reput_export.writing.directories import forget
    from reput_export.writing.options import WriteOptions
    from reput_export.writing.publish.driver import (
        engine_for,
        publish_write,
        size_of,
        staged_intent,
    )
    from reput_export.writing.publish.settling import take_back
    from reput_spark.errors import with_code
    from reput_spark.jobs.engine import SparkEngine

    root = local_path(os.fspath(path))
    given = texts_of(options)
    checked = WriteOptions.parse({**given, "path": root})
    disk = Disk().at(root, follow_links=checked.follow_links)
    made_root = not disk.exists(root)
    staging = _stage(df, root, mode, given)
    with with_code():
        intent = staged_intent(root, staging, disk)
        size = size_of(intent)
        told = progress or (lambda done, total: None)
        engine = engine_for(size, SparkEngine(df.sparkSession))
        try:
            return publish_write(
                root,
                intent,
                engine,
                checked,
                lambda done: told(done, size),
                overwrite=mode.lower() == "overwrite",
            )
        except BaseException:
            if take_back(root, staging, disk):
                forget(root, staging, disk, with_root=made_root)
            raise


def _stage(df: DataFrame, root: str, mode: str, options: dict[str, str]) -> str:
    """Have tasks write the files, unpublished; return the name of the staging directory."""
    from reput_export.writing.directories import new_name
    from reput_export.writing.options import STAGED, staged_text
    from reput_spark.jobs.engine import failure_of
    from reput_spark.source.frames import register

    register(df.sparkSession)
    staging = new_name()
    writer = df.write.format("reput").mode(mode).options(**options)
    try:
        writer.option(STAGED, staged_text(staging)).save(root)
    except Exception as error:
        raise failure_of(error) from error
    return staging
