"""Tables out of queues and small files: a few rows for each store, read when a query uses them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reput_spark.source.dataframes import absolute_paths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reput_spark.source.dataframes import Paths


def queues(spark: Any, path: Paths) -> DataFrame:
    """Return how far each queue reaches, and of which time its messages are.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`; a row says by ``store`` and ``broker`` where it is from.
    """
    return table_frame(spark, path, "queues")


def consumer_lag(spark: Any, path: Paths) -> DataFrame:
    """Return how far each consumer group is behind in each queue of which it has an offset.

    ``lag`` is null where the log holds no message of the queue, and ``waiting_since`` the store
    time of the first message that the group has not consumed.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.
    """
    return table_frame(spark, path, "consumer_lag")


def schedule_backlog(spark: Any, path: Paths) -> DataFrame:
    """Return what waits in each delay level that has messages or an offset.

    ``parked`` counts delivered messages, too, as long as the log holds them; ``waiting`` is null
    where the store does not say how far deliveries have come.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.
    """
    return table_frame(spark, path, "schedule_backlog")


def committed(spark: Any, path: Paths) -> DataFrame:
    """Return the offset of each consumer group in each queue, as the store's files have it."""
    return table_frame(spark, path, "committed")


def table_frame(spark: Any, path: Paths, table: str, **options: str) -> DataFrame:
    """Return a table whose rows are made by reput: see `reput_spark.source.tables`."""
    from reput_spark.source.tables import TABLE_FORMAT, TableSource

    spark.dataSource.register(TableSource)
    paths = json.dumps(absolute_paths(path))
    given = spark.read.format(TABLE_FORMAT).options(table=table, paths=paths, **options)
    found: DataFrame = given.load()
    return found
