"""The sizes of a file's parts, and the contents of its header."""

from __future__ import annotations

from typing import NamedTuple

from reput_index.layout import HEADER, HEADER_SIZE, ITEM_SIZE, SLOT_SIZE, file_size


class Geometry(NamedTuple):
    """The sizes of a file's parts."""

    slot_count: int
    item_count: int
    """Room for items, including item 0, which is never used."""

    @property
    def file_size(self) -> int:
        """Bytes of a file."""
        return file_size(*self)

    @property
    def items_position(self) -> int:
        """Byte at which item 0 stands."""
        return HEADER_SIZE + self.slot_count * SLOT_SIZE

    def position_of_item(self, number: int) -> int:
        """Return the byte at which item ``number`` stands."""
        return self.items_position + number * ITEM_SIZE


class Header(NamedTuple):
    """`HEADER_DTYPE` for one file; see there."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    used_slot_count: int = 0
    next_item: int = 1

    @classmethod
    def decode(cls, data: bytes) -> Header:
        """Decode a header; missing bytes count as zero."""
        header = cls(*HEADER.unpack(data[:HEADER_SIZE].ljust(HEADER_SIZE, b"\0")))
        return header._replace(next_item=max(header.next_item, 1))

    def encode(self) -> bytes:
        """Return the bytes of the header; all zero for a file without items."""
        return bytes(HEADER_SIZE) if self.next_item <= 1 else HEADER.pack(*self)
