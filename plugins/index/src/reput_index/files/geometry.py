"""Find out how many slots and items a file was made for, which the file does not state.

Its header states the physical offset of its last item, and the number of that item: where these
eight bytes are found among the items, the slots must end a known distance before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput_index.files.hashchain import chain, slots_of
from reput_index.files.header import Geometry, Header
from reput_index.layout import HEADER_SIZE, ITEM_DTYPE, ITEM_SIZE, SLOT_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from reput.files import Disk

_CHUNK: Final = 1 << 22  # bytes searched at a time
_TRIES: Final = 1_000
_ITEMS_LOOKED_AT: Final = 1_000


def guess_geometry(disk: Disk, path: str) -> Geometry | None:
    """Return the geometry that fits everything in a file; None if none fits, or without items."""
    descriptor = disk.open(path)
    try:
        size = disk.size(descriptor)
        header = Header.decode(disk.read(descriptor, HEADER_SIZE, 0))
        if header.next_item <= 1:
            return None
        last = header.next_item - 1
        for tries, position in enumerate(_places_of(disk, descriptor, header, size)):
            if tries >= _TRIES:
                return None
            slot_count, rest = divmod(position - 4 - HEADER_SIZE - last * ITEM_SIZE, SLOT_SIZE)
            if rest or slot_count < 1:
                continue
            geometry = Geometry(slot_count, (size - HEADER_SIZE - slot_count * 4) // ITEM_SIZE)
            if _agrees(disk, descriptor, header, geometry):
                return geometry
        return None
    finally:
        disk.close(descriptor)


def _places_of(disk: Disk, descriptor: int, header: Header, size: int) -> Iterator[int]:
    """Yield the file positions of the eight bytes that the header states as the end offset."""
    wanted = header.end_physical_offset
    high, low = wanted >> 32, wanted & 0xFFFFFFFF
    for first in range(HEADER_SIZE - 4, size, _CHUNK):
        data = disk.read(descriptor, min(_CHUNK + 8, size - first), first)
        words = np.frombuffer(data[: len(data) // 4 * 4], ">u4")
        matches = (words[1:-1] == high) & (words[2:] == low)
        if wanted == 0:
            matches &= words[:-2] != 0  # zeros are everywhere, but an item has a hash before it
        yield from ((np.flatnonzero(matches) + 1) * 4 + first).tolist()


def _agrees(disk: Disk, descriptor: int, header: Header, geometry: Geometry) -> bool:
    """Return whether items are where the geometry puts them, and the first chains fit.

    More items and newer slots than the header counts are right: a writer writes it after them.
    """
    last = header.next_item - 1
    if last >= geometry.item_count:
        return False
    count = min(last, _ITEMS_LOOKED_AT)
    first = _items(disk, descriptor, geometry, 0, count + 1)
    end = _items(disk, descriptor, geometry, last, 1)
    if first[0].tobytes().strip(b"\0") or not first[1].tobytes().strip(b"\0"):
        return False  # item 0 is never written, and item 1 is the first one
    slot = int(end[0]["key_hash"]) % geometry.slot_count
    newest = disk.read(descriptor, SLOT_SIZE, HEADER_SIZE + slot * SLOT_SIZE)
    hashes = first["key_hash"].astype(np.int32)[1:]
    slots = np.zeros(geometry.slot_count, np.int32)
    _, previous = chain(
        slots,
        slots_of(np.maximum(hashes, 0), geometry.slot_count),
        np.arange(1, count + 1, dtype=np.int32),
    )
    return bool(
        int(first[1]["physical_offset"]) == header.begin_physical_offset
        and end[0]["physical_offset"] == header.end_physical_offset
        and last <= int.from_bytes(newest, "big") < geometry.item_count
        and (first["previous"][1:] == previous).all()
    )


def _items(
    disk: Disk, descriptor: int, geometry: Geometry, first: int, count: int
) -> npt.NDArray[np.void]:
    """Return items, with zeros for those outside of the file."""
    size = min(count, geometry.item_count - first) * ITEM_SIZE
    data = disk.read(descriptor, size, geometry.position_of_item(first))
    return np.frombuffer(data.ljust(count * ITEM_SIZE, b"\0"), ITEM_DTYPE)
