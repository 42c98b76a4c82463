"""How many messages each record of a log counts as: an inner batch as several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.record.layout import INNER_BATCH, PROPERTY_INNER_NUM

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

__all__ = ["inner_counts"]


def inner_counts(batch: DispatchBatch) -> npt.NDArray[np.int64]:
    """Return how many queue offsets each record takes, ``(n,)``; 1 if its number is illegible."""
    counts = np.ones(len(batch), np.int64)
    if (batch.sys_flag & INNER_BATCH).any():
        stated = batch.text(PROPERTY_INNER_NUM)
        for row in np.flatnonzero(stated.present & (batch.sys_flag & INNER_BATCH != 0)).tolist():
            text = stated[row] or ""
            if text.isascii() and text.isdigit() and len(text) < 10:  # Java's int
                counts[row] = max(int(text), 1)
    return counts
