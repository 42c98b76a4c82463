"""Extend files: units of varying size, integers big-endian, unused space zero.

    0      2       10       18       20         size
    +------+-------+--------+--------+----------+
    | size | tags  | stored | bytes  | bit map  |
    +------+-------+--------+--------+----------+

A unit of the queue states the position of its extend unit in place of its own tags code: the byte
at which the extend unit begins, counted over all files, with the sign bit set. A file that has no
room for the next unit ends in a size of -1; four bytes after the units stay free for it.

Source: RocketMQ ``ConsumeQueueExt``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

EXTEND_DTYPE: Final = np.dtype(
    [
        ("size", ">i2"),  # bytes, the bit map included; -1 after the last unit of a file
        ("tags_code", ">i8"),  # hash of the tags; deliver timestamp for some
        ("store_timestamp", ">i8"),  # ms, of the message
        ("bit_map_size", ">i2"),  # bytes; 0 without a bit map
    ]
)
EXTEND_HEAD_SIZE: Final = EXTEND_DTYPE.itemsize
EXTEND_SIZE_MAX: Final = (1 << 15) - 1
"""Largest size of an extend unit, bytes."""
EXTEND_FILE_SIZE: Final = 48 << 20
FILE_END: Final = (-1).to_bytes(2, "big", signed=True)
FILE_END_ROOM: Final = 4
"""Bytes that stay free in a file, for `FILE_END`."""

EXTEND_DIRECTORY: Final = "consumequeue_ext"

_ADDRESS_MAX: Final = -(1 << 31) - 1  # below every hash of 32 bits
_SIGN: Final = -(1 << 63)


def is_address(tags_codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return ``(n,)``: which tags codes are positions of extend units."""
    return tags_codes <= _ADDRESS_MAX


def addresses_of(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the tags codes that lead to ``positions``."""
    return positions | _SIGN


def positions_of(addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the positions, in bytes over all files, at which the extend units begin."""
    return addresses & ~_SIGN
