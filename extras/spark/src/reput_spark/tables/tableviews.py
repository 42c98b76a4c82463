"""All tables at once, as temporary views for SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_spark.tables import queuetables, rowtables, transactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_spark.source.dataframes import Paths

TABLES: Final[dict[str, Callable[..., Any]]] = {
    "consumer_lag": queuetables.consumer_lag,
    "dangling_transactions": transactions.dangling_transactions,
    "dead_letters": rowtables.dead_letters,
    "queues": queuetables.queues,
    "retries": rowtables.retries,
    "schedule_backlog": queuetables.schedule_backlog,
    "trace": rowtables.trace,
}
"""Every table by its name: functions of a session and of paths."""


def register(spark: Any, path: Paths, *, prefix: str = "") -> list[str]:
    """Make a temporary view of each table.

    A view reads the files at each query. Only the groups with retries and dead letters are
    looked up here: call this again for groups that came later.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.
        prefix: put before each name.

    Returns:
        The names of the views.

    Raises:
        SparkReputError: no store at a path.
    """
    names = []
    for name, make in TABLES.items():
        make(spark, path).createOrReplaceTempView(f"{prefix}{name}")
        names.append(f"{prefix}{name}")
    return names
