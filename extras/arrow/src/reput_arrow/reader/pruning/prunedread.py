"""What a pruned read does: parts by known places, and the ranges of the log that are scanned."""

from __future__ import annotations

import attrs


@attrs.frozen
class QueueRange:
    """Messages ``[first, stop)`` of one queue, by queue offset."""

    topic: str
    queue_id: int
    first: int
    stop: int


@attrs.frozen
class QueueRanges:
    """Messages of some queues that stand in ``[low, high)`` of the log; plain values."""

    queues: tuple[QueueRange, ...]
    low: int
    high: int
    begin: int
    """Where about the first of them stands, for the order of the parts."""


@attrs.frozen
class KeyPlaces:
    """Records that may have a key, of a part of the log that holds no other one that has it."""

    places: tuple[int, ...]
    """Physical offsets, ascending."""
    low: int
    high: int
    """The part is ``[low, high)``."""

    @property
    def begin(self) -> int:
        """Where the first of them stands."""
        return self.places[0]


@attrs.frozen
class Pruned:
    """All that is to be read of one log; no record is in two of these."""

    parts: tuple[QueueRanges | KeyPlaces, ...] = ()
    """In the order of the log."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Physical offsets ``[low, high)`` to be scanned, ascending; records begin at ``low``."""


def without(start: int, end: int, covered: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of ``[start, end)`` is in none of the ranges, which ascend."""
    found = []
    for low, high in covered:
        if low > start:
            found.append((start, min(low, end)))
        start = max(start, high)
    found.append((start, end))
    return [(low, high) for low, high in found if low < high]
