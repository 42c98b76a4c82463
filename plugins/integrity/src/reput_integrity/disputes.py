"""Disputes: records that a rebuild has summed although an older sum contradicts their bytes.

A rebuild makes sums of the log as it is. Where that has changed since a valid sum was made, the
older sum is kept here and goes on to count: otherwise the rebuild would hide the damage. There are
few of them, mostly none.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_integrity.checksumorigins import AS_WRITTEN, LATER, UNKNOWN
from reput_integrity.layout import DISPUTE_DTYPE, DISPUTES_HEADER_DTYPE, DISPUTES_MAGIC
from reput_integrity.recordchecksums import Units

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_integrity.checksumorigins import Origins

_HEADER = DISPUTES_HEADER_DTYPE.itemsize
_CHECKED = 16  # position from which the checksum counts
_ROWS_MAX = 100_000
_AS_WRITTEN, _UNKNOWN = 0, -1


@attrs.frozen
class Dispute:
    """A record's older sum; plain values."""

    start: int
    """Physical offset of the record."""
    size: int
    crc: int
    made: int
    """When the sum was made, ms; 0 for as the record was written, -1 for nobody knows."""

    @property
    def origin(self) -> tuple[str, int | None]:
        """As `Origins.of` tells it."""
        known = {_AS_WRITTEN: (AS_WRITTEN, None), _UNKNOWN: (UNKNOWN, None)}
        return known.get(self.made, (LATER, self.made))


@attrs.frozen
class Disputes:
    """The disputes of a store, by physical offset, ascending."""

    rows: tuple[Dispute, ...] = ()

    def of(self, start: int) -> Dispute | None:
        """Return the dispute about the record at ``start``."""
        return next((each for each in self.rows if each.start == start), None)

    def kept(self, start: int, end: int) -> Disputes:
        """Return those about records in ``[start, end)``."""
        rows = tuple(each for each in self.rows if start <= each.start and each.start < end)
        return self if len(rows) == len(self.rows) else Disputes(rows)

    def applied(self, units: Units) -> Units:
        """Return ``units`` with the older sums in place of their replacements."""
        if not self.rows or not len(units):
            return units
        crc, starts = units.crc.copy(), units.start
        for each in self.rows:
            row = int(np.searchsorted(starts, each.start))
            if row < len(units) and starts[row] == each.start and units.size[row] == each.size:
                crc[row] = each.crc
        return attrs.evolve(units, crc=crc)

    @classmethod
    def between(cls, older: Units, newer: Units, origins: Origins | None) -> tuple[Dispute, ...]:
        """Return what sound older sums say against newer ones of the same records."""
        rows = np.searchsorted(newer.position, older.position)
        is_there = rows < len(newer)
        is_there[is_there] = newer.position[rows[is_there]] == older.position[is_there]
        mine = np.flatnonzero(is_there)
        others = rows[mine]
        differs = (older.size[mine] == newer.size[others]) & (older.crc[mine] != newer.crc[others])
        found = []
        for row in mine[differs].tolist():
            start, made = int(older.start[row]), _UNKNOWN
            if origins is not None:
                made = origins.of(start)[1] or _AS_WRITTEN
            found.append(Dispute(start, int(older.size[row]), int(older.crc[row]), made))
        return tuple(found)

    # ------------------------------------------------------------------ on disk

    def encode(self, now: int) -> bytes:
        """Return the file's bytes; of more than 100,000 disputes the first ones.

        Args:
            now: ms. Two files are never the same, so that a comparison of files looks into them.
        """
        kept = sorted(self.rows, key=lambda each: each.start)[:_ROWS_MAX]
        rows = np.array([attrs.astuple(each) for each in kept], DISPUTE_DTYPE).tobytes()
        header = np.zeros(1, DISPUTES_HEADER_DTYPE)
        header["magic"], header["count"], header["written"] = DISPUTES_MAGIC, len(kept), now
        header["crc"] = zlib.crc32(header.tobytes()[_CHECKED:] + rows)
        return header.tobytes() + rows

    @classmethod
    def load(cls, path: str, disk: Disk) -> Disputes:
        """Read the file; none without it.

        Raises:
            CorruptFileError: the file contradicts itself.
        """
        if not disk.exists(path):
            return cls()
        data = disk.read_file(path, _HEADER + (_ROWS_MAX + 1) * DISPUTE_DTYPE.itemsize)
        if len(data) < _HEADER:
            raise CorruptFileError(path, 0, f"{len(data)} bytes, a header of {_HEADER} expected")
        header = np.frombuffer(data, DISPUTES_HEADER_DTYPE, 1)[0]
        rows = data[_HEADER:]
        if bytes(header["magic"]) != DISPUTES_MAGIC:
            raise CorruptFileError(path, 0, f"it does not begin with {DISPUTES_MAGIC!r}")
        if len(rows) != int(header["count"]) * DISPUTE_DTYPE.itemsize or (
            zlib.crc32(data[_CHECKED:]) != int(header["crc"])
        ):
            raise CorruptFileError(path, _CHECKED, "rows and their checksum differ")
        return cls(tuple(Dispute(*row) for row in np.frombuffer(rows, DISPUTE_DTYPE).tolist()))
