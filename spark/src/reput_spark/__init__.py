"""RocketMQ's message log in Apache Spark: read it, stream it, rebuild what follows from it.

    from reput_spark import local_session, read

    spark = local_session()
    orders = read(spark, "orders-store", columns=["topic", "keys", "store_timestamp"])
    orders.groupBy("topic").count().show()

``import reput_spark`` starts nothing and imports no Spark.
"""

from __future__ import annotations

from reput_spark.dataframe import read, register
from reput_spark.errors import SparkReputError, code_of
from reput_spark.options import ReadOptions
from reput_spark.session import local_session

__all__ = ["ReadOptions", "SparkReputError", "code_of", "local_session", "read", "register"]
