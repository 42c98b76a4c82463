"""Texts of a window as Arrow arrays.

The rows' texts stand one behind another in the window, with other bytes between them. One Arrow
array over the window, whose offsets are the borders of texts and gaps alike, is made without
looking at a byte; taking every second item of it is the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record import java_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import TextColumn

__all__ = ["as_text", "binaries", "pieces"]


def pieces(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> pa.BinaryArray:
    """``data[starts[i]:ends[i]]`` for each i; starts and ends ascend, and do not overlap."""
    borders = np.empty(2 * len(starts) + 1, np.int32)
    borders[0:-1:2] = starts
    borders[1::2] = ends
    borders[-1] = borders[-2] if len(starts) else 0
    every = pa.Array.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    return every.take(pa.array(np.arange(0, 2 * len(starts), 2)))


def binaries(column: TextColumn, records: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """The bytes of each row, null where there are none.

    Args:
        column: places in a window.
        records: ``(n,)`` where the rows' records begin, ascending: a place for what is missing.
    """
    present = column.present
    if present.all():
        return pieces(column.window, column.starts, column.starts + column.sizes)
    starts = np.where(present, column.starts, records)
    found = pieces(column.window, starts, starts + np.where(present, column.sizes, 0))
    return pc.if_else(pa.array(present), found, pa.scalar(None, pa.binary()))


def as_text(found: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text; what is not UTF-8 comes out as U+FFFD, as everywhere in reput."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        # Some row is not UTF-8. Nothing but a foreign log has such rows.
        texts = [None if each is None else java_text(each) for each in found.to_pylist()]
        return pa.array(texts, pa.string())
