"""Align the rows of a store's file with those of a rebuilt one, so that few of them differ.

Where the rebuilt file lacks a row, each later row stands at another place. Compared place by place,
all of these differ; aligned, it is the one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Read = Callable[[int, int], npt.NDArray[np.int64]]

_CHUNK: Final = 1 << 16  # rows compared at a time
_CHUNK_MIN: Final = 1 << 10  # after a difference, as the next may be near
_WINDOWS: Final = (32, 256, 2_048)  # rows in which a place is looked for where both are equal again
_EQUAL_MIN: Final = 3  # equal rows that show that both are aligned again
_PAD: Final = np.iinfo(np.int64).min  # what stands after the end of both


class Unaligned(NamedTuple):
    """A run of rows that the other side does not have; one of the two ranges may be empty."""

    own: range
    """Rows of the store's file."""
    built: range
    """Rows of the rebuilt file."""


def align(
    own: Read, own_count: int, built: Read, built_count: int, limit: int
) -> list[Unaligned] | None:
    """Return where two sequences of rows differ.

    Args:
        own: returns ``(count, n)`` int64 values of ``count`` rows from a row on.
        own_count: rows that it has.
        built: likewise, of the rebuilt file.
        built_count: rows that it has.
        limit: runs that are wanted.

    Returns:
        Runs in ascending order. None if there are more of them than wanted, or if a run is longer
        than 2,048 rows.
    """
    found: list[Unaligned] = []
    left = right = 0
    chunk = _CHUNK
    while left < own_count or right < built_count:
        size = min(chunk, own_count - left, built_count - right)
        equal = 0
        if size:
            differs = (own(left, size) != built(right, size)).any(axis=1)
            equal = int(differs.argmax()) if differs.any() else size
        left, right = left + equal, right + equal
        if equal == size and size:
            chunk = min(2 * chunk, _CHUNK)
            continue
        steps = None
        for window in _WINDOWS:
            steps = _resume(
                _padded(own, left, own_count, window), _padded(built, right, built_count, window)
            )
            if steps is not None:
                break
        if steps is None or len(found) == limit:
            return None
        stops = left + steps[0], right + steps[1]
        found.append(Unaligned(range(left, stops[0]), range(right, stops[1])))
        left, right = stops
        chunk = _CHUNK_MIN
    return found


def _padded(read: Read, first: int, count: int, window: int) -> npt.NDArray[np.int64]:
    """Return the rows of a window and `_EQUAL_MIN` more; after the end, rows of `_PAD`."""
    size = window + _EQUAL_MIN
    rows = read(first, min(size, count - first))
    return np.pad(rows, ((0, size - len(rows)), (0, 0)), constant_values=_PAD)


def _resume(own: npt.NDArray[np.int64], built: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """Return how many rows of each side to leave out, as few as possible; None if none helps."""
    same = np.ones((len(own), len(built)), np.bool_)
    for column in range(own.shape[1]):
        same &= own[:, column, None] == built[None, :, column]
    size = len(own) - _EQUAL_MIN
    runs = same[:size, :size].copy()
    for step in range(1, _EQUAL_MIN):
        runs &= same[step : step + size, step : step + size]
    rows, columns = np.nonzero(runs)
    if not len(rows):
        return None
    best = int((rows + columns).argmin())
    return int(rows[best]), int(columns[best])
