"""Which records of the log have no sum: gaps between units in which a scan finds records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.log import LogView, Loss
    from reput_integrity.recordchecksums import Units

_Range = tuple[int, int]


def gaps_of(units: Units, start: int, end: int) -> list[_Range]:
    """Return the parts of ``[start, end)``, physical offsets, that belong to no unit."""
    ends = np.concatenate([[start], units.end])
    starts = np.concatenate([units.start, [end]])
    rows = np.flatnonzero(starts > ends)
    return [(int(ends[row]), int(starts[row])) for row in rows]


def first_uncovered(log: LogView, start: int, end: int) -> Iterator[_Range]:
    """Yield where records stand in a gap, ``[start, end)``, one range for each batch.

    A blank, unused space and damage have no records, and so no sums.

    Args:
        log: the log.
        start: where a record, a blank, unused space or damage begins.
        end: where a sum begins again, or the log ends.
    """
    for batch in log.scan(start, end):
        if len(batch):
            last = int(batch.physical_offset[-1] + batch.size[-1])
            yield int(batch.physical_offset[0]), min(last, end)


def outside_of(losses: tuple[Loss, ...], units: Units) -> Units:
    """Return the units of records of which nothing is known to be lost.

    Lost parts of the log were filled or are skipped: a sum was made of other bytes.
    """
    if not losses or not len(units):
        return units
    keep = np.ones(len(units), bool)
    start, end = units.start, units.end
    for loss in losses:
        keep &= (end <= loss.start_offset) | (start >= loss.end_offset)
    return units[keep]


def parts_outside(losses: tuple[Loss, ...], start: int, end: int) -> list[_Range]:
    """Return the parts of ``[start, end)`` that belong to no known loss."""
    parts, position = [], start
    for loss in sorted(losses, key=lambda each: each.start_offset):
        if position < min(loss.start_offset, end):
            parts.append((position, min(loss.start_offset, end)))
        position = max(position, loss.end_offset)
    if position < end:
        parts.append((position, end))
    return parts
