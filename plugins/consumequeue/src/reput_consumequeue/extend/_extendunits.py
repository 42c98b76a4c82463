"""Extend units of many messages, read at once; no length of a file is trusted.

Source: RocketMQ ``ConsumeQueueExt#get``: an address that leads to no unit leaves the tags code
unknown, and the filter passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.plugin import BitMaps
from reput.record import fixed_rows
from reput_consumequeue.extend.extendlayout import (
    EXTEND_DTYPE,
    EXTEND_HEAD_SIZE,
    EXTEND_SIZE_MAX,
    is_address,
    positions_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows = npt.NDArray[np.int64]

__all__ = ["ExtendUnits", "plain_units", "read_units"]

_NEAR = 1 << 14  # bytes between two units that are sooner read than left out
_STRETCH = 1 << 20  # bytes read at a time
_WASTE = 4  # so many times the bytes of the units may be kept with them


@attrs.frozen(eq=False)
class ExtendUnits:
    """What was read of ``n`` messages, in the order in which it was asked for."""

    tags_codes: npt.NDArray[np.int64]
    """``(n,)``; 0 where it is not known."""
    store_timestamps: npt.NDArray[np.int64]
    """``(n,)`` ms; -1 where the queue's unit has no extend unit."""
    bit_maps: BitMaps
    is_known: npt.NDArray[np.bool_]
    """``(n,)``: False where a unit leads to an extend unit that is not there."""


def plain_units(tags_codes: Rows) -> ExtendUnits:
    """What is known of messages from ``(n,)`` tags codes of the queue's units alone."""
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
    """What stands behind ``(n,)`` tags codes of the queue's units; plain ones stay as they are.

    Args:
        tags_codes: of the queue's units.
        file_size: bytes of an extend file.
        read: bytes of the file that begins at the first argument, from a position on, so many or
            fewer; none where there is no such file.
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
    """Runs of positions that are worth one read each."""
    steps = np.diff(positions)
    is_break = (steps < 0) | (steps > _NEAR) | (np.diff(positions // file_size) != 0)
    is_break |= np.diff(positions // _STRETCH) != 0
    return pairwise([0, *(np.flatnonzero(is_break) + 1).tolist(), len(positions)])


def _note(data: bytes, places: Rows, rows: Rows, window_start: int, found: ExtendUnits) -> bytes:
    """Take the units that begin at ``places`` of some bytes, and are whole.

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
    # Addresses far apart, as a few of many units have, or as a hostile queue does: only the bit
    # maps are kept, or a queue's worth of bytes would be.
    found.bit_maps.starts[rows] = window_start + np.cumsum(map_sizes) - map_sizes
    pairs = zip(starts.tolist(), map_sizes.tolist(), strict=True)
    return b"".join(data[start : start + size] for start, size in pairs)
