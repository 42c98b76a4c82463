"""The questions, in the order in which the answers are printed."""

from __future__ import annotations

from benchmarks.case import Table

__all__ = [
    "APPEND_MANY",
    "APPEND_MANY_DURABLE",
    "APPEND_ONE",
    "APPEND_ONE_DURABLE",
    "DERIVE",
    "IDLE",
    "OPEN",
    "READ",
    "SCAN",
    "TABLES",
]

APPEND_ONE = Table(
    "Append one at a time, flushed later",
    note="LMDB and the queues keep no index by topic and queue; SQLite does, so its row compares "
    "with the one until readable",
)
APPEND_MANY = Table("Append in batches of 1000, flushed later", note="times are of one batch")
APPEND_ONE_DURABLE = Table("Append one at a time, each on disk before the call returns")
APPEND_MANY_DURABLE = Table(
    "Append in batches of 1000, each on disk before the call returns", note="times are of one batch"
)
DERIVE = Table("Consume queues from nothing, the log already there", bytes_of="records")
SCAN = Table("Scan the log into columns", bytes_of="records")
READ = Table("Read everything in order, bodies taken as bytes")
IDLE = Table("An idle store: put one message, wait until it can be read", compares=False)
OPEN = Table("Open a store", bytes_of="records", compares=False)

TABLES = (
    APPEND_ONE,
    APPEND_MANY,
    APPEND_ONE_DURABLE,
    APPEND_MANY_DURABLE,
    DERIVE,
    SCAN,
    READ,
    IDLE,
    OPEN,
)
