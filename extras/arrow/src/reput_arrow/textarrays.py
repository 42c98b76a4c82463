"""Copy texts out of a window as Arrow arrays.

In the window other bytes stand between the texts. One Arrow array over the window, whose offsets
are the borders of texts and gaps in turn, is made without looking at a byte; taking every second
item of this array is the copy.
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


def pieces(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> pa.BinaryArray:
    """Copy ``data[starts[i]:ends[i]]`` for each i; starts and ends ascend and do not overlap."""
    borders = np.empty(2 * len(starts) + 1, np.int32)
    borders[0:-1:2] = starts
    borders[1::2] = ends
    borders[-1] = borders[-2] if len(starts) else 0
    every = pa.Array.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    return every.take(pa.array(np.arange(0, 2 * len(starts), 2)))


def binaries(column: TextColumn, records: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """Copy the bytes of each row, null where a row has none.

    Args:
        column: places in a window.
        records: ``(n,)`` starts of the rows' records, ascending: the place of a missing text.
    """
    present = column.present
    if present.all():
        return pieces(column.window, column.starts, column.starts + column.sizes)
    starts = np.where(present, column.starts, records)
    found = pieces(column.window, starts, starts + np.where(present, column.sizes, 0))
    return pc.if_else(pa.array(present), found, pa.scalar(None, pa.binary()))


def as_text(found: pa.BinaryArray) -> pa.StringArray:
    """Decode bytes as text; invalid UTF-8 becomes U+FFFD, as everywhere in reput."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        # Some row is not UTF-8, which only logs of other writers have.
        texts = [None if each is None else java_text(each) for each in found.to_pylist()]
        return pa.array(texts, pa.string())
