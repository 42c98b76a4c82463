"""Count what is in logs, in Spark's SQL: messages and bytes per topic, queue, tag, hour and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = ("topic", "queue_id", "tags", "keys", "size", "born_timestamp", "store_timestamp")
"""Columns that are counted; to read others takes time."""
QUESTIONS: Final = {
    "topics": "messages, bytes and mean delay of each topic",
    "queues": "messages and bytes of each queue",
    "tags": "messages and bytes of each topic's tags",
    "hours": "messages and bytes stored in each hour",
    "keys": "the keys with most messages",
    "delays": "time between born and stored: messages of each topic, by powers of two",
}
"""Names of the tables, and what each one answers."""


def stats(messages: DataFrame) -> dict[str, DataFrame]:
    """Count messages, by each of `QUESTIONS`.

    All but the keys come of one group by, which Spark keeps (`DataFrame.cache`) once the first of
    them is used: ``spark.catalog.clearCache()`` forgets it.

    Args:
        messages: columns of `COLUMNS`, as `reput_spark.read` returns them.

    Returns:
        By question: a DataFrame, with what is most first, and hours in order.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody does

    delay = F.expr("unix_millis(store_timestamp) - unix_millis(born_timestamp)")
    hour = F.date_trunc("hour", "store_timestamp")
    bits = F.when(delay < 0, -1).when(delay == 0, 0).otherwise(F.length(F.bin(delay)))
    cube = messages.groupBy("topic", "queue_id", "tags", hour.alias("hour"), bits.alias("bits"))
    counted = cube.agg(
        F.count("*").alias("messages"), F.sum("size").alias("bytes"), F.sum(delay).alias("delay_ms")
    ).cache()
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes")]
    mean = (F.sum("delay_ms") / F.sum("messages")).alias("mean_delay_ms")
    keys = messages.select("topic", F.explode("keys").alias("key"), "size")
    # 0 ms is a bucket of its own; n bits are 2**(n-1) to 2**n - 1.
    least = F.expr("CASE WHEN bits > 0 THEN shiftleft(1L, bits - 1) WHEN bits = 0 THEN 0L END")
    below = F.expr("CASE WHEN bits >= 0 THEN shiftleft(1L, bits) ELSE 0L END")
    delays = counted.groupBy("topic", "bits").agg(sums[0]).orderBy("topic", "bits")
    most = F.desc("messages")
    return {
        "topics": counted.groupBy("topic").agg(*sums, mean).orderBy(most, "topic"),
        "queues": counted.groupBy("topic", "queue_id")
        .agg(*sums)
        .orderBy(most, "topic", "queue_id"),
        "tags": counted.groupBy("topic", "tags").agg(*sums).orderBy(most, "topic", "tags"),
        "hours": counted.groupBy("hour").agg(*sums).orderBy("hour"),
        "keys": keys.groupBy("topic", "key")
        .agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
        .orderBy(most, F.desc("bytes"), "topic", "key"),
        "delays": delays.select(
            "topic", least.alias("from_ms"), below.alias("below_ms"), "messages"
        ),
    }
