"""Java's ``String.hashCode``, for one string and for a column of UTF-8 text.

Source: ``java.lang.String#hashCode``; the tags code of a message is this hash of its whole ``TAGS``
value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.engine import kernel
from reput.record.text.gather import rows_by_width
from reput.record.text.java import java_text

if TYPE_CHECKING:
    import numpy.typing as npt

_HIGH_BITS = np.uint64(0x8080808080808080)

__all__ = ["java_string_hash", "java_string_hash_column"]


def java_string_hash(text: str) -> int:
    """Return the signed 32-bit hash of the UTF-16 code units of ``text``; 0 for an empty text."""
    units = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), ">u2")
    value = 0
    for unit in units.tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_KEPT_SIZE = 256  # bytes of a text; longer ones are not cached, which could fill the memory


def _hash_of_bytes(text: bytes) -> int:
    # Java replaces what is not UTF-8 by U+FFFD before it hashes.
    if len(text) <= _KEPT_SIZE:
        return _kept_hash(text)
    return java_string_hash(java_text(text))


@lru_cache(maxsize=4096)
def _kept_hash(text: bytes) -> int:
    return java_string_hash(java_text(text))


@kernel
def java_string_hash_column(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    seeds: npt.NDArray[np.int32] | None = None,
) -> npt.NDArray[np.int32]:
    """Hash ``window[start : start + size]`` of every row.

    Args:
        window: ``(w,)`` uint8.
        starts: ``(n,)`` positions in the window.
        sizes: ``(n,)`` bytes; zero and negative sizes hash to the seed.
        seeds: ``(n,)`` hash of a text before each row's text, 0 when left out.

    Returns:
        ``(n,)`` int32. Rows that are not ASCII are decoded one by one (cached by value).
    """
    hashes = np.zeros(len(starts), np.uint32) if seeds is None else seeds.astype(np.uint32)
    for rows, matrix in rows_by_width(window, starts, sizes):
        row_sizes = sizes[rows]
        hashes[rows] = _hashes_of_bytes(matrix.view("<u8"), row_sizes, hashes[rows])
        if not (matrix.view(np.uint64) & _HIGH_BITS).any():
            continue  # all ASCII, the undefined bytes after the rows included
        inside = np.arange(matrix.shape[1]) < row_sizes[:, None]
        for at in np.flatnonzero(((matrix >= 0x80) & inside).any(axis=1)).tolist():
            row = rows[at]
            text = window[starts[row] : starts[row] + sizes[row]].tobytes()
            hashes[row] = _seeded(text, 0 if seeds is None else int(seeds[row]))
    return hashes.view(np.int32)


def _hashes_of_bytes(
    words: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64], value: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Continue the hashes ``value`` over the bytes of each row; return the ``(n,)`` new hashes.

    Eight bytes at a time, in three steps: pairs of bytes become numbers of two bytes, pairs of
    these numbers of four, and the last pair one number.

    Args:
        words: ``(n, k)``, the rows; bytes after a row's own are ignored.
        sizes: ``(n,)`` bytes of each row.
        value: ``(n,)`` hashes of the texts before the rows.
    """
    shortest, longest = int(sizes.min()), int(sizes.max())
    for column, done in enumerate(range(0, longest, 8)):
        word, left = words[:, column], None
        if shortest < done + 8:  # not whole in each row
            left = np.clip((sizes if shortest < longest else sizes[:1]) - done, 0, 8)
            word = word & _FIRST_BYTES[left]
        word = (word & _EVEN_BYTES) * _POWER_1 + (word >> _ONE_BYTE & _EVEN_BYTES)
        word = (word & _EVEN_PAIRS) * _POWER_2 + (word >> _TWO_BYTES & _EVEN_PAIRS)
        word = (word & _FIRST_FOUR) * _POWER_4 + (word >> _FOUR_BYTES)
        more = value * _POWER_8 + word.astype(np.uint32)
        # Zeros after a row's end have multiplied its hash; as 31 is odd, this can be undone.
        value = more if left is None else more * _UNDO[8 - left]
    return value


_EVEN_BYTES: Final = np.uint64(0x00FF00FF00FF00FF)
_EVEN_PAIRS: Final = np.uint64(0x0000FFFF0000FFFF)
_FIRST_FOUR: Final = np.uint64(0xFFFFFFFF)
_ONE_BYTE, _TWO_BYTES, _FOUR_BYTES = np.uint64(8), np.uint64(16), np.uint64(32)  # in bits
_POWER_1, _POWER_2, _POWER_4 = np.uint64(31), np.uint64(31**2), np.uint64(31**4)
_POWER_8: Final = np.uint32(pow(31, 8, 1 << 32))
_FIRST_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
_UNDO: Final = np.array([pow(31, -count, 1 << 32) for count in range(9)], np.uint32)


def _seeded(text: bytes, seed: int) -> int:
    value = _hash_of_bytes(text) & 0xFFFFFFFF
    if seed:
        units = len(java_text(text).encode("utf-16-be", "surrogatepass")) // 2
        value = (seed * pow(31, units, 1 << 32) + value) & 0xFFFFFFFF
    return value
