"""Tables with a row for each message of certain topics: dead letters, retries, traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_arrow.tables.messagetrace import TRACE_TOPIC
from reput_spark.source.dataframes import read
from reput_spark.tables.queuetables import committed, queues, table_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from reput_spark.source.dataframes import Paths

_RETRY: Final = "%RETRY%"
_DEAD: Final = "%DLQ%"
_PLACE: Final = ("store", "broker", "queue_id", "queue_offset", "physical_offset")
_MESSAGE: Final = (
    *("store_timestamp", "born_timestamp", "reconsume_times", "tags", "keys", "uniq_key"),
    *("properties", "body"),
)


def dead_letters(spark: Any, path: Paths, *, group: str | None = None) -> DataFrame:
    """Return the messages that consumer groups gave up, each with the topic that it came from.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.
        group: only of this group; of all that the stores know now when left out.
    """
    return _of_groups(spark, path, _DEAD, group)


def retries(spark: Any, path: Paths, *, group: str | None = None) -> DataFrame:
    """Return the messages that consumer groups sent back, to be delivered again.

    ``is_waiting`` says whether the group has not consumed it since; null where the store has no
    offset of the group. A message that still waits for its delay is in the delay levels.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.
        group: only of this group; of all that the stores know now when left out.
    """
    found = _of_groups(spark, path, _RETRY, group)
    offsets = committed(spark, path).where(f"topic = concat('{_RETRY}', `group`)")
    keys = ["store", "group", "queue_id"]
    joined = found.join(offsets.select(*keys, "committed"), keys, "left")
    made: DataFrame = joined.selectExpr(*found.columns, "queue_offset >= committed AS is_waiting")
    return made


def _of_groups(spark: Any, path: Paths, prefix: str, group: str | None) -> DataFrame:
    topics = [f"{prefix}{group}"]
    if group is None:
        known = queues(spark, path).where(f"startswith(topic, '{prefix}')").select("topic")
        # No group has an empty name: with no topic at all, all messages would be wanted.
        topics = sorted(each.topic for each in known.distinct().collect()) or [prefix]
    rows = read(spark, path, columns=["topic", *_PLACE, *_MESSAGE], topic=topics)
    origins = ("DLQ_ORIGIN_TOPIC", "RETRY_TOPIC"), ("DLQ_ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_ID")
    topic, message = (
        ", ".join(f"try_element_at(properties, '{name}')" for name in names) for names in origins
    )
    found: DataFrame = rows.selectExpr(
        *_PLACE[:2],
        f"substring(topic, {len(prefix) + 1}) AS `group`",
        f"coalesce({topic}) AS origin_topic",
        f"coalesce({message}) AS origin_msg_id",
        *_PLACE[2:],
        *_MESSAGE,
    )
    return found


def trace(spark: Any, path: Paths, *, topic: str = TRACE_TOPIC) -> DataFrame:
    """Return the records of a trace topic, a row for each: sent, before consumed, after consumed.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.
        topic: where clients send their traces.
    """
    return table_frame(spark, path, "trace", topic=topic)
