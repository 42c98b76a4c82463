"""Batch queue files: a run of 46-byte units, integers big-endian, unused space zero.

    0        8      12     20          28      36      38          42         46
    +--------+------+------+-----------+-------+-------+-----------+----------+
    | offset | size | tags | store     | queue | count | compacted | reserved |
    |        |      | code | timestamp | offset|       | offset    |          |
    +--------+------+------+-----------+-------+-------+-----------+----------+

A unit leads to a record of one message or of several, an inner batch. Its place in the files says
nothing about queue offsets: a reader finds a queue offset by halving. A file is named by the byte
at which it begins, counted over all files of the queue; the first one is named 0.

Source: RocketMQ 5 ``BatchConsumeQueue``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

UNIT_DTYPE: Final = np.dtype(
    [
        ("physical_offset", ">i8"),  # bytes, of the record in the commit log
        ("size", ">i4"),  # bytes, whole record; 0 marks unused space
        ("tags_code", ">i8"),  # hash of the tags of the record, not of its messages
        ("store_timestamp", ">i8"),  # ms
        ("queue_offset", ">i8"),  # of the record's first message
        ("count", ">i2"),  # messages in the record, 1 or more
        ("compacted_offset", ">i4"),  # -1, not used
        ("reserved", ">i4"),  # 0
    ]
)
UNIT_SIZE: Final = UNIT_DTYPE.itemsize
UNITS_PER_FILE: Final = 300_000
COUNT_MAX: Final = (1 << 15) - 1

DIRECTORY: Final = "batchconsumequeue"
