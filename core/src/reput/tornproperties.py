"""Records of which a power cut left all but a part of their properties.

No checksum covers properties, unless a store writes `record_crc`. A disk writes whole sectors, and
what was never written reads as zeros: a sector that begins inside of a property text and holds
nothing but zeros was lost. Writers of ours put no text that looks so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch

__all__ = ["SECTOR_SIZE", "looks_torn", "torn_rows"]

SECTOR_SIZE: Final = 512
"""Bytes; no disk writes fewer."""
_UNWRITTEN: Final = bytes(SECTOR_SIZE)


def looks_torn(text: bytes) -> str | None:
    """Why a property text could be taken for one that was not written as a whole, or None."""
    if text.endswith(b"\0"):
        return "the text ends in a zero byte"
    if len(text) >= SECTOR_SIZE and _UNWRITTEN in text:
        return f"the text holds {SECTOR_SIZE} zero bytes in a row"
    return None


def torn_rows(batch: DispatchBatch, file_offset: int) -> npt.NDArray[np.int64]:
    """Rows of ``batch`` whose properties lack a sector, ascending.

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
        borders = np.append(borders, rest)  # as far as it was read
    rows = np.searchsorted(batch.start, borders, side="right") - 1
    borders, rows = borders[rows >= 0], rows[rows >= 0]
    texts = batch.properties_text
    inside = texts.starts[rows] <= borders
    inside &= borders < texts.starts[rows] + texts.sizes[rows]
    return np.unique(rows[inside])
