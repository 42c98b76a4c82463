"""Fills damage of the log with filler records, or a blank, of exactly its size.

Then any reader of RocketMQ's format can read the whole log. A filler is a rolled-back message of
the topic `FILLER_TOPIC`, so that no consume queue and no index lists it. A range that ends with its
file becomes a blank.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reput.record.encoding.one import encode_filler
from reput.record.layout import (
    BLANK_MAGIC,
    CRC_PROPERTY_SIZE,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
)

if TYPE_CHECKING:
    from reput.files.mapping.mapped import MappedFileQueue
    from reput.files.system.disk import Disk
    from reput.log.damage import Damage, Loss

__all__ = ["fill", "fillers"]

_FILLER_MAX: Final = 4 << 20
"""Most bytes of one filler record, so that readers need not hold more at once."""
_LAST_MIN: Final = RECORD_MIN_SIZE + CRC_PROPERTY_SIZE


def fillers(
    damage: Damage, file_end: int, facts: bytes, store_host: bytes, *, record_crc: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield physical offset and bytes of everything to be written, ascending."""
    position, end = damage.start_offset, damage.end_offset
    if end == file_end:
        # After its first eight bytes a blank has no meaning: the bytes there may stay.
        yield position, SIZE_AND_MAGIC.pack(end - position, BLANK_MAGIC)
        return
    while position < end:
        size = min(end - position, _FILLER_MAX)
        if 0 < end - position - size < _LAST_MIN:
            size -= _LAST_MIN  # the last filler must not be smaller than a record can be
        yield (
            position,
            encode_filler(
                size, position, damage.store_timestamp, facts, store_host, record_crc=record_crc
            ),
        )
        position += size


def fill(
    files: MappedFileQueue,
    disk: Disk,
    damage: Damage,
    loss: Loss,
    store_host: bytes,
    *,
    record_crc: bool,
) -> None:
    """Overwrite ``damage``; on disk when this returns. The bytes depend on ``loss`` only."""
    base = files.base_of(damage.start_offset)
    assert base is not None
    descriptor = disk.open(files.path(base), write=True)
    try:
        for position, data in fillers(
            damage, base + files.file_size, _facts(loss), store_host, record_crc=record_crc
        ):
            disk.write(descriptor, data, position - base)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)


def _facts(loss: Loss) -> bytes:
    facts = {
        "lost": [loss.start_offset, loss.end_offset],
        "reason": loss.reason,
        "detail": loss.detail,
        "topic": loss.topic,
        "queue_id": loss.queue_id,
        "queue_offset": loss.queue_offset,
        "kept": loss.kept,
        "timestamp": loss.timestamp,
    }
    return json.dumps(facts).encode()
