"""The bytes of ``reput/state``: two slots, and behind them the journal. See `StateFile`.

Slots and parts of the journal are *blocks* of the same form; integers are big-endian:

    0       4         6       10     14          18           26         34
    +-------+---------+-------+------+-----------+------------+----------+-------------+
    | magic | version | count | size | slot size | generation | sequence | journal end |
    +-------+---------+-------+------+-----------+------------+----------+-------------+
    42        size  size+4
    +---------+-----+
    | entries | crc |
    +---------+-----+

    an entry:
    0   1      1+n       9+n      13+n
    +---+------+---------+--------+-------+
    | n | name | changed | length | value |
    +---+------+---------+--------+-------+

The size is that of header and entries, in bytes; ``crc`` is the CRC-32 of them. The slot with the
sequence ``n`` is slot ``n mod 2``; the second slot begins at the slot size, and the journal at
twice the slot size. All blocks of a file have one generation, which increases when the file is
replaced. Slots have the magic ``RPST``, blocks of the journal ``RPSJ``. The version is 2.

A slot states where the journal ended when it was written. A block of the journal states where it
ends itself, and has the sequence after that of the block before it; the first one has 1. So bytes
that an interrupted write left behind the journal never count, and missing blocks are noticed.

``changed`` is the sequence of the block in which the value changed last. In the journal it is that
of the block in which the value begins: a block with its own sequence there replaces the value, and
a later one adds to it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import attrs

SLOT: Final = b"RPST"
JOURNAL: Final = b"RPSJ"
VERSION: Final = 2
PAGE_SIZE: Final = 4096  # a slot begins at a page: a torn page never destroys both
_HEADER: Final = struct.Struct(">4sHIIIqqq")
_CHANGED: Final = struct.Struct(">qI")  # between an entry's name and its value
_CRC: Final = struct.Struct(">I")
_SEQUENCE_END: Final = 1 << 62
_SLOT_SIZE_MAX: Final = 1 << 26  # of a block that is read: the journal begins at twice the size
_SEARCHED: Final = 1 << 26  # bytes of damaged data that are looked at beside eight times its size


class StateEntry(NamedTuple):
    """An entry of a block."""

    changed: int
    """The sequence of the block in which the value changed last, or in the journal began."""
    value: bytes


Entries = Mapping[str, StateEntry]


@attrs.frozen
class Block:
    """A slot, or a part of the journal."""

    slot_size: int
    """Bytes from the first slot to the second one."""
    generation: int
    sequence: int
    journal_end: int
    """File position after the journal, as far as the block knows."""
    entries: Entries
    start: int = 0
    """File position of the block."""
    end: int = 0
    """File position after the block."""


@attrs.define(eq=False, repr=False)
class Contents:
    """What a state file holds."""

    slots: list[Block] = attrs.field(factory=list)
    """The whole ones, newest first."""
    slot_size: int = 0
    """0 if no block is whole."""
    generation: int = 0
    values: dict[str, list[bytes]] = attrs.field(factory=dict)
    """The pieces of each value in the journal."""
    begun: dict[str, int] = attrs.field(factory=dict)
    """The sequence of the block in which each value begins."""
    size: int = 0
    """Bytes of all values in the journal."""
    sequence: int = 0
    """Of the last block of the journal."""
    end: int = 0
    """File position after the journal, where its next block is written."""
    damaged_at: int | None = None
    """File position of the first bytes of the journal that are damaged."""
    exists: bool = False
    """Whether the file exists."""
    version: int = VERSION
    """Another one if the first slot was written by another release, and no slot is whole."""

    def is_followed_by(self, block: Block) -> bool:
        """Whether a block is the next one of the journal."""
        return block.generation == self.generation and block.sequence == self.sequence + 1

    def precedes(self, block: Block) -> bool:
        """Whether a block is a later one of the journal."""
        return block.generation == self.generation and block.sequence > self.sequence

    def add(self, name: str, changed: int, value: bytes, sequence: int) -> None:
        """Apply an entry of a block of the journal; an empty new value removes the name."""
        if changed != self.begun.get(name):  # a new value, or one whose beginning is lost
            self.size -= sum(map(len, self.values.get(name, ())))
            self.values[name], self.begun[name] = [], changed
        self.values[name].append(value)
        self.size += len(value)
        if changed == sequence and not value:
            del self.values[name], self.begun[name]


def block_of(magic: bytes, block: Block) -> bytes:
    """Return the bytes of a block.

    Args:
        magic: `SLOT` or `JOURNAL`.
        block: its parts; of a block of the journal, `Block.journal_end` is where it begins.
    """
    parts = [b""]
    for name, (changed, value) in block.entries.items():
        encoded = name.encode()
        parts += (bytes((len(encoded),)), encoded, _CHANGED.pack(changed, len(value)), value)
    size = _HEADER.size + sum(map(len, parts))
    end = block.journal_end if magic == SLOT else block.journal_end + size + _CRC.size
    parts[0] = _HEADER.pack(
        magic,
        VERSION,
        len(block.entries),
        size,
        block.slot_size,
        block.generation,
        block.sequence,
        end,
    )
    data = b"".join(parts)
    return data + _CRC.pack(zlib.crc32(data))


def contents_of(data: bytes, *, slots_only: bool = False) -> Contents:
    """Return what the bytes of a state file hold, as far as they are whole.

    Args:
        data: the file, or its first bytes.
        slots_only: whether the journal is left out.
    """
    search = _Search(data, _SEARCHED + 8 * len(data))
    slots = _slots(search)
    found = Contents(slots)
    known = slots[0] if slots else None
    if known is None and not slots_only:
        known = next(search.found(JOURNAL), None)
    if known is None:
        if data.startswith(SLOT) and len(data) > _HEADER.size:
            found.version = _HEADER.unpack_from(data)[1]
        return found
    found.slot_size, found.generation = known.slot_size, known.generation
    found.end = 2 * known.slot_size
    if not slots_only:
        _read_journal(search, found, slots[0].journal_end if slots else 0)
    return found


@attrs.define(eq=False, repr=False)
class _Search:
    """Looks for whole blocks in damaged data; ends soon, whatever the data is."""

    data: bytes
    left: int
    """Bytes that are looked at."""

    def found(self, magic: bytes, start: int = 0) -> Iterator[Block]:
        """Find whole blocks from a place on, also within others."""
        data = self.data
        place = data.find(magic, start)
        while place >= 0 and self.left > 0:
            size = int.from_bytes(data[place + 10 : place + 14])
            self.left -= max(size if place + size <= len(data) else 0, PAGE_SIZE)
            block = _read_block(data, place, magic)
            if block is not None:
                yield block
            place = data.find(magic, place + 1)


def _slots(search: _Search) -> list[Block]:
    data = search.data
    first = _read_block(data, 0, SLOT)
    if first is None or first.sequence % 2:
        others = (each for each in search.found(SLOT) if each.start == each.slot_size)
        return [each for each in others if each.sequence % 2][:1]
    second = _read_block(data, first.slot_size, SLOT)
    if second is None or second.sequence % 2 == 0 or second.generation != first.generation:
        return [first]
    return [first, second] if first.sequence > second.sequence else [second, first]


def _read_journal(search: _Search, found: Contents, known_end: int) -> None:
    """Read the journal, which a slot has known to reach to ``known_end`` at least."""
    data = search.data
    block = _read_block(data, found.end, JOURNAL)
    while True:
        if block is None or not found.is_followed_by(block):
            if known_end <= found.end >= len(data):
                return
            later = search.found(JOURNAL, found.end + 1)
            block = next(filter(found.precedes, later), None)
            if found.damaged_at is None and (block is not None or found.end < known_end):
                found.damaged_at = found.end
            if block is None:
                return
        for name, (changed, value) in block.entries.items():
            found.add(name, changed, value, block.sequence)
        found.end, found.sequence = block.end, block.sequence
        block = _read_block(data, found.end, JOURNAL)


def _read_block(data: bytes, start: int, magic: bytes) -> Block | None:
    """Return the block at a file position; None if it is not whole, or no writer makes it."""
    if len(data) - start < _HEADER.size + _CRC.size:
        return None
    found, version, count, size, slot_size, generation, sequence, journal_end = _HEADER.unpack_from(
        data, start
    )
    if found != magic or version != VERSION or not 0 < sequence < _SEQUENCE_END:
        return None
    end = start + size
    if size < _HEADER.size or end > len(data) - _CRC.size:
        return None
    if not 0 < slot_size <= _SLOT_SIZE_MAX or slot_size % PAGE_SIZE:
        return None
    if not 0 < generation < _SEQUENCE_END or journal_end < 2 * slot_size:
        return None
    if magic == JOURNAL and journal_end != end + _CRC.size:
        return None
    if magic == SLOT and size + _CRC.size > slot_size:
        return None
    if _CRC.pack(zlib.crc32(memoryview(data)[start:end])) != data[end : end + _CRC.size]:
        return None
    entries = _entries(data, start + _HEADER.size, end, count)
    if entries is None:
        return None
    return Block(slot_size, generation, sequence, journal_end, entries, start, end + _CRC.size)


def _entries(data: bytes, position: int, end: int, count: int) -> dict[str, StateEntry] | None:
    entries = {}
    try:
        for _ in range(count):
            after = position + 1 + data[position]
            start = after + _CHANGED.size
            changed, length = _CHANGED.unpack_from(data, after)
            if start + length > end:
                return None
            name = data[position + 1 : after].decode()
            entries[name] = StateEntry(changed, data[start : start + length])
            position = start + length
    except (ValueError, IndexError, struct.error):
        return None
    return entries
