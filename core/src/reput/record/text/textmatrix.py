"""Copies many short texts of a window into the rows of a matrix, without a loop over rows.

The window is viewed as overlapping items of a fixed width, one at every byte; indexing this view
copies one row per index at the speed of ``memcpy``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_SPREAD = 4  # one width for all rows may cost this many times the bytes that the rows hold
_WIDTH_STEP = 8


def fixed_rows(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return ``(n,)`` items of ``dtype``, copied from the bytes at ``starts``.

    Raises:
        IndexError: a ``start + dtype.itemsize`` is outside the window.
    """
    return _overlapping(window, dtype.itemsize)[starts].view(dtype)


def words_at(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return ``(n,)`` numbers of 2, 4 or 8 bytes, like `fixed_rows`, at any alignment."""
    count = max(len(window) - dtype.itemsize + 1, 0)
    view: npt.NDArray[Any] = np.ndarray((count,), dtype, window.data, strides=(1,))
    return view[starts]


def rows_by_width(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    slack: int = 0,
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
    """Yield ``(rows, matrix)`` for classes of rows of similar size.

    ``matrix`` is a new ``(len(rows), width)`` uint8 array; row ``k`` begins with the bytes of row
    ``rows[k]``; the bytes after these, at least ``slack``, are undefined. Rows of no bytes are in
    no class. Rows are ascending within a class.
    """
    if len(starts) == 0:
        return
    largest = int(sizes.max())
    if largest <= 0:
        return
    if largest <= 32 or largest * len(sizes) <= _SPREAD * int(np.maximum(sizes, 0).sum()):
        rows = np.arange(len(sizes)) if int(sizes.min()) > 0 else np.flatnonzero(sizes > 0)
        yield rows, _matrix(window, starts[rows], largest + slack)
        return
    below, width = 0, 32
    while below < largest:
        rows = np.flatnonzero((sizes > below) & (sizes <= width))
        if len(rows):
            yield rows, _matrix(window, starts[rows], int(sizes[rows].max()) + slack)
        below, width = width, width * 4


def _matrix(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.uint8]:
    width += -width % _WIDTH_STEP
    if int(starts.max()) + width <= len(window):
        return _overlapping(window, width)[starts].view(np.uint8).reshape(len(starts), width)
    # Rows too near the end of the window are read from a padded copy of its tail.
    cut = max(len(window) - width + 1, 0)
    matrix = np.empty((len(starts), width), np.uint8)
    near = starts >= cut
    if not near.all():
        matrix[~near] = _matrix(window, starts[~near], width)
    tail_start = int(starts[near].min())
    tail = np.concatenate([window[tail_start:], np.zeros(width, np.uint8)])
    matrix[near] = (
        _overlapping(tail, width)[starts[near] - tail_start].view(np.uint8).reshape(-1, width)
    )
    return matrix


def _overlapping(window: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.void]:
    count = max(len(window) - width + 1, 0)
    return np.ndarray((count,), np.dtype((np.void, width)), window.data, strides=(1,))
