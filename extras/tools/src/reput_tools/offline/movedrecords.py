"""`moved_records`: records of one log as they are at other places, in another one.

A record states its own physical offset. That of a committed transaction states that of its half
message, too, and some have a checksum of all of their bytes. Nothing else in a record is a physical
offset: markers of ended transactions and waiting messages state queue offsets, which stay.

Source: RocketMQ ``CommitLog#doAppend``; ``EndTransactionProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import crc32
from reput.record.layout import (
    BORN_HOST_V6,
    CRC_PROPERTY_NAME,
    CRC_PROPERTY_SIZE,
    HEADER_DTYPE,
    HOST_EXTRA_V6,
    STORE_HOST_V6,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

    Offsets = npt.NDArray[np.int64]

_OWN_OFFSET: Final = HEADER_DTYPE.fields["physical_offset"][1]  # type: ignore[index]
_HALF_OFFSET: Final = HEADER_DTYPE.fields["prepared_transaction_offset"][1]  # type: ignore[index]
_NAME: Final = np.frombuffer(CRC_PROPERTY_NAME, np.uint8)
_WORD: Final = np.arange(8)


def moved_records(
    batch: DispatchBatch, moved: Offsets, half_of: Callable[[Offsets], Offsets]
) -> npt.NDArray[np.uint8]:
    """Return the records of a batch, one behind the other, as they are at new places.

    Args:
        batch: the records; one at least.
        moved: ``(n,)``, their new physical offsets.
        half_of: returns the new physical offsets of half messages, by their old ones.
    """
    position = np.cumsum(batch.size) - batch.size
    data = _gathered(batch, position)
    changed = moved != batch.physical_offset
    data[(position + _OWN_OFFSET)[:, None] + _WORD] = _big_endian(moved)
    changed |= _state_halves(batch, data, position, half_of)
    _sign(batch, data, position, changed)
    return data


def _state_halves(
    batch: DispatchBatch,
    data: npt.NDArray[np.uint8],
    position: Offsets,
    half_of: Callable[[Offsets], Offsets],
) -> npt.NDArray[np.bool_]:
    """Replace the stated offsets of half messages; return which rows were changed."""
    stated = batch.column("prepared_transaction_offset")
    changed = np.zeros(len(batch), np.bool_)
    rows = np.flatnonzero(stated > 0)
    if not len(rows):
        return changed
    value = half_of(stated[rows])
    flags = batch.sys_flag[rows]
    at = position[rows] + _HALF_OFFSET
    at += HOST_EXTRA_V6 * ((flags & BORN_HOST_V6 != 0).astype(np.int64))
    at += HOST_EXTRA_V6 * ((flags & STORE_HOST_V6 != 0).astype(np.int64))
    data[at[:, None] + _WORD] = _big_endian(value)
    changed[rows] = value != stated[rows]
    return changed


def _gathered(batch: DispatchBatch, position: Offsets) -> npt.NDArray[np.uint8]:
    """Return a copy of the records of a batch, one behind the other."""
    first, total = batch.start, int(batch.size.sum())
    if int(first[-1] + batch.size[-1] - first[0]) == total:
        return batch.window[int(first[0]) : int(first[0]) + total].copy()
    return batch.window[np.arange(total) + np.repeat(first - position, batch.size)]


def _big_endian(values: Offsets) -> npt.NDArray[np.uint8]:
    return values.astype(">i8").view(np.uint8).reshape(-1, 8)


def _sign(
    batch: DispatchBatch,
    data: npt.NDArray[np.uint8],
    position: Offsets,
    changed: npt.NDArray[np.bool_],
) -> None:
    """Compute the checksums of changed records that have one of all of their bytes."""
    rows = np.flatnonzero(changed & (batch.properties_text.sizes >= CRC_PROPERTY_SIZE))
    end = position[rows] + batch.size[rows]
    tails = data[(end - CRC_PROPERTY_SIZE)[:, None] + np.arange(len(_NAME))]
    for row in rows[(tails == _NAME).all(axis=1)].tolist():
        first = int(position[row])
        stop = first + int(batch.size[row]) - CRC_PROPERTY_SIZE
        value = crc32(data[first:stop].tobytes()) & 0x7FFFFFFF
        digits = f"{value:010d}"[::-1].encode()
        at = stop + len(CRC_PROPERTY_NAME)
        data[at : at + len(digits)] = np.frombuffer(digits, np.uint8)
