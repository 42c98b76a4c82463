"""Finds records that lost a part of their topic or properties in a power cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.record.messages.torn import SECTOR_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record.batch import DispatchBatch

__all__ = ["torn_rows"]


def torn_rows(batch: DispatchBatch, file_offset: int) -> npt.NDArray[np.int64]:
    """Return the rows of ``batch`` whose topic or properties lack a sector, ascending.

    A topic that lacks a sector ends in a zero byte, as topics are shorter than a sector; no writer
    puts such a topic.

    Args:
        batch: records of one file.
        file_offset: physical offset at which that file begins.
    """
    if len(batch) == 0:
        return np.zeros(0, np.int64)
    window = batch.window
    first = (file_offset - batch.base_offset) % SECTOR_SIZE
    whole = max(len(window) - first, 0) // SECTOR_SIZE
    rest = first + whole * SECTOR_SIZE
    sectors = window[first:rest].view(np.uint64).reshape(whole, SECTOR_SIZE // 8)
    borders = first + SECTOR_SIZE * np.flatnonzero(~sectors.any(axis=1))
    if rest < len(window) and not window[rest:].any():
        borders = np.append(borders, rest)  # a sector that was read in part
    rows = np.searchsorted(batch.start, borders, side="right") - 1
    borders, rows = borders[rows >= 0], rows[rows >= 0]
    texts = batch.properties_text
    inside = texts.starts[rows] <= borders
    inside &= borders < texts.starts[rows] + texts.sizes[rows]
    torn_topics = [
        code for code in np.unique(batch.topic_code) if batch.topics[code].endswith("\0")
    ]
    torn = np.flatnonzero(np.isin(batch.topic_code, torn_topics))
    return np.union1d(torn, rows[inside])
