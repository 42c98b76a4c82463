"""Java's ``String.hashCode``, for one string and for a column of UTF-8 text.

Source: ``java.lang.String#hashCode``; the tags code of a message is this hash of its whole ``TAGS``
value (`spec` commitlog §6).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from reput.gather import rows_by_width

if TYPE_CHECKING:
    import numpy.typing as npt

_HIGH_BITS = np.uint64(0x8080808080808080)

__all__ = ["java_string_hash", "java_string_hash_column"]


def java_string_hash(text: str) -> int:
    """Signed 32-bit hash of the UTF-16 code units of ``text``; 0 for the empty string."""
    units = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), ">u2")
    value = 0
    for unit in units.tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_KEPT_SIZE = 256  # bytes; a log of long texts must not fill the memory


def _hash_of_bytes(text: bytes) -> int:
    # Java replaces what is not UTF-8 by U+FFFD before it hashes.
    if len(text) <= _KEPT_SIZE:
        return _kept_hash(text)
    return java_string_hash(text.decode("utf-8", "replace"))


@lru_cache(maxsize=4096)
def _kept_hash(text: bytes) -> int:
    return java_string_hash(text.decode("utf-8", "replace"))


def java_string_hash_column(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    seeds: npt.NDArray[np.int32] | None = None,
) -> npt.NDArray[np.int32]:
    """Hash ``window[start : start + size]`` of every row.

    Args:
        window: ``(w,)``, with slack behind the last row as `reput.gather` asks for.
        starts: ``(n,)`` positions in the window.
        sizes: ``(n,)`` bytes; zero and negative sizes hash to the seed.
        seeds: ``(n,)`` hash of a text in front of each row, 0 when left out.

    Returns:
        ``(n,)`` int32. Rows that are not ASCII are decoded one by one (cached by value).
    """
    hashes = np.zeros(len(starts), np.uint32) if seeds is None else seeds.astype(np.uint32)
    for rows, matrix in rows_by_width(window, starts, sizes):
        row_sizes = sizes[rows]
        value = hashes[rows]
        columns = np.ascontiguousarray(matrix.T)
        # A byte beyond a row's own text may be anything, so only bytes within it count.
        shortest, longest = int(row_sizes.min()), int(row_sizes.max())
        for index in range(shortest):
            value = value * np.uint32(31) + columns[index]
        for index in range(shortest, longest):
            more = value * np.uint32(31) + columns[index]
            value = np.where(row_sizes > index, more, value)
        hashes[rows] = value
        if not (matrix.view(np.uint64) & _HIGH_BITS).any():
            continue  # all ASCII, and so is what stands behind the rows
        inside = np.arange(matrix.shape[1]) < row_sizes[:, None]
        for at in np.flatnonzero(((matrix >= 0x80) & inside).any(axis=1)).tolist():
            row = rows[at]
            text = window[starts[row] : starts[row] + sizes[row]].tobytes()
            hashes[row] = _seeded(text, 0 if seeds is None else int(seeds[row]))
    return hashes.view(np.int32)


def _seeded(text: bytes, seed: int) -> int:
    value = _hash_of_bytes(text) & 0xFFFFFFFF
    if seed:
        units = len(text.decode("utf-8", "replace").encode("utf-16-be", "surrogatepass")) // 2
        value = (seed * pow(31, units, 1 << 32) + value) & 0xFFFFFFFF
    return value
