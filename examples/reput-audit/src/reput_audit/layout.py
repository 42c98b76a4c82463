"""Counts on disk: one file, ``<store>/audit/counts``; integers big-endian.

    0     4       8         12          20              28          36          44
    +-----+-------+---------+-----------+---------------+-----------+-----------+------+-------+
    | crc | magic | version | period_ms | dispatched_to | row count | name size | rows | names |
    +-----+-------+---------+-----------+---------------+-----------+-----------+------+-------+

A row is 48 bytes; rows are sorted, so that the same log gives the same file:

    0          8        16           24        32              40         48
    +----------+--------+------------+---------+---------------+-----------+
    | log file | period | name start | name    | message count | body size |
    |          |        |            | size    |               |           |
    +----------+--------+------------+---------+---------------+-----------+
"""

from __future__ import annotations

from typing import Final

import numpy as np

DIRECTORY: Final = "audit"
FILE_NAME: Final = "counts"
MAGIC: Final = b"AUDT"
VERSION: Final = 1

HEADER_DTYPE: Final = np.dtype(
    [
        ("crc", ">u4"),  # CRC-32 of all that follows, to the end of the file
        ("magic", "S4"),
        ("version", ">u4"),
        ("period_ms", ">i8"),  # ms that one row counts for
        ("dispatched_to", ">i8"),  # physical offset below which every message is counted
        ("row_count", ">i8"),
        ("name_size", ">i8"),  # bytes of all names
    ]
)

ROW_DTYPE: Final = np.dtype(
    [
        ("log_file", ">i8"),  # physical offset at which the commit-log file begins
        ("period", ">i8"),  # store time, in whole periods since the epoch
        ("name_start", ">i8"),  # of the topic, in the names; UTF-8
        ("name_size", ">i8"),  # bytes
        ("message_count", ">i8"),
        ("body_size", ">i8"),  # bytes of all bodies
    ]
)
