"""Timer wheel, timer log and their checkpoint: RocketMQ 5's files, integers big-endian.

``timerwheel`` is an array of slots, one for each unit of time (the precision, 1 s by default):

    0        8        16       24      28      32
    +--------+--------+--------+-------+-------+
    | time   | first  | last   | count | magic |
    +--------+--------+--------+-------+-------+

``timerlog/<offset>`` is a run of records; the records of one slot are a chain, newest first:

    0      4          12      16         24      28              36     40      44         52
    +------+----------+-------+----------+-------+---------------+------+-------+----------+
    | size | previous | magic | enqueued | delay | physical      | size | topic | reserved |
    | (52) |          |       |          |       | offset        |      | hash  |          |
    +------+----------+-------+----------+-------+---------------+------+-------+----------+

A file that has no room for one more record and a blank ends in a blank:

    0      4          12         16
    +------+----------+----------+-------- zeros, to file's end
    | size | 0        | cbd43194 |
    +------+----------+----------+--------

``config/timercheck`` is 4096 bytes. RocketMQ's part:

    0       8         16     24      32      40        48      56
    +-------+---------+------+-------+-------+---------+-------+
    | read  | flushed | queue| master| state | version | count |
    | time  | log     | offs.| queue | versn | time    |       |
    +-------+---------+------+-------+-------+---------+-------+

and ours, which RocketMQ leaves as it is:

    64   68    72      76      80     88      96        104      112   120    128   132     136
    +----+-----+-------+-------+------+-------+---------+--------+-----+------+-----+-------+--
    |crc |magic|version|closed |preci-| read  | examined| copies | log | log  |head | mark  |
    |    |     |       |       |sion  | time  | to      | to     | min | end  |crc  | count |
    +----+-----+-------+-------+------+-------+---------+--------+-----+------+-----+-------+--

followed by the marks, 16 bytes each: read time, physical offset.

Source: RocketMQ ``Slot``, ``TimerWheel``, ``TimerLog``, ``TimerCheckpoint``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

SLOT_DTYPE: Final = np.dtype(
    [
        ("tick", ">i8"),  # deliver time / precision
        ("first", ">i8"),  # timer-log position of the slot's first record
        ("last", ">i8"),  # of its newest record, where the chain begins
        ("count", ">i4"),  # messages less cancellations; may be negative
        ("magic", ">i4"),  # 0
    ]
)
SLOT_SIZE: Final = SLOT_DTYPE.itemsize
SLOT_COUNT: Final = 2 * 7 * 86_400
ROLL_WINDOW_SLOTS: Final = 172_800
"""A message that is due more slots ahead is parked again on the way (``timerRollWindowSlot``)."""
TIMER_LOG_FILE_SIZE: Final = 100 << 20
"""Bytes of a new timer-log file (``mappedFileSizeTimerLog``)."""

RECORD_DTYPE: Final = np.dtype(
    [
        ("size", ">i4"),  # bytes, of this record: 52
        ("previous", ">i8"),  # timer-log position of the slot's next older record; -1 without
        ("magic", ">i4"),  # bits `MAGIC_DEFAULT`, `MAGIC_ROLL`, `MAGIC_DELETE`
        ("enqueued", ">i8"),  # ms, when it was put on the wheel, rounded down to the precision
        ("delay", ">i4"),  # ms from then to the slot's time; negative for late messages
        ("physical_offset", ">i8"),  # of the parked message in the commit log
        ("message_size", ">i4"),  # bytes of the parked message
        ("topic_hash", ">i4"),  # Java hash of its real topic
        ("reserved", ">i8"),  # 0
    ]
)
RECORD_SIZE: Final = RECORD_DTYPE.itemsize
NO_POSITION: Final = -1

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2  # its time lies beyond the wheel: when due it is parked again
MAGIC_DELETE: Final = 4  # cancels a message of the same slot
MAGIC_MAX: Final = 15

BLANK_DTYPE: Final = np.dtype([("size", ">i4"), ("zero", ">i8"), ("magic", ">u4")])
BLANK_SIZE: Final = BLANK_DTYPE.itemsize

CHECK_DTYPE: Final = np.dtype(
    [
        ("read_timestamp", ">i8"),  # ms, of the next slot to deliver
        ("flushed_position", ">i8"),  # timer-log position below which the log is on disk
        ("queue_offset", ">i8"),  # next message of the timer's queue to put on the wheel
        ("master_queue_offset", ">i8"),  # of the broker that this one follows; ours is its own
        ("state_version", ">i8"),
        ("version_timestamp", ">i8"),  # ms
        ("version_counter", ">i8"),
    ]
)
NOTE_DTYPE: Final = np.dtype(
    [
        ("crc", ">u4"),  # CRC-32 of all that follows, to the last mark
        ("magic", "S4"),
        ("version", ">i4"),
        ("closed", ">i4"),  # 1: the wheel's file is complete up to `log_end`
        ("precision_ms", ">i8"),
        ("read_timestamp", ">i8"),  # ms; slots below it are delivered, of what was examined
        ("examined_to", ">i8"),  # physical offset: of messages below it, those are delivered
        ("copies_to", ">i8"),  # physical offset: messages delivered since lie above it
        ("log_min", ">i8"),  # timer-log position of its first file
        ("log_end", ">i8"),  # timer-log position after its last record on disk
        ("head_crc", ">u4"),  # CRC-32 of RocketMQ's part, as we wrote it
        ("mark_count", ">i4"),
    ]
)
MARK_DTYPE: Final = np.dtype([("read_timestamp", ">i8"), ("examined_to", ">i8")])
CHECK_FILE_SIZE: Final = 4096
NOTE_POSITION: Final = 64
NOTE_MAGIC: Final = b"RPTW"
NOTE_VERSION: Final = 1
MARKS_MAX: Final = (CHECK_FILE_SIZE - NOTE_POSITION - NOTE_DTYPE.itemsize) // MARK_DTYPE.itemsize

WHEEL_FILE: Final = "timerwheel"
LOG_DIRECTORY: Final = "timerlog"
CONFIG_DIRECTORY: Final = "config"
CHECK_FILE: Final = "timercheck"
SECTOR_SIZE: Final = 512
"""Bytes that a disk writes at once; without many marks the checkpoint has no more."""
METRICS_FILE: Final = "timermetrics"

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
TIMER_QUEUE_ID: Final = 0

PROPERTY_DELAY_SEC: Final = "TIMER_DELAY_SEC"
PROPERTY_DELAY_MS: Final = "TIMER_DELAY_MS"
PROPERTY_DELIVER_MS: Final = "TIMER_DELIVER_MS"
PROPERTY_OUT_MS: Final = "TIMER_OUT_MS"
PROPERTY_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
PROPERTY_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
PROPERTY_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
PROPERTY_DELETE_KEY: Final = "TIMER_DEL_UNIQKEY"
RECALL_TAG: Final = "_RECALL_TAG_"
"""Tag of a cancellation that a recall has written."""
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"

OVERDUE_ENQUEUE_MS: Final = (1 << 63) - 1
"""``TIMER_ENQUEUE_MS`` of a message that was due before it could be put on the wheel."""


def records_per_file(file_size: int) -> int:
    """Return how many records a timer-log file of that size holds, with room for a blank."""
    return (file_size - BLANK_SIZE) // RECORD_SIZE


def is_cancellation(records: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return ``(n,)``: which records cancel others now; cancellations that roll do so later."""
    found: npt.NDArray[np.bool_] = records["magic"] & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE
    return found
