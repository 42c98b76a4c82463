"""`CheckedRanges`: where in the log every record has a checksum of its own.

With the option ``record_crc`` each record ends in a checksum of all of its bytes. The checksum is a
property, and one changed bit of its name makes it a property like any other. So a writer notes the
ranges of the log in which the option was on; there, a record without its checksum is damaged.
"""

from __future__ import annotations

from typing import Final, Self

import attrs

__all__ = ["OPEN_END", "CheckedRanges"]

OPEN_END: Final = 1 << 62
"""End of the range that is being written."""


@attrs.frozen
class CheckedRanges:
    """Ranges of physical offsets, half-open, ascending, in which each record has a checksum."""

    ranges: tuple[tuple[int, int], ...] = ()

    def covers(self, physical_offset: int) -> bool:
        """Whether a record that begins at an offset must have its checksum."""
        return any(start <= physical_offset < end for start, end in self.ranges)

    def border_after(self, physical_offset: int) -> int | None:
        """Return the next offset at which a range begins or ends; None if there is none."""
        borders = (each for both in self.ranges for each in both)
        return min((each for each in borders if physical_offset < each < OPEN_END), default=None)

    def until(self, end: int) -> Self:
        """Return the ranges below ``end``."""
        kept = ((start, min(stop, end)) for start, stop in self.ranges if start < end)
        return attrs.evolve(self, ranges=tuple(kept))

    def from_on(self, start: int) -> Self:
        """Return these ranges, all of which end at ``start`` or before, and one that is open."""
        ranges = self.ranges
        if ranges and ranges[-1][1] == start:
            start, ranges = ranges[-1][0], ranges[:-1]
        return attrs.evolve(self, ranges=(*ranges, (start, OPEN_END)))
