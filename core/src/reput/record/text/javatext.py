"""Text of records as Java has it: decoded from UTF-8, and hashed by ``String.hashCode``.

Bytes that are not UTF-8 become U+FFFD. Java and Python agree except for encoded surrogates (``ED``,
then ``A0`` to ``BF``, then perhaps a continuation): Java replaces the sequence once, Python each
byte. The number of U+FFFD decides the hash, and so the bytes of queues and indexes.

Source: ``java.lang.String#decodeUTF8_UTF16`` and its ``malformed3`` (JDK 17), ``String#hashCode``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.engine import kernel
from reput.record.text.textmatrix import rows_by_width

if TYPE_CHECKING:
    import numpy.typing as npt

# ED never continues a sequence, so a sequence before it ends there in any case.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """Return ``data`` as Java decodes UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


# --------------------------------------------------------------------------- hashes


def java_string_hash(text: str) -> int:
    """Return the signed 32-bit hash of the UTF-16 code units of ``text``; 0 for an empty text."""
    units = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), ">u2")
    value = 0
    for unit in units.tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=4096)
def _kept_hash(text: bytes) -> int:
    return java_string_hash(java_text(text))


_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_KEPT_SIZE = 256  # bytes of a text; longer ones are not cached, which could fill the memory


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

    Eight bytes at a time: pairs of bytes become numbers of two bytes, pairs of these of four, and
    the last pair one number.

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
    # Java replaces what is not UTF-8 by U+FFFD before it hashes.
    kept = len(text) <= _KEPT_SIZE
    value = (_kept_hash(text) if kept else java_string_hash(java_text(text))) & 0xFFFFFFFF
    if seed:
        units = len(java_text(text).encode("utf-16-be", "surrogatepass")) // 2
        value = (seed * pow(31, units, 1 << 32) + value) & 0xFFFFFFFF
    return value
