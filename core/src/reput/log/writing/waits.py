"""`WaitCounts`: how long waits for the disk took, as counts by bounds.

Counting costs half a microsecond a wait, and a wait lasts at least as long as a flush of the disk.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

__all__ = ["BOUNDS", "WaitCounts"]

BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Seconds: a wait is counted at the first bound that is not below it."""


class WaitCounts:
    """Counts waits of one store since it was opened.

    Any thread may call it. Without a lock, as that would cost as much as the rest: of two waits
    that end in the same moment, one may not be counted.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one wait."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def facts(self) -> dict[str, Any]:
        """Return the number of waits, their seconds in all, and the number by bound.

        Returns:
            ``count``, ``seconds`` and ``by_seconds``: pairs of a bound and the number of waits that
            took no longer than this bound, and longer than the one before it. The last bound is
            None, for all other waits.
        """
        counts, seconds = list(self._counts), self._seconds
        by_seconds = [list(pair) for pair in zip((*BOUNDS, None), counts, strict=True)]
        return {"count": sum(counts), "seconds": seconds, "by_seconds": by_seconds}
