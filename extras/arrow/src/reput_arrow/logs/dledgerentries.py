"""Entries of a DLedger log: their layout, and how they are found in a window.

    0       4      8       16     24         32       36      40     44          48
    +-------+------+-------+------+----------+--------+-------+------+-----------+------
    | magic | size | index | term | position | channel| chain | body | body size | body
    |       |      |       |      |          |        | crc   | crc  |           |
    +-------+------+-------+------+----------+--------+-------+------+-----------+------

Integers are big-endian; the body of a message's entry is one record of the commit log, which says
``position`` + 48 for its own physical offset. Padding has a magic and a size only.

Source: RocketMQ ``DLedgerCommitLog``; DLedger ``DLedgerEntryCoder``, ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import numpy as np

from reput.record import RECORD_SIZE_MAX, CorruptionKind, fixed_rows, words_at

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ENTRY_DTYPE",
    "ENTRY_SIZE_MAX",
    "HEAD_SIZE",
    "MAGICS",
    "MESSAGE",
    "Last",
    "Walk",
    "first_entry",
    "in_order",
    "last_of",
    "walk",
]

ENTRY_DTYPE: Final = np.dtype(
    [
        ("magic", ">i4"),  # 1: a message; 2 and 3: none of ours; -1: padding
        ("size", ">i4"),  # bytes, head and body; of padding: up to the next entry
        ("index", ">i8"),  # one more than that of the entry before
        ("term", ">i8"),  # never less than that of the entry before
        ("position", ">i8"),  # byte of the log at which the entry begins
        ("channel", ">i4"),
        ("chain_crc", ">i4"),
        ("body_crc", ">i4"),  # not verified: no release is known to write it
        ("body_size", ">i4"),
    ]
)
HEAD_SIZE: Final = ENTRY_DTYPE.itemsize
MESSAGE: Final = 1
MAGICS: Final = (MESSAGE, 2, 3)
"""Of entries; newer libraries write 2 and 3, with something else than a message in them."""
ENTRY_SIZE_MAX: Final = RECORD_SIZE_MAX + HEAD_SIZE
_PADDING: Final = -1
_PADDING_MIN: Final = 8
_MAGIC_AND_SIZE: Final = struct.Struct(">ii")
_POSITION: Final = ENTRY_DTYPE.fields["position"][1] if ENTRY_DTYPE.fields else 0


class Last(NamedTuple):
    """The entry before the next ones."""

    number: int
    term: int


@attrs.frozen(eq=False)
class Walk:
    """What stands in a window from its first byte on."""

    starts: npt.NDArray[np.int64]
    """``(n,)`` positions of whole entries; paddings between them were passed over."""
    heads: npt.NDArray[np.void]
    """``(n,)`` their heads, `ENTRY_DTYPE`."""
    end: int
    """Position after the last whole entry or padding."""
    problem: tuple[CorruptionKind, str] | None = None
    """What is wrong at ``end``; None at the window's end."""
    needed: int = 0
    """Bytes that the window must have to hold the entry at ``end``."""


def walk(window: npt.NDArray[np.uint8], offset: int, limit: int) -> Walk:
    """Go through ``window`` from entry to entry.

    Args:
        window: ``(w,)`` bytes; an entry begins at the first one.
        offset: of the first byte in the log.
        limit: offset at which the file, or what is wanted of it, ends.
    """
    positions: list[int] = []
    view, unpack = window.data, _MAGIC_AND_SIZE.unpack_from
    position, end = 0, len(window)
    problem, needed = None, 0
    # One entry after the other, as where the next one is stands in the one before.
    while position < end:
        if end - position < _PADDING_MIN:
            needed = position + HEAD_SIZE
            break
        magic, size = unpack(view, position)
        problem = _problem(magic, size, limit - offset - position)
        if problem is not None:
            break
        if magic != _PADDING:
            if position + size > end:
                needed = position + size
                break
            positions.append(position)
        position += size
    starts = np.array(positions, np.int64)
    heads: npt.NDArray[np.void] = fixed_rows(window, starts, ENTRY_DTYPE)
    sizes_agree = heads["size"] == heads["body_size"].astype(np.int64) + HEAD_SIZE
    good = sizes_agree & (heads["position"] == starts + offset)
    if good.all():
        return Walk(starts, heads, position, problem, needed)
    row = int(np.argmin(good))
    if sizes_agree[row]:
        problem = CorruptionKind.PHYSICAL_OFFSET, f"it says {int(heads['position'][row])}"
    else:
        problem = CorruptionKind.LENGTH_MISMATCH, "size and body size of the entry disagree"
    return Walk(starts[:row], heads[:row], int(starts[row]), problem)


def _problem(magic: int, size: int, left: int) -> tuple[CorruptionKind, str] | None:
    """Return why no entry of ``magic`` and ``size`` can stand where ``left`` bytes are left."""
    if magic not in MAGICS and magic != _PADDING:
        return CorruptionKind.BAD_MAGIC, f"magic {magic}, an entry has 1, 2, 3 or -1"
    if size < _PADDING_MIN or (magic != _PADDING and not HEAD_SIZE <= size <= ENTRY_SIZE_MAX):
        return CorruptionKind.BAD_SIZE, f"an entry of {size} bytes"
    if size > left:
        return CorruptionKind.TRUNCATED, f"an entry of {size} bytes, {left} are left"
    return None


def first_entry(window: npt.NDArray[np.uint8], offset: int, limit: int) -> int | None:
    """Return the position of the first entry in a window that may begin inside of one.

    What counts as an entry has a magic, states its own place, and its sizes agree. A body may hold
    the bytes of such an entry. None where there is no entry.
    """
    places = np.arange(max(len(window) - HEAD_SIZE + 1, 0))
    stated = words_at(window, places + _POSITION, np.dtype(">i8"))
    found = np.flatnonzero(stated == places + offset)
    heads = fixed_rows(window, found, ENTRY_DTYPE)
    for place, head in zip(found.tolist(), heads, strict=True):
        magic, size, body_size = int(head["magic"]), int(head["size"]), int(head["body_size"])
        is_entry = magic in MAGICS and size == body_size + HEAD_SIZE
        if is_entry and _problem(magic, size, limit - offset - place) is None:
            return int(place)
    return None


def in_order(heads: npt.NDArray[np.void], last: Last | None) -> npt.NDArray[np.bool_]:
    """Return ``(n,)``: whether each index and term follow from those of the entry before."""
    good = np.ones(len(heads), np.bool_)
    good[1:] = (np.diff(heads["index"]) == 1) & (np.diff(heads["term"]) >= 0)
    if last is not None and len(heads):
        first = heads[0]
        good[0] = int(first["index"]) == last.number + 1 and int(first["term"]) >= last.term
    return good


def last_of(heads: npt.NDArray[np.void]) -> Last | None:
    """Return index and term of the last head; None without any."""
    return Last(int(heads[-1]["index"]), int(heads[-1]["term"])) if len(heads) else None
