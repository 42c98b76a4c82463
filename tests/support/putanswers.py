"""What puts answer and leave, for comparing engines: receipts, errors, records, queue offsets."""

from __future__ import annotations

import struct
import time

import reput
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HEADER_DTYPE,
    HEADER_SIZE,
    HOST_SIZE,
    HOST_SIZE_V6,
    MAGIC_V1,
    MAGIC_V2,
    SIZE_AND_MAGIC,
)

FILE_SIZE = 1 << 15
DIGITS = 11  # of the whole-record checksum, at the end of the properties
SYS_FLAG = HEADER_DTYPE.fields["sys_flag"][1]
BORN_TIMESTAMP = HEADER_DTYPE.fields["born_timestamp"][1]


def outcome(call):
    """Receipts without their times, or the error."""
    try:
        receipt = call()
    except Exception as error:
        return type(error), str(error)
    if isinstance(receipt, reput.Receipt):
        return [receipt[1:6]]
    return [each[1:6] for each in receipt]


def records_of(root, has_crc=False):
    """The log's bytes, without what differs from one put to the next: times, and their checksum."""
    found = []
    for path in sorted((root / "commitlog").iterdir()):
        data = bytearray(path.read_bytes())
        at = 0
        while at + SIZE_AND_MAGIC.size <= len(data):
            size, magic = SIZE_AND_MAGIC.unpack_from(data, at)
            if size < HEADER_SIZE or magic not in (MAGIC_V1, MAGIC_V2):
                break
            (born,) = struct.unpack_from(">q", data, at + BORN_TIMESTAMP)
            host_size = HOST_SIZE_V6 if data[at + SYS_FLAG + 3] & BORN_HOST_V6 else HOST_SIZE
            stored_at = at + BORN_HOST_POSITION + host_size
            (stored,) = struct.unpack_from(">q", data, stored_at)
            assert abs(stored - time.time_ns() // 1_000_000) < 600_000
            if born == stored:
                data[at + BORN_TIMESTAMP : at + BORN_TIMESTAMP + 8] = bytes(8)
            data[stored_at : stored_at + 8] = bytes(8)
            if has_crc:
                data[at + size - DIGITS : at + size] = bytes(DIGITS)
            at += size
        found.append((path.name, bytes(data)))
    return found


def put(store, task):
    """Put a message; anything else is of many."""
    return store.put(task) if isinstance(task, reput.Message) else store.put_many(task)


def lived(root, tasks, options, put=put):
    """What a store that is given these tasks answers, and leaves."""
    config = {"commitlog": {"file_size": FILE_SIZE, "max_message_size": 1 << 14} | options}
    with reput.open(root, plugins=[], config=config, threads=False) as store:
        answers = [outcome(lambda task=task: put(store, task)) for task in tasks]
        offsets = store.log.queue_offsets
        places = store.log.max_physical_offset, store.log.last_record_offset
    return answers, offsets, places, records_of(root, has_crc="record_crc" in options)
