"""Search one file for the items of one hash: by its chain, or by reading all items.

A chain that leaves the file, loops, or contradicts its own items raises `BrokenChainError`. Reading
all items needs no slot and no chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput.errors import CorruptFileError
from reput_index.files.header import Header
from reput_index.files.indexfile import CHUNK, IndexFile
from reput_index.layout import ITEM, ITEM_SIZE, NEXT_ITEM_POSITION

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_index.files.indexfiles import IndexFiles

_BLOCK: Final = 204  # items of one read, a page: items of a frequent key stand close together
_FIRST_CHUNK: Final = 1 << 12
_SECONDS_MAX: Final = (1 << 31) - 1


class BrokenChainError(Exception):
    """A chain of items is broken, so that all items of its file have to be read."""


class Found(NamedTuple):
    """One item with the hash that is searched for."""

    number: int
    physical_offset: int
    seconds: int


class HashSearch(NamedTuple):
    """The state of one file at one moment."""

    file: IndexFile
    header: Header
    newest: int
    """Number of the item that the slot of the hash states."""
    key_hash: int

    @classmethod
    def at(cls, index: IndexFiles, file: IndexFile, key_hash: int) -> HashSearch:
        """Read the state of a file now.

        Raises:
            CorruptFileError: the file's items contradict its header.
            FileNotFoundError: the file was trimmed meanwhile.
        """
        slot = key_hash % file.geometry.slot_count
        if index.writable:
            with index.lock:  # slots and header of one moment
                return cls(file, file.header, file.read_slot(slot), key_hash)
        # The header first: the slots, read after it, lead to all items that it counts.
        header = file.read_header()
        _check(index, file, header)
        return cls(file, header, file.read_slot(slot), key_hash)

    # ------------------------------------------------------------------ by the chain

    def chain(self, before: int | None = None) -> Iterator[Found]:
        """Yield items of the hash, the newest first.

        Args:
            before: physical offset of a message found earlier: start after its items, without
                reading newer ones. If it has no item here, the chain starts at its newest.

        Raises:
            BrokenChainError: an item has a wrong place, content or order.
        """
        header, slot_count = self.header, self.file.geometry.slot_count
        slot = self.key_hash % slot_count
        number, above, offset_above = self.newest, self.file.geometry.item_count, 1 << 63
        if before is not None:
            known = self._oldest_item_of(before)
            if known is not None:
                above, offset_above, number = known
        block, block_first = b"", above
        while number != 0:
            if not 0 < number < above:
                raise BrokenChainError(f"item {above} leads to item {number}")
            if number < block_first:
                block_first = max(number - _BLOCK + 1, 1)
                position = self.file.geometry.position_of_item(block_first)
                size = (number + 1 - block_first) * ITEM_SIZE
                block = self.file.pool.read(self.file.path, size, position).ljust(size, b"\0")
            key_hash, offset, seconds, previous = ITEM.unpack_from(
                block, (number - block_first) * ITEM_SIZE
            )
            if key_hash < 0 or key_hash % slot_count != slot:
                raise BrokenChainError(f"item {number} is of another slot")
            # Items added after the header was read are left for the next question.
            is_counted = number < header.next_item
            low = header.begin_physical_offset if is_counted else header.end_physical_offset
            high = min(offset_above, header.end_physical_offset) if is_counted else offset_above
            if not low <= offset <= high:
                raise BrokenChainError(
                    f"item {number} is of physical offset {offset}, not between {low} and {high}"
                )
            if key_hash == self.key_hash and is_counted:
                yield Found(number, offset, seconds)
            above, offset_above, number = number, offset, previous

    def _oldest_item_of(self, physical_offset: int) -> tuple[int, int, int] | None:
        """Return number, physical offset and previous item of the first item of that message."""
        first = self.first_behind(physical_offset - 1)
        items = self.file.read_items(first, min(_BLOCK, self.header.next_item - first))
        same = items["physical_offset"] == physical_offset
        rows = np.flatnonzero(same & (items["key_hash"] == self.key_hash))
        if len(rows) == 0:
            return None
        number = first + int(rows[0])
        return number, physical_offset, int(items["previous"][rows[0]])

    # ------------------------------------------------------------------ by all items

    def first_behind(self, physical_offset: int) -> int:
        """Return the number of the first item of a message above ``physical_offset``."""
        count = min(self.header.next_item, self.file.geometry.item_count) - 1
        return self.file.stop_below_among(physical_offset + 1, count)

    def forward(self, first: int) -> Iterator[Found]:
        """Yield items of the hash from item ``first`` on, the oldest first; reads all items.

        Raises:
            BrokenChainError: the items are not in the order of their messages.
        """
        newest = self.header.begin_physical_offset
        for number, items in self._chunks(first):
            offsets = items["physical_offset"].astype(np.int64)
            if offsets[0] < newest or (offsets[1:] < offsets[:-1]).any():
                raise BrokenChainError(f"an item from {number} on is in the wrong order")
            newest = int(offsets[-1])
            yield from self._of_hash(number, items)

    def read_through(self) -> list[Found]:
        """Return items of the hash by message, the oldest first; for a damaged file."""
        header = self.header
        every = [found for each in self._chunks(1) for found in self._of_hash(*each)]
        low, high = header.begin_physical_offset, header.end_physical_offset
        return sorted(
            (found for found in every if low <= found.physical_offset <= high),
            key=lambda found: found.physical_offset,
        )

    def _chunks(self, first: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        stop = min(self.header.next_item, self.file.geometry.item_count)
        size = _FIRST_CHUNK  # the wanted items may be near
        while first < stop:
            size = min(size, stop - first)
            yield first, self.file.read_items(first, size)
            first, size = first + size, min(2 * size, CHUNK)

    def _of_hash(self, first: int, items: npt.NDArray[np.void]) -> Iterator[Found]:
        for row in np.flatnonzero(items["key_hash"] == self.key_hash).tolist():
            item = items[row]
            yield Found(first + row, int(item["physical_offset"]), int(item["seconds"]))

    # ------------------------------------------------------------------ times

    def may_be_between(self, found: Found, begin: int, end: int) -> bool:
        """Return whether an item's message may have been stored in ``[begin, end]``, ms.

        False only if that is certain: items have second 0 if the clock went back, and the first
        item may count from the end of another file.
        """
        base, seconds = self.header.begin_timestamp, found.seconds
        if found.number <= 1 or base <= 0 or seconds >= _SECONDS_MAX:
            return True
        earliest = base + seconds * 1_000
        return begin <= earliest + 999 and (seconds <= 0 or earliest <= end)


def _check(index: IndexFiles, file: IndexFile, header: Header) -> None:
    last = header.next_item - 1
    if last < 1:
        return
    if last >= file.geometry.item_count:
        text = f"a file of {file.geometry.item_count} items has no item {last}"
        raise CorruptFileError(file.path, NEXT_ITEM_POSITION, f"{text}; {index.advice}")
    for number, expected in (
        (last, header.end_physical_offset),
        (1, header.begin_physical_offset),
    ):
        offset = file.read_item(number)[1]
        if offset != expected:
            text = (
                f"the header says that item {number} is of physical offset {expected}, "
                f"the item itself says {offset}"
            )
            raise CorruptFileError(file.path, NEXT_ITEM_POSITION, f"{text}; {index.advice}")
