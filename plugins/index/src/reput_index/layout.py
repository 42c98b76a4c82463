"""Index files: a header, a table of slots, and a run of items; integers big-endian.

    0         8         16        24        32       36       40        40 + 4 H
    +---------+---------+---------+---------+--------+--------+---------+-----------------+
    | begin   | end     | begin   | end     | used   | next   | H slots | N items         |
    | time    | time    | offset  | offset  | slots  | item   | (4 each)| (20 each)       |
    +---------+---------+---------+---------+--------+--------+---------+-----------------+

An item; its number is its place among the items, counted from 1, and item 0 is never used:

    0        4                 12       16         20
    +--------+-----------------+--------+----------+
    | key    | physical offset | seconds| previous |
    | hash   |                 |        | item     |
    +--------+-----------------+--------+----------+

The hashed text is ``topic#key``, and ``topic#T#tags`` for the item of a message's tags. A slot is
``key hash mod H``; it holds the number of its newest item, and each item holds the number of the
item before it in the same slot; 0 ends the chain.

Source: RocketMQ ``IndexFile``, ``IndexHeader``, ``IndexService``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

HEADER_DTYPE: Final = np.dtype(
    [
        ("begin_timestamp", ">i8"),  # store time of the first item's message, ms
        ("end_timestamp", ">i8"),  # store time of the last item's message, ms
        ("begin_physical_offset", ">i8"),  # bytes, of the first item's record
        ("end_physical_offset", ">i8"),  # bytes, of the last item's record
        ("used_slot_count", ">i4"),  # slots that hold an item
        ("next_item", ">i4"),  # number that the next item gets; 0 or less stands for 1
    ]
)
SLOT_DTYPE: Final = np.dtype(">i4")
ITEM_DTYPE: Final = np.dtype(
    [
        ("key_hash", ">i4"),  # absolute value of the Java string hash, 0 for the smallest one
        ("physical_offset", ">i8"),  # bytes, of the record in the commit log
        ("seconds", ">i4"),  # whole seconds from the file's begin time to the message's, >= 0
        ("previous", ">i4"),  # number of the item before it in its slot; 0: none
    ]
)
HEADER: Final = struct.Struct(">qqqqii")
"""`HEADER_DTYPE` for one header."""
ITEM: Final = struct.Struct(">iqii")
"""`ITEM_DTYPE` for one item."""
HEADER_SIZE: Final = HEADER_DTYPE.itemsize
SLOT_SIZE: Final = SLOT_DTYPE.itemsize
ITEM_SIZE: Final = ITEM_DTYPE.itemsize
NEXT_ITEM_POSITION: Final = HEADER_SIZE - 4
"""File position of `next_item`, for error texts."""

SLOTS_PER_FILE: Final = 5_000_000
ITEMS_PER_FILE: Final = 20_000_000

DIRECTORY: Final = "index"
NAME_DIGITS: Final = 17
"""A file is named by a time, ``yyyyMMddHHmmssSSS``."""
KEY_SEPARATOR: Final = " "
TOPIC_END: Final = "#"
TAG_PREFIX: Final = "T#"
"""Before the tags of a message, in the key of their item, which RocketMQ adds since 5.4."""

_INT32_MIN: Final = -(1 << 31)


def file_size(slot_count: int, item_count: int) -> int:
    """Return the bytes of a file with so many slots and items."""
    return HEADER_SIZE + slot_count * SLOT_SIZE + item_count * ITEM_SIZE


def key_hash(java_hash: int) -> int:
    """Return the hash that an item states, which is never negative."""
    return 0 if java_hash == _INT32_MIN else abs(java_hash)
