"""Commit-log files: records one after another, integers big-endian, a blank closing each file.

A record whose hosts are IPv4 (``B = S = 8``; an IPv6 host takes 20 bytes and moves what follows):

    0      4       8       12      16     20        28         36        40
    +------+-------+-------+-------+------+---------+----------+---------+----------
    | size | magic | crc   | queue | flag | queue   | physical | system  | born
    |      |       |       | id    |      | offset  | offset   | flag    | timestamp
    +------+-------+-------+-------+------+---------+----------+---------+----------
    48          56         64           72          76         84
    +-----------+----------+------------+-----------+----------+--------+------------------
    | born host | store    | store host | reconsume | prepared | body   | body, topic size,
    | (B)       | timestmp | (S)        | times     | offset   | size   | topic, props size, props
    +-----------+----------+------------+-----------+----------+--------+------------------

A blank record is its size, `BLANK_MAGIC`, and bytes without meaning up to the end of the file.

Source: RocketMQ ``CommitLog``, ``MessageExtEncoder``, ``MessageDecoder``, ``MessageSysFlag``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB  # 5.x: topic size takes two bytes
BLANK_MAGIC: Final = 0xCBD43194
BLANK_MIN_SIZE: Final = 8  # bytes that every file keeps for the blank that closes it

HEADER_DTYPE: Final = np.dtype(
    [
        ("size", ">i4"),  # bytes, whole record
        ("magic", ">u4"),
        ("body_crc", ">i4"),  # CRC-32 & 0x7FFFFFFF of the stored body; 0 when it is empty
        ("queue_id", ">i4"),
        ("flag", ">i4"),  # the application's, opaque
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),  # of this record, as its writer saw it
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),  # ms
        ("born_host", "V8"),  # address, then port as i32
        ("store_timestamp", ">i8"),  # ms
        ("store_host", "V8"),
        ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"),
        ("body_size", ">i4"),  # bytes
    ]
)
"""The 88 bytes before the body of a record whose hosts are both IPv4."""

AFTER_STORE_HOST_DTYPE: Final = np.dtype(
    [("reconsume_times", ">i4"), ("prepared_transaction_offset", ">i8"), ("body_size", ">i4")]
)
"""The fields after the store host; their position depends on the hosts' sizes."""

HEADER_SIZE: Final = HEADER_DTYPE.itemsize
BORN_HOST_POSITION: Final = 48
HOST_SIZE: Final = 8  # IPv4: four bytes of address, four of port
HOST_SIZE_V6: Final = 20
HOST_EXTRA_V6: Final = HOST_SIZE_V6 - HOST_SIZE
RECORD_MIN_SIZE: Final = HEADER_SIZE + 1 + 2  # no body, no topic, no properties, v1

SIZE_AND_MAGIC: Final = struct.Struct(">iI")

# sysFlag bits
COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_MASK: Final = 0xC
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_MASK: Final = 0x700

HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6

# property text: name NAME_END value VALUE_END, and so on
NAME_END: Final = 1
VALUE_END: Final = 2

PROPERTY_TAGS: Final = "TAGS"
PROPERTY_KEYS: Final = "KEYS"
KEY_SEPARATOR: Final = " "  # between the words of KEYS, one or more; no other white space
PROPERTY_UNIQ_KEY: Final = "UNIQ_KEY"
PROPERTY_WAIT: Final = "WAIT"
PROPERTY_CRC: Final = "__CRC32#"
PROPERTY_LIGHT_QUEUES: Final = "INNER_MULTI_DISPATCH"
PROPERTY_LIGHT_QUEUE_OFFSETS: Final = "INNER_MULTI_QUEUE_OFFSET"
PROPERTY_INNER_NUM: Final = "INNER_NUM"
PROPERTY_INNER_BASE: Final = "INNER_BASE"
LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
FILLER_TOPIC: Final = "RMQ_SYS_REPUT_HOLE"
"""Topic of the filler records that replace lost ones; small fillers have only its beginning."""

CRC_PROPERTY_NAME: Final = PROPERTY_CRC.encode() + b"\x01"
"""How the property with the whole-record checksum begins."""
CRC_PROPERTY_SIZE: Final = len(CRC_PROPERTY_NAME) + 10 + 1
"""Bytes that the whole-record checksum takes at the end of the properties."""

TOPIC_SIZE_V1_MAX: Final = 127
TOPIC_SIZE_MAX: Final = 255  # topics of retries and dead letters only
PROPERTIES_SIZE_MAX: Final = 32_767
RECORD_OVERHEAD_MAX: Final = 65_536  # a record may exceed the body limit by this


def host_size(sys_flag: int, bit: int) -> int:
    """Return the bytes of the host that ``bit`` (`BORN_HOST_V6`, `STORE_HOST_V6`) describes."""
    return HOST_SIZE_V6 if sys_flag & bit else HOST_SIZE


HEADERS: Final = {
    flag: struct.Struct(
        f">iIiiiqqiq{host_size(flag, BORN_HOST_V6)}sq{host_size(flag, STORE_HOST_V6)}siqi"
    )
    for flag in (0, BORN_HOST_V6, STORE_HOST_V6, HOSTS_V6)
}
"""The fields of `HEADER_DTYPE` for one record, by the bits of `HOSTS_V6` in its system flag."""
HEADER: Final = HEADERS[0]
"""Of a record whose hosts are both IPv4; the fields up to the system flag are those of any."""
