"""Reads many short pieces of one file in one call: neighbours together, the others one by one."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from reput.engine import kernel

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PLACE", "PLACE_SIZE", "pieces_by", "places_of", "read_pieces"]

PLACE = struct.Struct(">qi")
"""One place: where a piece stands, and how many bytes it has."""
PLACE_SIZE = PLACE.size
"""Bytes of one place."""

_STRETCH_SIZE = 1 << 20  # bytes of neighbours in one read, at most
_GAP_SIZE = 1 << 14  # bytes between two pieces that are read rather than skipped


@lru_cache(maxsize=32)
def _layout(stride: int) -> struct.Struct:
    return struct.Struct(f">qi{stride - PLACE_SIZE}x")


def places_of(places: bytes | memoryview, stride: int) -> list[tuple[int, int]]:
    """Return where each piece stands, and its size.

    Args:
        places: ``n * stride`` bytes; each stride begins with a place, integers big-endian.
        stride: bytes from one place to the next, `PLACE_SIZE` or more.
    """
    whole = len(places) - len(places) % stride
    return list(_layout(stride).iter_unpack(places if whole == len(places) else places[:whole]))


@kernel
def read_pieces(
    source: int | npt.NDArray[np.uint8],
    base: int,
    limit: int,
    places: bytes | memoryview,
    stride: int,
    max_size: int,
    max_count: int,
    max_bytes: int,
) -> list[bytes]:
    """Read pieces of one file.

    Args:
        source: descriptor of the file, or its bytes, ``(w,)`` uint8.
        base: where the file begins, in what places count by.
        limit: where reading ends, likewise.
        places: see `places_of`.
        stride: see `places_of`.
        max_size: most bytes of one piece.
        max_count: most pieces to read.
        max_bytes: most bytes to read; but one piece at least.

    Returns:
        The bytes of the first pieces, up to the first that is empty, too large, or does not
        lie in ``[base, limit)``. A piece is shorter than stated if the file ends inside it.

    Raises:
        OSError: the file cannot be read.
    """
    return pieces_by(
        _reader_of(source), base, limit, places, stride, max_size, max_count, max_bytes
    )


def _reader_of(source: int | npt.NDArray[np.uint8]) -> Callable[[int, int], bytes]:
    if isinstance(source, np.ndarray):
        return lambda size, position: source[position : position + size].tobytes()
    return partial(os.pread, source)


def pieces_by(
    read: Callable[[int, int], bytes],
    base: int,
    limit: int,
    places: bytes | memoryview,
    stride: int,
    max_size: int,
    max_count: int,
    max_bytes: int,
) -> list[bytes]:
    """Do the same as `read_pieces`, by ``read(size, position)`` of the file."""
    found: list[bytes] = []
    stretch: list[tuple[int, int]] = []
    start = end = total = 0
    for place in islice(places_of(places, stride), max(max_count, 0)):
        where, size = place
        total += size
        stop = where + size
        if not 0 < size <= max_size or where < base or stop > limit:
            break
        if total > max_bytes and total > size:
            break
        if not stretch:
            start = where
        elif not end <= where <= end + _GAP_SIZE or stop - start > _STRETCH_SIZE:
            _take(found, read(end - start, start - base), start, stretch)
            start, stretch = where, []
        stretch.append(place)
        end = stop
    if stretch:
        _take(found, read(end - start, start - base), start, stretch)
    return found


def _take(found: list[bytes], data: bytes, start: int, stretch: list[tuple[int, int]]) -> None:
    found += [data[where - start : where - start + size] for where, size in stretch]
