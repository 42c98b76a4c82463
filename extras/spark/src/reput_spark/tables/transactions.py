"""Transactions that nothing has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput.record.layout import TRANSACTION_MASK, TRANSACTION_PREPARED
from reput_spark.source.dataframes import read
from reput_spark.tables.queuetables import committed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reput_spark.source.dataframes import Paths

_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
_CHECKING_GROUP: Final = "CID_RMQ_SYS_TRANS"
_PLACE: Final = ("store", "broker", "physical_offset", "store_timestamp")
_COLUMNS: Final = (*_PLACE, "queue_id", "queue_offset", "topic", "group", "key")
_ROW: Final = (
    "named_struct('broker', broker, 'store_timestamp', store_timestamp, 'queue_id', queue_id, "
    "'queue_offset', place, 'topic', real_topic, 'group', producer, "
    "'key', coalesce(uniq_key, nullif(array_join(keys, ' '), '')))"
)


def dangling_transactions(spark: Any, path: Paths) -> DataFrame:
    """Return half messages that were neither committed nor rolled back.

    A half message is ended by an op message that names it, by a message that says to be its commit,
    or where the checks of the broker have come past it. Records with the bit "prepared", which
    stores without a broker have, are ended by a record that refers to them. The whole log is read
    for this, once, without bodies and all but two of the properties.

    Args:
        spark: the session, also one of Spark Connect.
        path: as for `reput_spark.read`.

    Source: RocketMQ ``TransactionalMessageBridge``: an op message with the tag ``d`` names in its
    body the queue offsets of half messages that are finished, with commas between them.
    """
    columns = [*_PLACE, "topic", "queue_id", "queue_offset", "uniq_key", "keys"]
    half = (
        read(spark, path, topic=_HALF_TOPIC, columns=[*columns, "properties"])
        .join(_finished(spark, path), ["store", "queue_id", "queue_offset"], "left_anti")
        .join(_checked(spark, path), ["store", "queue_id"], "left")
        .where("checked IS NULL OR queue_offset >= checked")
        .withColumns(_texts("properties['REAL_TOPIC']", "properties['PGROUP']", "queue_offset"))
        .selectExpr("store", "physical_offset", f"{_ROW} AS row", "false AS is_ended")
    )
    # One look at the log for both: prepared records, and records that end one.
    is_prepared = f"(sys_flag & {TRANSACTION_MASK}) = {TRANSACTION_PREPARED}"
    bits = (
        read(spark, path, columns=[*columns, "sys_flag", "prepared_transaction_offset"])
        .where(f"(sys_flag & {TRANSACTION_MASK}) <> 0")
        .withColumns(_texts("topic", "CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)"))
        .selectExpr(
            "store",
            f"if({is_prepared}, physical_offset, prepared_transaction_offset) AS physical_offset",
            f"if({is_prepared}, {_ROW}, NULL) AS row",
            f"NOT ({is_prepared}) AS is_ended",
        )
    )
    found = half.unionByName(bits).groupBy("store", "physical_offset")
    left = found.agg({"row": "max", "is_ended": "max"}).where("NOT `max(is_ended)`")
    made: DataFrame = left.selectExpr("store", "physical_offset", "`max(row)`.*").select(*_COLUMNS)
    return made


def _texts(topic: str, group: str, queue_offset: str) -> dict[str, Column]:
    """Return the texts that half messages and other prepared records have in different places."""
    from pyspark.sql.functions import expr

    return {
        "real_topic": expr(topic),
        "producer": expr(group),
        # A record with the bit is in no queue; its number there says nothing.
        "place": expr(queue_offset),
    }


def _finished(spark: Any, path: Paths) -> DataFrame:
    """Return store, queue id and queue offset of the half messages that op messages name."""
    ops = read(spark, path, topic=_OP_TOPIC, columns=["store", "queue_id", "tags", "body"])
    words = ops.where("tags = 'd'").selectExpr(
        "store", "queue_id", "explode(split(CAST(body AS STRING), ',')) AS word"
    )
    found: DataFrame = words.selectExpr(
        "store", "queue_id", "try_cast(word AS BIGINT) AS queue_offset"
    ).where("queue_offset IS NOT NULL")
    return found


def _checked(spark: Any, path: Paths) -> DataFrame:
    """Return by store and queue id the queue offset below which the broker has checked all."""
    of_checks = f"topic = '{_HALF_TOPIC}' AND `group` = '{_CHECKING_GROUP}'"
    found: DataFrame = (
        committed(spark, path)
        .where(of_checks)
        .selectExpr("store", "queue_id", "committed AS checked")
    )
    return found
