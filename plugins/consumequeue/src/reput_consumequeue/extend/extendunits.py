"""Read extend units of many messages at once; no length in a file is trusted.

Source: RocketMQ ``ConsumeQueueExt#get``: with an address that leads to no extend unit, the tags
code is unknown, and the filter passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.plugin import BitMaps
from reput.record import fixed_rows
from reput_consumequeue.extend.layout import (
    EXTEND_DTYPE,
    EXTEND_HEAD_SIZE,
    EXTEND_SIZE_MAX,
    is_address,
    positions_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows = npt.NDArray[np.int64]

_NEAR = 1 << 14  # bytes between two units that are read rather than skipped
_STRETCH = 1 << 20  # bytes of one read
_WASTE = 4  # bytes kept per byte of units, at most


@attrs.frozen(eq=False)
class ExtendUnits:
    """The extend data of ``n`` messages, in the order of the request."""

    tags_codes: npt.NDArray[np.int64]
    """``(n,)``; 0 where unknown."""
    store_timestamps: npt.NDArray[np.int64]
    """``(n,)`` ms; -1 where the queue's unit has no extend unit."""
    bit_maps: BitMaps
    is_known: npt.NDArray[np.bool_]
    """``(n,)``: False where a unit leads to a missing extend unit."""


def plain_units(tags_codes: Rows) -> ExtendUnits:
    """Return what ``(n,)`` tags codes of the queue's units say without extend files."""
    count = len(tags_codes)
    none = np.zeros(count, np.int64)
    return ExtendUnits(
        tags_codes.copy(),
        np.full(count, -1, np.int64),
        BitMaps(np.zeros(0, np.uint8), none, none.copy()),
        np.ones(count, np.bool_),
    )


def read_units(
    tags_codes: Rows, file_size: int, read: Callable[[int, int, int], bytes]
) -> ExtendUnits:
    """Return what ``(n,)`` tags codes stand for; codes that are not addresses stay as they are.

    Args:
        tags_codes: of the queue's units.
        file_size: bytes of an extend file.
        read: returns bytes of the file that begins at the first argument: from a position, so many
            or fewer; none if there is no such file.
    """
    found = plain_units(tags_codes)
    rows = np.flatnonzero(is_address(tags_codes))
    if len(rows) == 0:
        return found
    positions = positions_of(tags_codes[rows])
    found.is_known[rows] = False
    found.tags_codes[rows] = 0
    windows: list[bytes] = []
    done = 0  # bytes of windows
    for first, stop in _stretches(positions, file_size):
        start = int(positions[first])
        base = start - start % file_size
        wanted = min(int(positions[stop - 1]) + EXTEND_SIZE_MAX, base + file_size) - start
        data = read(base, start - base, wanted)
        if len(data) >= EXTEND_HEAD_SIZE:
            kept = _note(data, positions[first:stop] - start, rows[first:stop], done, found)
            windows.append(kept)
            done += len(kept)
    found.bit_maps.window = np.frombuffer(b"".join(windows), np.uint8)
    return found


def _stretches(positions: Rows, file_size: int) -> Iterator[tuple[int, int]]:
    """Yield runs of positions that are worth one read each."""
    steps = np.diff(positions)
    is_break = (steps < 0) | (steps > _NEAR) | (np.diff(positions // file_size) != 0)
    is_break |= np.diff(positions // _STRETCH) != 0
    return pairwise([0, *(np.flatnonzero(is_break) + 1).tolist(), len(positions)])


def _note(data: bytes, places: Rows, rows: Rows, window_start: int, found: ExtendUnits) -> bytes:
    """Take the complete units that begin at ``places`` of ``data``.

    Returns:
        The bytes in which their bit maps lie, which will stand at ``window_start``.
    """
    window = np.frombuffer(data, np.uint8)
    whole = np.flatnonzero(places + EXTEND_HEAD_SIZE <= len(data))
    places, rows = places[whole], rows[whole]
    heads = fixed_rows(window, places, EXTEND_DTYPE)
    sizes = heads["size"].astype(np.int64)
    good = (sizes >= EXTEND_HEAD_SIZE) & (places + sizes <= len(data))
    rows, places, heads, sizes = rows[good], places[good], heads[good], sizes[good]
    found.is_known[rows] = True
    found.tags_codes[rows] = heads["tags_code"]
    found.store_timestamps[rows] = heads["store_timestamp"]
    stated = heads["bit_map_size"].astype(np.int64)
    map_sizes = np.clip(stated, 0, sizes - EXTEND_HEAD_SIZE)
    starts = places + EXTEND_HEAD_SIZE
    found.bit_maps.sizes[rows] = map_sizes
    if len(data) <= _WASTE * int(sizes.sum()):
        found.bit_maps.starts[rows] = window_start + starts
        return data
    # Addresses far apart, a few of many units or a hostile queue: keep the bit maps only, or the
    # bytes of a whole queue would stay in memory.
    found.bit_maps.starts[rows] = window_start + np.cumsum(map_sizes) - map_sizes
    pairs = zip(starts.tolist(), map_sizes.tolist(), strict=True)
    return b"".join(data[start : start + size] for start, size in pairs)
