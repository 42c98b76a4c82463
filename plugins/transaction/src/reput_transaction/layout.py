"""Names of RocketMQ's transactions, and snapshots of the open ones; integers big-endian.

A snapshot, ``<store>/transaction/<20 digits>``, is named by the physical offset from which on the
log has to be read again; it holds what the plugin knew before the record there.

    0     4       8         12        20          28         36        44
    +-----+-------+---------+---------+-----------+----------+---------+-------------+------+-----
    | crc | magic | version | resume  | row count | op count | names   | rows, ops,  |
    |     |       |         | offset  |           |          | size    | group names |
    +-----+-------+---------+---------+-----------+----------+---------+-------------+------+-----

A row is a half message that is not finished, 64 bytes; an op row is 16 bytes. Rows are in the order
of the half queue, so that the same log gives the same bytes.

Source: RocketMQ ``TransactionalMessageUtil``, ``TransactionalMessageBridge``, ``TopicValidator``,
``MessageConst``. Snapshots and `PROPERTY_MEMBER_OF` are reput's own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_TOPICS: Final = frozenset({HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC})
SYSTEM_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Consumer group whose offsets tell how far RocketMQ's check-back has come."""

PROPERTY_TRANSACTIONAL: Final = "TRAN_MSG"
PROPERTY_GROUP: Final = "PGROUP"
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"
PROPERTY_TRANSACTION_ID: Final = "__transactionId__"
PROPERTY_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
PROPERTY_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_DELAY: Final = "DELAY"
PROPERTY_MEMBER_OF: Final = "REPUT_TRANSACTION"
"""Id that all messages of one `TransactionPlugin.transaction` share; RocketMQ carries it along."""

OP_TAGS: Final = "d"
OP_PROPERTIES: Final = b"WAIT\x01true\x02TAGS\x01d\x02"
OP_OFFSET_DIGITS: Final = 19
"""Digits of the largest queue offset; a longer text is not an offset."""

DIRECTORY: Final = "transaction"
MAGIC: Final = b"RTRA"
VERSION: Final = 1

HEADER_DTYPE: Final = np.dtype(
    [
        ("crc", ">u4"),  # CRC-32 of all that follows, to the end of the file
        ("magic", "S4"),
        ("version", ">u4"),
        ("resume_offset", ">i8"),  # physical offset of the first record not seen yet
        ("row_count", ">i8"),
        ("op_count", ">i8"),
        ("name_size", ">i8"),  # bytes of all group names, with a zero byte after each
    ]
)

ROW_DTYPE: Final = np.dtype(
    [
        ("queue_offset", ">i8"),  # in the half queue
        ("physical_offset", ">i8"),  # of the half message's record
        ("born_timestamp", ">i8"),  # ms
        ("ended_to", ">i8"),  # physical offset after the record that ended it; 0 while open
        ("newer", ">i8"),  # physical offset of the copy that replaced it; -1 without
        ("key", ">i8"),  # hash of UNIQ_KEY, for finding the row
        ("check_times", ">i4"),  # how often it was checked
        ("state", ">i4"),  # OPEN, ENDED or SUPERSEDED
        ("group", ">i4"),  # number of its group among the names; -1 without
        ("decision", ">i4"),  # of the group: UNDECIDED, COMMITTED or ROLLED_BACK
    ]
)

OP_DTYPE: Final = np.dtype(
    [
        ("queue_offset", ">i8"),  # of an op message, in the op queue
        ("max_half_offset", ">i8"),  # largest half queue offset named by it or by merged neighbours
    ]
)

OPEN: Final = 0
ENDED: Final = 1  # committed or rolled back; its op marker is not in the log yet
SUPERSEDED: Final = 2  # a copy has replaced it

UNDECIDED: Final = 0
COMMITTED: Final = 1
ROLLED_BACK: Final = 2
