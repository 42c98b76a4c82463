"""Rebuild a store's derived files on Spark; all of the work is the core's and the plugins'.

The store's directory must have the same path for the driver and for all executors, and be on one
file system: what they write there is renamed into its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reput_arrow.localpaths import local_path
from reput_spark.jobs.sparkengine import SparkEngine
from reput_tools.offline import SPLIT_SIZE, Rebuilt, run_rebuild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    spark: SparkSession,
    path: str | os.PathLike[str],
    plugins: Sequence[str] = (),
    *,
    split_size: int = SPLIT_SIZE,
    parallelism: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    check: bool = False,
    follow_links: bool = False,
) -> list[Rebuilt]:
    """Build the files of plugins again on Spark; see `reput_tools.offline.rebuild`.

    Plugins that offer ``reput_tools_shards`` are built from splits of the log, in parallel; any
    other plugin is built by one task, in order, meanwhile. Executors need the plugins installed.

    Args:
        spark: the session, also one of Spark Connect.
        path: the store's directory, the same for driver and executors; also as a ``file:`` URI.
        plugins: names of those to rebuild; all that derive files and keep nothing else when empty.
        split_size: bytes of the log in a task, about; less where there would be fewer tasks than
            Spark runs at once.
        parallelism: tasks that Spark runs at once, where the session does not say it.
        progress: called with bytes done and bytes in all.
        check: compare what is built with the files that are there, and change nothing.
        follow_links: as for `reput.open`.

    Raises:
        StoreNotFoundError: no store there.
        StoreLockedError: it is open for writing.
        PluginError: the store does not use a plugin, or nothing can be rebuilt of it.
        SparkReputError: a path of an object store; or a task failed, and the text says which, and
            why. The store is as it was.
    """
    return run_rebuild(
        local_path(os.fspath(path)),
        plugins,
        SparkEngine(spark, parallelism),
        split_size=split_size,
        progress=progress,
        check=check,
        follow_links=follow_links,
    )
