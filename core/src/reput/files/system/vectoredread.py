"""Reads many short pieces of one file; the compiled engine reads neighbours together."""

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

    Source = int | npt.NDArray[np.uint8] | Callable[[int, int], bytes]

PLACE = struct.Struct(">qi")
"""One place: where a piece stands, and how many bytes it has."""
PLACE_SIZE = PLACE.size
"""Bytes of one place."""


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


def extent_of(
    places: bytes | memoryview, stride: int, count: int, max_bytes: int
) -> tuple[int, int, int]:
    """Return where the first of ``count`` places begins and the last ends, and their number.

    Places that do not fit into ``max_bytes`` do not count.
    """
    first, first_size = PLACE.unpack_from(places)
    last, size = PLACE.unpack_from(places, (count - 1) * stride)
    if last + size - first > max_bytes:
        sizes = np.ndarray((count,), ">i4", places, PLACE_SIZE - 4, (stride,))
        fits = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), max_bytes, "right"))
        count = max(fits, 1)
        last, size = PLACE.unpack_from(places, (count - 1) * stride)
    return first, max(last + size, first + first_size), count


@kernel
def read_pieces(
    source: Source,
    base: int,
    limit: int,
    places: bytes | memoryview,
    stride: int,
    max_size: int,
    max_count: int,
    max_bytes: int,
    together: int = 0,
) -> tuple[list[bytes], int]:
    """Read pieces of one file.

    Args:
        source: descriptor of the file, its bytes, ``(w,)`` uint8, or what returns bytes of it by
            size and file position.
        base: where the file begins, in what places count by.
        limit: where reading ends, likewise.
        places: see `places_of`.
        stride: see `places_of`.
        max_size: most bytes of one piece.
        max_count: most pieces to read.
        max_bytes: most bytes to read; but one piece at least.
        together: most bytes of pieces that are returned as one, one behind the other.

    Returns:
        The bytes of the first pieces, up to the first that is empty, too large, or does not
        lie in ``[base, limit)`` or in the file; and how many pieces these are.

    Raises:
        OSError: the file cannot be read.
    """
    read: Callable[[int, int], bytes]
    if isinstance(source, int):
        read = partial(os.pread, source)
    elif callable(source):
        read = source
    else:
        data = source
        read = lambda size, position: data[position : position + size].tobytes()  # noqa: E731
    found: list[bytes] = []
    total = 0
    for where, size in islice(places_of(places, stride), max(max_count, 0)):
        total += size
        if not 0 < size <= max_size or where < base or where + size > limit:
            break
        if total > max_bytes and total > size:
            break
        piece = read(size, where - base)
        if len(piece) < size:
            break
        found.append(piece)
    return (_chunks(found, together) if together else found), len(found)


def _chunks(pieces: list[bytes], together: int) -> list[bytes]:
    found: list[bytes] = []
    chunk: list[bytes] = []
    total = 0
    for piece in pieces:
        total += len(piece)
        if chunk and total > together:
            found.append(b"".join(chunk))
            chunk, total = [], len(piece)
        chunk.append(piece)
    if chunk:
        found.append(b"".join(chunk))
    return found
