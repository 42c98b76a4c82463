"""Entries of a DLedger log: each is a head of 48 bytes, and one record of the log behind it.

    0       4      8       16     24         32       36      40     44          48
    +-------+------+-------+------+----------+--------+-------+------+-----------+--------
    | magic | size | index | term | position | channel| chain | body | body size | record
    |       |      |       |      |          |        |  crc  | crc  |           |
    +-------+------+-------+------+----------+--------+-------+------+-----------+--------

Integers are big-endian. A record states the position behind the head as its physical offset. A
reader of records sees heads as gaps between records. Padding, a magic and a size, ends a file.

Source: DLedger ``DLedgerEntryCoder``, ``DLedgerMmapFileStore#recover``; RocketMQ
``DLedgerCommitLog``. Different on purpose: the record in an entry is checked, too.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput.record.batch import Corruption, CorruptionKind
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput.record.text.textmatrix import fixed_rows

if TYPE_CHECKING:
    import numpy.typing as npt

ENTRY_DTYPE: Final = np.dtype(
    [
        ("magic", ">i4"),  # 1; of padding -1
        ("size", ">i4"),  # bytes, of head and record; of padding: up to the end of the file
        ("index", ">i8"),  # ordinal of the entry
        ("term", ">i8"),  # of the leader that appended the entry; never falls
        ("position", ">i8"),  # byte of the log at which the head begins
        ("channel", ">i4"),  # 0, as are the next two
        ("chain_crc", ">i4"),
        ("body_crc", ">i4"),
        ("body_size", ">i4"),  # bytes of the record
    ]
)
ENTRY_HEAD_SIZE: Final = ENTRY_DTYPE.itemsize
"""Bytes of a head."""
_ENTRY: Final = 1
_PADDING: Final = -1
_MAGIC_AND_SIZE: Final = struct.Struct(">ii")
_HEAD: Final = struct.Struct(">iiqqqiiii")  # `ENTRY_DTYPE`


class LastEntry(NamedTuple):
    """The entry before a window."""

    end: int
    """Position of the next entry."""
    number: int
    term: int


def size_and_magic(head: bytes) -> tuple[int, int]:
    """Return size and magic of what begins with ``head``, as if no entry were around the record.

    Args:
        head: bytes of the log from an entry on: of its head, and 8 more.

    Returns:
        The size of the entry and the record's magic; of padding its size and a blank's magic; the
        stated size and 0 for anything else. An entry whose magic and size are not written yet has
        the size 0.
    """
    if len(head) < _MAGIC_AND_SIZE.size:
        return 0, 0
    magic, size = _MAGIC_AND_SIZE.unpack_from(head)
    if magic == _PADDING:
        return size, BLANK_MAGIC
    is_begun = magic == size == 0 or (magic == _ENTRY and size != 0)
    if not is_begun or len(head) < ENTRY_HEAD_SIZE + SIZE_AND_MAGIC.size:
        return size, 0
    return size, SIZE_AND_MAGIC.unpack_from(head, ENTRY_HEAD_SIZE)[1]


def last_entry(head: bytes) -> LastEntry:
    """Return the entry with that head, 48 bytes, which was checked."""
    _, size, number, term, position, *_ = _HEAD.unpack(head)
    return LastEntry(position + size, number, term)


def framed(records: bytes, last: LastEntry) -> tuple[bytes, LastEntry]:
    """Return whole records as entries that follow ``last``, and the last of these entries.

    Args:
        records: one after the other; each states where it is in the log, behind its head.
        last: the entry before them, as if it ended where they begin.
    """
    parts: list[bytes] = []
    start, (end, number, term) = 0, last
    while start < len(records):
        body_size = int.from_bytes(records[start : start + 4], "big")
        size, number = body_size + ENTRY_HEAD_SIZE, number + 1
        parts.append(_HEAD.pack(_ENTRY, size, number, term, end, 0, 0, 0, body_size))
        parts.append(records[start : start + body_size])
        start, end = start + body_size, end + size
    return b"".join(parts), LastEntry(end, number, term)


def padding(size: int) -> bytes:
    """Return the first bytes of padding: eight, and zeros follow up to its size."""
    return _MAGIC_AND_SIZE.pack(_PADDING, size)


def wrong_entry(
    window: npt.NDArray[np.uint8],
    start: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    base_offset: int,
    last: LastEntry | None,
    check_order: bool,
) -> tuple[int, Corruption | None, LastEntry | None]:
    """Compare the heads of entries with the records behind them.

    Args:
        window: ``(w,)`` uint8.
        start: ``(n,)``, position of each record in the window; a head is before each.
        size: ``(n,)``, bytes of each record.
        base_offset: physical offset of ``window[0]``.
        last: the last entry that was checked, which counts if the window follows it.
        check_order: whether indexes and terms must follow one another.

    Returns:
        The first row whose head is wrong, ``n`` if all are right; its fault; and the last right
        entry.
    """
    heads = fixed_rows(window, start - ENTRY_HEAD_SIZE, ENTRY_DTYPE)
    position = start + (base_offset - ENTRY_HEAD_SIZE)
    # Two fields at once: a comparison of eight bytes takes as long as one of four.
    words = heads.view(np.dtype(">i8")).reshape(len(heads), ENTRY_HEAD_SIZE // 8)
    is_sized = words[:, 0] == size + (_ENTRY << 32 | ENTRY_HEAD_SIZE)
    is_sized &= heads["body_size"] == size
    good = is_sized & (heads["position"] == position)
    index, term = heads["index"], heads["term"]
    if check_order:
        good[1:] &= (index[1:] - index[:-1] == 1) & (term[1:] >= term[:-1])
        if last is not None and last.end == base_offset and len(good):
            good[0] &= index[0] == last.number + 1 and term[0] >= last.term
    row = len(good) if good.all() else int(good.argmin())
    if row:
        end = int(position[row - 1] + ENTRY_HEAD_SIZE + size[row - 1])
        last = LastEntry(end, int(index[row - 1]), int(term[row - 1]))
    if row == len(good):
        return row, None, last
    at, kind = int(position[row]), CorruptionKind.PHYSICAL_OFFSET
    if not is_sized[row]:
        kind, detail = CorruptionKind.LENGTH_MISMATCH, "its entry and its record differ in size"
    elif heads["position"][row] != at:
        detail = f"its entry states {heads['position'][row]}"
    else:
        detail = "index or term of its entry do not follow those of the entry before"
    return row, Corruption(at, kind, detail), last
