"""Consume queue files: a run of 20-byte units, integers big-endian, unused space zero.

    0        8      12       20
    +--------+------+---------+
    | offset | size | tags    |
    +--------+------+---------+

Unit ``n`` of a queue stands at byte ``20 n``, counted over all files of the queue; a file is named
by the byte at which it begins. A queue whose first message is not its message 0 begins with
pre-blank units, which are never read.

Source: RocketMQ ``ConsumeQueue.CQ_STORE_UNIT_SIZE`` and ``#fillPreBlank``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from reput.record.layout import RECORD_MIN_SIZE

UNIT_DTYPE: Final = np.dtype(
    [
        ("physical_offset", ">i8"),  # bytes, of the record in the commit log
        ("size", ">i4"),  # bytes, whole record; 0 marks unused space
        ("tags_code", ">i8"),  # hash of the tags; deliver time or extend address for some
    ]
)
UNIT_SIZE: Final = UNIT_DTYPE.itemsize
UNIT: Final = struct.Struct(">qiq")
"""`UNIT_DTYPE` for one unit."""
UNITS_PER_FILE: Final = 300_000
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
"""The size that a pre-blank unit states; its offset and tags are 0."""

DIRECTORY: Final = "consumequeue"


def pre_blank_units(count: int) -> bytes:
    """Return ``count`` pre-blank units."""
    units = np.zeros(count, UNIT_DTYPE)
    units["size"] = PRE_BLANK_SIZE
    return units.tobytes()


def gone_units(count: int, min_physical_offset: int) -> bytes:
    """Return ``count`` units for messages that the log has lost with its head.

    RocketMQ recognizes them if they point below the log's beginning: the queue continues after
    them. (After pre-blank units alone it takes everything up to physical offset 2,147,483,647 for
    listed already.) A log that begins at 0 has nothing below its beginning.
    """
    if min_physical_offset < RECORD_MIN_SIZE:
        return pre_blank_units(count)
    units = np.zeros(count, UNIT_DTYPE)
    units["size"] = RECORD_MIN_SIZE
    return units.tobytes()


def valid_count(units: np.ndarray[tuple[int], np.dtype[np.void]]) -> int:
    """Return the number of units before the first invalid one (no size, or a negative offset).

    The units are of a plain queue or of a batch queue.
    """
    good = (units["size"] > 0) & (units["physical_offset"] >= 0)
    if units.dtype.itemsize > UNIT_SIZE:
        good &= (units["queue_offset"] >= 0) & (units["count"] > 0)
    return len(good) if good.all() else int(good.argmin())
