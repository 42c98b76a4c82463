"""Compact topics of a store on Spark; all of the work is that of the plugin ``compaction``.

The store's directory must have the same path for the driver and for all executors, and be on one
file system: what they write there is renamed into its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import reput
from reput.errors import EXPECTED, PluginError, StoreNotFoundError
from reput_spark.errors import SparkReputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput_compaction import Compacted
    from reput_rebuild.engine import Engine

__all__ = ["compact", "compact_with"]

_PLUGIN = "compaction"


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str],
    topics: Collection[str] | None = None,
    *,
    split_size: int | None = None,
    parallelism: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    follow_links: bool = False,
) -> list[Compacted]:
    """Drop what later messages with the same key have superseded in compacted topics.

    The files are those that ``CompactionPlugin.compact`` makes, to the byte. Spark runs four rounds
    of tasks, which hand on hashes and numbers in files below the store; bodies are only copied from
    old files to new ones. Executors need reput-compaction installed.

    Args:
        spark: the session, also one of Spark Connect.
        path: the store's directory, the same for driver and executors; not open for writing.
        topics: those to compact; all compacted topics when left out.
        split_size: bytes of records that a task reads, about; less where there would be fewer tasks
            than Spark runs at once.
        parallelism: tasks that Spark runs at once, where the session does not say it.
        progress: called with bytes done and bytes in all; both grow from round to round.
        follow_links: as for `reput.open`.

    Returns:
        What became of each queue that was compacted.

    Raises:
        StoreNotFoundError: no store there.
        StoreLockedError: it is open for writing.
        PluginError: the store does not use the plugin ``compaction``.
        ValueError: a topic is not compacted.
        SparkReputError: a task failed; the text says which, and why. Readers find what they found
            before.
    """
    from reput_spark.jobs.engine import SparkEngine

    engine = SparkEngine(spark, parallelism)
    return compact_with(
        engine, path, topics, split_size=split_size, progress=progress, follow_links=follow_links
    )


def compact_with(
    engine: Engine,
    path: str | os.PathLike[str],
    topics: Collection[str] | None = None,
    *,
    split_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    follow_links: bool = False,
) -> list[Compacted]:
    """Do the same with any engine; see `compact`."""
    root = os.fspath(path)
    if "://" in root:
        raise SparkReputError(
            "OPTION",
            f"{root}: a compaction writes into a store, and needs a directory that is mounted "
            "where Spark runs",
        )
    root = os.path.abspath(root)
    if not os.path.isdir(os.path.join(root, "commitlog")):
        raise StoreNotFoundError(root, EXPECTED)
    # Without threads: nothing is delivered or checked back, and no run of the plugin's own begins.
    with reput.open(root, threads=False, follow_links=follow_links) as store:
        if _PLUGIN not in store.plugin_objects:
            raise PluginError(_PLUGIN, "the store does not use it, so it has no compacted topics")
        store.wait_dispatched()
        compacted: list[Compacted] = store.plugin("compaction").compact(
            topics, engine=engine, split_size=split_size, progress=progress
        )
        return compacted
