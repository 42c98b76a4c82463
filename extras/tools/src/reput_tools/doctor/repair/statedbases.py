"""Counts what the records in a file say of the place to which the file belongs.

A record states its own physical offset, so each valid record says at which one its file begins.
Bytes that a disk has written to a wrong place say something else than the file around them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from reput.record import RECORD_SIZE_MAX, message_at
from reput.record.layout import MAGIC_V1, MAGIC_V2, RECORD_MIN_SIZE, SIZE_AND_MAGIC

if TYPE_CHECKING:
    from reput.files import Disk

_SAMPLES: Final = 16
_SAMPLE_SIZE: Final = 64 << 10
_WINDOW: Final = 4 * RECORD_SIZE_MAX
_ENOUGH: Final = 2  # records of a sample that agree
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
_OWN_OFFSET: Final = 28


def sampled_bases(disk: Disk, path: str, size: int) -> Counter[int]:
    """Return bases that records in some places of a file state, with the bytes of these records.

    The places are spread over the file. A file whose records are larger than a sample is counted.
    """
    found: Counter[int] = Counter()
    if size <= _SAMPLES * _SAMPLE_SIZE:
        return counted_bases(disk, path, size)
    descriptor = disk.open(path)
    try:
        for number in range(_SAMPLES):
            at = (size - _SAMPLE_SIZE) * number // (_SAMPLES - 1)
            _scan(disk.read(descriptor, _SAMPLE_SIZE, at), at, found, enough=_ENOUGH)
    finally:
        disk.close(descriptor)
    return found or counted_bases(disk, path, size)


def counted_bases(disk: Disk, path: str, size: int) -> Counter[int]:
    """Return all bases that records in a file state, with the bytes of these records."""
    found: Counter[int] = Counter()
    descriptor = disk.open(path)
    try:
        at = 0
        while at < size:
            data = disk.read(descriptor, min(_WINDOW, size - at), at)
            if not data:
                break
            end = at + len(data)
            # A record that begins near the end of the window is read whole with the next one.
            limit = len(data) if end >= size else len(data) - RECORD_SIZE_MAX
            at += max(_scan(data, at, found, limit=limit), 1)
    finally:
        disk.close(descriptor)
    return found


def _scan(
    data: bytes, base: int, found: Counter[int], *, limit: int | None = None, enough: int = 0
) -> int:
    """Add what the valid records in ``data`` state.

    Args:
        data: bytes of a file.
        base: the file position of the first of them.
        found: is added to.
        limit: where to stop looking for the beginning of a record; at the end if left out.
        enough: stop after so many records that agree; 0 for never.

    Returns:
        Where to go on: at ``limit``, or after a record that reaches beyond it.
    """
    limit = len(data) if limit is None else limit
    counts: Counter[int] = Counter()
    at = 0
    while 0 <= (place := _next_magic(data, at)) - 4 < limit:
        start, at = place - 4, place + 1
        record_size, _ = SIZE_AND_MAGIC.unpack_from(data, start)
        if not RECORD_MIN_SIZE <= record_size <= len(data) - start:
            continue
        own = int.from_bytes(
            data[start + _OWN_OFFSET : start + _OWN_OFFSET + 8], "big", signed=True
        )
        message = message_at(data[start : start + record_size], own)
        if message is None or not message.body_matches():
            continue
        stated = own - base - start
        found[stated] += record_size
        counts[stated] += 1
        at = start + record_size + 4  # records in bodies say nothing
        if enough and counts[stated] >= enough:
            break
    return max(limit, at - 4)


def _next_magic(data: bytes, start: int) -> int:
    """Return where the next magic stands, from ``start`` on, after the bytes of a size; or -1."""
    places = [at for magic in _MAGICS if (at := data.find(magic, max(start, 4))) >= 0]
    return min(places, default=-1)
