"""Repairs a record of which one field is damaged, where everything else says what it must be.

The size follows from the lengths inside, the magic is one of two, and the physical offset is where
the record stands. A record counts as repaired only if its body then matches its checksum, and a
valid record, a blank or the log's unwritten part follows at once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import RECORD_SIZE_MAX, Corruption, CorruptionKind, Decoder
from reput.record.layout import (
    BLANK_MAGIC,
    BORN_HOST_V6,
    HEADER_DTYPE,
    HEADER_SIZE,
    HOST_EXTRA_V6,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    STORE_HOST_V6,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.log import LogReader
    from reput.record import DispatchBatch

FIELD_POSITIONS: Final = {
    name: (int(offset), f">{'q' if dtype.itemsize == 8 else 'i'}")
    for name, (dtype, offset) in (
        (name, found[:2]) for name, found in (HEADER_DTYPE.fields or {}).items()
    )
    if dtype.kind in "iu"
}
"""Position in a record and `struct` format of each number of the header, before the hosts."""
_TOPIC_SIZE_FORMATS: Final = {MAGIC_V1: ">B", MAGIC_V2: ">h"}
_CLOCK_STEP_MS: Final = 1_000
_SYS_FLAG: Final = slice(36, 40)


@attrs.frozen
class FieldRepair:
    """A field of a record to be written again."""

    physical_offset: int
    """Where the record begins."""
    size: int
    """Bytes of the record."""
    field: str
    position: int
    """Of the field in the record, bytes."""
    old: bytes
    new: bytes
    reason: str
    """How the right value is known, for people."""


def repair_record(
    log: LogReader, at: int, finding: Corruption | None, *, after: int = 0
) -> FieldRepair | None:
    """Return how the record at ``at`` is repaired; None if it is not damaged in one field alone.

    Args:
        log: the log.
        at: where a record should begin.
        finding: what the decoder found there; None for zeros.
        after: store time of the record before it, ms; 0 if not known.
    """
    if finding is None:
        return None
    for field, new, size in _candidates(log, at, finding):
        position, _ = FIELD_POSITIONS[field]
        data = bytearray(log.files.read(at, size))
        if len(data) < size:
            continue
        old = bytes(data[position : position + len(new)])
        data[position : position + len(new)] = new
        timestamp = _store_timestamp_if_sound(bytes(data), at)
        if timestamp is None or timestamp < after - _CLOCK_STEP_MS:
            continue  # an older record is a remainder of a log that was cut
        if _goes_on(log, at + size, timestamp, last_byte=data[-1]):
            return FieldRepair(at, size, field, position, old, new, _REASONS[field])
    return None


def repaired_batch(log: LogReader, mend: FieldRepair) -> DispatchBatch:
    """Return the repaired record alone, as columns."""
    data = bytearray(log.files.read(mend.physical_offset, mend.size))
    data[mend.position : mend.position + len(mend.new)] = mend.new
    return Decoder().decode(np.frombuffer(bytes(data), np.uint8), mend.physical_offset).batch


_REASONS: Final = {
    "size": "the lengths inside of the record add up to it",
    "magic": "with it the record is valid",
    "physical_offset": "the record stands there",
    "sys_flag": "with hosts of these sizes the lengths add up",
}


def _candidates(log: LogReader, at: int, finding: Corruption) -> Iterator[tuple[str, bytes, int]]:
    """Yield field, right bytes, and the size that the record would have."""
    stated = log.size_at(at)
    if finding.reason is CorruptionKind.PHYSICAL_OFFSET:
        yield "physical_offset", struct.pack(">q", at), stated
        return
    head = log.files.read(at, HEADER_SIZE + 2 * HOST_EXTRA_V6)
    if len(head) < HEADER_SIZE:
        return
    _, magic = SIZE_AND_MAGIC.unpack_from(head)
    if magic in (MAGIC_V1, MAGIC_V2):
        size = _summed_size(log, at, head, magic)
        if RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX and size != stated:
            yield "size", struct.pack(">i", size), size
        for bit in (BORN_HOST_V6, STORE_HOST_V6):
            flags = (int.from_bytes(head[_SYS_FLAG], "big") ^ bit).to_bytes(4, "big")
            other = head[: _SYS_FLAG.start] + flags + head[_SYS_FLAG.stop :]
            if _summed_size(log, at, other, magic) == stated:
                yield "sys_flag", flags, stated
    elif RECORD_MIN_SIZE <= stated <= RECORD_SIZE_MAX:
        for right in (MAGIC_V1, MAGIC_V2):
            if _summed_size(log, at, head, right) == stated:
                yield "magic", struct.pack(">I", right), stated


def _summed_size(log: LogReader, at: int, head: bytes, magic: int) -> int:
    """Return the sum of a record's parts; 0 if a length cannot be right."""
    sys_flag = int.from_bytes(head[_SYS_FLAG], "big")
    size = HEADER_SIZE
    size += HOST_EXTRA_V6 if sys_flag & BORN_HOST_V6 else 0
    size += HOST_EXTRA_V6 if sys_flag & STORE_HOST_V6 else 0
    body_size = int.from_bytes(head[size - 4 : size], "big", signed=True)
    if not 0 <= body_size <= RECORD_SIZE_MAX:
        return 0
    size += body_size
    for width in (struct.calcsize(_TOPIC_SIZE_FORMATS[magic]), 2):
        data = log.files.read(at + size, width)
        if len(data) < width:
            return 0
        size += width + int.from_bytes(data, "big")
    return size


def _store_timestamp_if_sound(record: bytes, at: int) -> int | None:
    decoder = Decoder(check_crc=True, check_record_crc=True)
    batch = decoder.decode(np.frombuffer(record, np.uint8), at).batch
    return int(batch.store_timestamp[0]) if len(batch) == 1 else None


def _goes_on(log: LogReader, end: int, timestamp: int, *, last_byte: int) -> bool:
    """Whether what stands at ``end`` can follow a record there, whose last byte is given."""
    base = log.files.base_of(end)
    if base is None or base == end:
        return False  # no record fills its file to the end
    head = log.files.read(end, SIZE_AND_MAGIC.size)
    if len(head) < SIZE_AND_MAGIC.size:
        return False
    size, magic = SIZE_AND_MAGIC.unpack(head)
    if magic == BLANK_MAGIC:
        return bool(size == base + log.file_size - end)
    if magic in (MAGIC_V1, MAGIC_V2) and RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX:
        following = _store_timestamp_if_sound(log.files.read(end, size), end)
        return following is not None and following >= timestamp - _CLOCK_STEP_MS
    # Texts of properties do not end in zeros: with a wrong length, a record would reach into the
    # part of the log that is not written.
    is_end = last_byte != 0 and log.files.last_used(end, base + log.file_size) == end
    return is_end and log.files.base_after(end) is None
