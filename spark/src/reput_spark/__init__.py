"""RocketMQ's message log in Apache Spark: read it, stream it, rebuild what follows from it.

    from reput_spark import local_session, read

    spark = local_session()
    orders = read(spark, "orders-store", columns=["topic", "keys", "store_timestamp"])
    orders.groupBy("topic").count().show()

``import reput_spark`` starts nothing and imports no Spark.
"""

from __future__ import annotations

from reput_spark.errors import SparkReputError, code_of
from reput_spark.reading.frame import read, register
from reput_spark.reading.options import ReadOptions
from reput_spark.setup.session import local_session
from reput_spark.streaming.frame import read_stream
from reput_spark.writing.frame import write
from reput_spark.writing.importing import import_parquet

__all__ = [
    "ReadOptions",
    "SparkReputError",
    "code_of",
    "import_parquet",
    "local_session",
    "read",
    "read_stream",
    "register",
    "write",
]
