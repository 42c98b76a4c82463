"""RocketMQ's message log in Apache Spark: read it, stream it, rebuild what follows from it.

    from reput_spark import local_session, read

    spark = local_session()
    orders = read(spark, "orders-store", columns=["topic", "keys", "store_timestamp"])
    orders.groupBy("topic").count().show()

``import reput_spark`` starts nothing and imports no Spark: each name is imported when it is first
used, so that a worker on an executor imports only what its task needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_spark.errors import SparkReputError as SparkReputError
    from reput_spark.errors import code_of as code_of
    from reput_spark.jobs.importjob import import_parquet as import_parquet
    from reput_spark.jobs.write import write as write
    from reput_spark.reader.options import ReadOptions as ReadOptions
    from reput_spark.session.localsession import local_session as local_session
    from reput_spark.source.dataframes import read as read
    from reput_spark.source.dataframes import read_stream as read_stream
    from reput_spark.source.dataframes import register as register
else:
    __getattr__, __dir__ = lazy_exports(__name__)
