"""Write DataFrames into stores: what people call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

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
    """Write a DataFrame into a store; each row once, whatever fails.

    Tasks check rows and keep them below the store's directory; then the driver puts them.
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
    from reput_export.localpaths import local_path
    from reput_export.options import texts_of
    from reput_export.writing.options import WriteOptions
    from reput_export.writing.plan import plan_write
    from reput_spark.errors import with_code
    from reput_spark.writing.batch import FrameSink, opening_of, settle_before

    root = local_path(os.fspath(path))
    given = texts_of(options)
    checked = WriteOptions.parse({**given, "path": root})
    opening = opening_of(checked)
    made_root = not opening.bound.exists(root)
    with with_code():
        earlier = settle_before(checked, opening)
    staging = _stage(df, root, mode, given)
    checked = attrs.evolve(checked, staged=staging)
    with with_code():
        plan = plan_write(checked, overwrite=mode.lower() == "overwrite")
        sink = FrameSink(attrs.evolve(plan, made_root=made_root), opening)
        segments = sink.left_to_caller()
        size = sum(each.size for each in segments)
        if progress is not None:
            sink.told = lambda done: progress(done, size)
        try:
            return earlier.told_in(sink.commit(segments))
        except BaseException:
            sink.abort()
            raise


def _stage(df: DataFrame, root: str, mode: str, options: dict[str, str]) -> str:
    """Have tasks keep the rows, not put yet; return the name of the staging directory."""
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
