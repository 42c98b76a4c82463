"""Tables for operators of RocketMQ, as DataFrames: lag, retries, transactions, traces.

    from reput_spark import tables

    tables.consumer_lag(spark, "/data/*/store").orderBy("lag", ascending=False).show()
    tables.register(spark, "/data/*/store")  # each table as a temporary view, for SQL

A broker need not run, nor a command of RocketMQ: everything comes out of the files of the stores.
"""

from __future__ import annotations

from reput_spark.tables.queuetables import consumer_lag, queues, schedule_backlog
from reput_spark.tables.rowtables import dead_letters, retries, trace
from reput_spark.tables.tableviews import TABLES, register
from reput_spark.tables.transactions import dangling_transactions

__all__ = [
    "TABLES",
    "consumer_lag",
    "dangling_transactions",
    "dead_letters",
    "queues",
    "register",
    "retries",
    "schedule_backlog",
    "trace",
]
