"""Make items of keys, many at once: slots, chains, seconds. Works on arrays only.

Source: RocketMQ ``IndexFile#putKey``, which works key by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.engine import kernel
from reput_index.files.header import Header
from reput_index.layout import ITEM_DTYPE

if TYPE_CHECKING:
    import numpy.typing as npt

_INT32_MAX: Final = (1 << 31) - 1


def slots_of(hashes: npt.NDArray[np.int32], slot_count: int) -> npt.NDArray[np.intp]:
    """Return the ``(n,)`` slot of each hash; hashes are not negative."""
    # A third of the time of ``%``: numpy divides by a constant by multiplying.
    return (hashes - hashes // np.int32(slot_count) * np.int32(slot_count)).astype(np.intp)


def chain(
    slots: npt.NDArray[np.int32], slot: npt.NDArray[np.intp], numbers: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Enter items ``numbers`` in their slots.

    No sort is needed: of items that share a slot one number remains in it, so the others read back
    a number that is not theirs. Only these few are processed again.

    Returns:
        The previous contents of the slots, and the item before each item in its slot.
    """
    before = slots.take(slot)
    slots[slot] = numbers
    newest = slots.take(slot)
    others = np.flatnonzero(newest != numbers)
    if len(others) == 0:
        return before, before
    previous = before.copy()
    rows = np.union1d(others, newest[others] - numbers[0])
    rows = rows[np.argsort(slot[rows], kind="stable")]
    is_shared = slot[rows[1:]] == slot[rows[:-1]]
    shares = np.flatnonzero(is_shared)
    previous[rows[shares + 1]] = numbers[rows[shares]]
    # numpy does not promise which of several numbers remains in a slot.
    last = rows[np.append(~is_shared, True)]
    slots[slot[last]] = numbers[last]
    return before, previous


@kernel
def make_items(
    slots: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.int32],
    physical_offsets: npt.NDArray[np.int64],
    timestamps: npt.NDArray[np.int64],
    first: int,
    begin_timestamp: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.intp], int]:
    """Make the items of ``(n,)`` keys and enter them in their slots.

    Args:
        slots: all slots of the file; those of the keys change.
        hashes: of the keys, as items state them.
        physical_offsets: of each key's message.
        timestamps: store time of each key's message, ms.
        first: number of the first item.
        begin_timestamp: of the file's header, before these items.

    Returns:
        Bytes of the items, ``(20 n,)`` uint8; the slot of each, ``(n,)``; and how many slots were
        empty before.
    """
    slot = slots_of(hashes, len(slots))
    numbers = np.arange(first, first + len(hashes), dtype=np.int32)
    _, previous = chain(slots, slot, numbers)
    items = np.empty(len(hashes), ITEM_DTYPE)
    items["key_hash"] = hashes
    items["physical_offset"] = physical_offsets
    items["seconds"] = seconds_of(
        timestamps, Header(begin_timestamp=begin_timestamp, next_item=first)
    )
    items["previous"] = previous
    return items.view(np.uint8), slot, len(hashes) - int(np.count_nonzero(previous))


def unchain(
    slots: npt.NDArray[np.int32], slot: npt.NDArray[np.intp], previous: npt.NDArray[np.int32]
) -> None:
    """Take items out of their slots, which get back what was there before the oldest of them."""
    _, oldest = np.unique(slot, return_index=True)
    slots[slot[oldest]] = previous[oldest]


def seconds_of(timestamps: npt.NDArray[np.int64], header: Header) -> npt.NDArray[np.int64]:
    """Return whole seconds from the file's begin to each message, from 0 to the largest int."""
    begin = header.begin_timestamp
    if header.next_item > 1:
        return _since(begin, timestamps)
    # The first item counts from the end of the previous file, if there is one; the others count
    # from the first.
    seconds = _since(int(timestamps[0]), timestamps)
    seconds[:1] = _since(begin, timestamps[:1])
    return seconds


def _since(begin: int, timestamps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if begin <= 0:
        return np.zeros(len(timestamps), np.int64)
    # Wraps around like the difference in Java.
    passed = timestamps - np.int64(begin)
    first, last = (
        min(max(int(each) // 1_000, 0), _INT32_MAX) for each in (passed.min(), passed.max())
    )
    if first == last:  # usual, as batches are small
        return np.full(len(timestamps), first)
    seconds: npt.NDArray[np.int64] = np.clip(passed // 1_000, 0, _INT32_MAX)
    return seconds


def seconds_between(begin: int, timestamp: int) -> int:
    """Return the seconds that an item states, for a file and a message of these times, ms."""
    return int(_since(begin, np.array([timestamp], np.int64))[0])
