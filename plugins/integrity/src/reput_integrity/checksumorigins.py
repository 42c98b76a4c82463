"""Origins: which sums were made later than the records, and so prove only what was read then.

The file lists exceptions, so that a store that is only written never changes it. It cannot be
derived from the log: a lost file cannot be rebuilt, and then the origin of older sums is not known.
"""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_integrity.layout import ORIGIN_DTYPE, ORIGINS_HEADER_DTYPE, ORIGINS_MAGIC

if TYPE_CHECKING:
    from reput.files import Disk

AS_WRITTEN = "written"
LATER = "later"
UNKNOWN = "unknown"

_HEADER = ORIGINS_HEADER_DTYPE.itemsize
_ROWS_MAX = 4096
_NEAR_MS = 60_000


@attrs.frozen
class Later:
    """A part of the log, ``[start, end)``, whose sums were made at about ``made``, ms."""

    start: int
    end: int
    made: int


@attrs.define(eq=False, repr=False)
class Origins:
    """The parts of the log whose sums were made later, ascending, without overlaps."""

    parts: tuple[Later, ...] = ()

    def of(self, physical_offset: int) -> tuple[str, int | None]:
        """Return the origin of a record's sum, and when it was made, ms, if that was later."""
        for part in self.parts:
            if part.start <= physical_offset < part.end:
                return LATER, part.made
        return AS_WRITTEN, None

    def add(self, start: int, end: int, made: int) -> bool:
        """Note that the sums of ``[start, end)`` are made now; return whether that is new."""
        if start >= end:
            return False
        last = self.parts[-1] if self.parts else None
        if last is not None and last.end == start and 0 <= made - last.made < _NEAR_MS:
            self.parts = (*self.parts[:-1], attrs.evolve(last, end=end))
            return True
        kept = self._without(start, end)
        rows = sorted([*kept, Later(start, end, made)], key=lambda each: each.start)
        while len(rows) > _ROWS_MAX:  # what lies between two parts then counts as made later, too
            gaps = [after.start - before.end for before, after in pairwise(rows)]
            at = gaps.index(min(gaps))
            first, second = rows[at], rows[at + 1]
            rows[at : at + 2] = [Later(first.start, second.end, max(first.made, second.made))]
        self.parts = tuple(rows)
        return True

    def keep(self, start: int, end: int) -> bool:
        """Forget what is outside of ``[start, end)``; return whether anything was."""
        before = self.parts
        self.parts = tuple(
            Later(max(each.start, start), min(each.end, end), each.made)
            for each in before
            if each.start < end and each.end > start
        )
        return self.parts != before

    def _without(self, start: int, end: int) -> list[Later]:
        rows = []
        for each in self.parts:
            if each.start < start:
                rows.append(attrs.evolve(each, end=min(each.end, start)))
            if each.end > end:
                rows.append(attrs.evolve(each, start=max(each.start, end)))
        return rows

    # ------------------------------------------------------------------ on disk

    def encode(self) -> bytes:
        """Return the file's bytes."""
        rows = np.array([attrs.astuple(each) for each in self.parts], ORIGIN_DTYPE).tobytes()
        header = np.zeros(1, ORIGINS_HEADER_DTYPE)
        header["magic"], header["count"] = ORIGINS_MAGIC, len(self.parts)
        header["crc"] = zlib.crc32(rows)
        return header.tobytes() + rows

    @classmethod
    def load(cls, path: str, disk: Disk) -> Origins | None:
        """Read the file; None if it does not exist.

        Raises:
            CorruptFileError: the file contradicts itself.
        """
        if not disk.exists(path):
            return None
        limit = _HEADER + (_ROWS_MAX + 1) * ORIGIN_DTYPE.itemsize
        data = disk.read_file(path, limit)
        if len(data) < _HEADER:
            raise CorruptFileError(path, 0, f"{len(data)} bytes, a header of {_HEADER} expected")
        header = np.frombuffer(data, ORIGINS_HEADER_DTYPE, 1)[0]
        if bytes(header["magic"]) != ORIGINS_MAGIC:
            raise CorruptFileError(path, 0, f"it does not begin with {ORIGINS_MAGIC!r}")
        size = int(header["count"]) * ORIGIN_DTYPE.itemsize
        rows = data[_HEADER:]
        if len(rows) != size or zlib.crc32(rows) != int(header["crc"]):
            raise CorruptFileError(path, _HEADER, "rows and their checksum differ")
        found = np.frombuffer(rows, ORIGIN_DTYPE)
        return cls(tuple(Later(*map(int, row)) for row in found.tolist()))
