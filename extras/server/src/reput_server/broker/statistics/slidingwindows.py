"""`SlidingWindows`: the counts of the last minute, hour and day.

A count of the minute has slices of ten seconds, one of the hour of ten minutes, one of the day of
an hour; the oldest slice goes as a whole. So a window reaches back by its length less one slice,
and by as much of a slice as has passed: a sum never has more than its name says.

Source: RocketMQ ``StatsItem``, which samples at the end of each slice what this counts at once.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

SLICE_MS: Final = 10_000
_RINGS: Final = ((10_000, 6), (600_000, 6), (3_600_000, 24))
"""Length of a slice, ms, and slices: minute, hour, day."""
_SLOTS: Final = sum(count for _, count in _RINGS)


class WindowSum(NamedTuple):
    """What one window has."""

    sum: int
    rate: float
    """A second (``tps``); of something new, over its age, one slice at least."""
    mean: float
    """By how often something was counted (``avgpt``)."""


class SlidingWindows:
    """Counts of one thing. Not thread-safe; times are ms of a clock that never goes back."""

    __slots__ = ("_lasts", "_slice", "_sums", "_sums_now", "_times", "_times_now", "since", "total")

    def __init__(self, now: int) -> None:
        self.since = now
        """When counting began."""
        self.total = 0
        """All that was ever counted."""
        self._slice = now // SLICE_MS
        self._sums_now = self._times_now = 0  # of the slice that is not over
        self._sums = array("q", bytes(8 * _SLOTS))
        self._times = array("q", bytes(8 * _SLOTS))
        self._lasts = [now // length for length, _ in _RINGS]

    def add(self, value: int, times: int, now: int) -> None:
        """Count ``value``, which came in ``times`` parts."""
        if now // SLICE_MS > self._slice:
            self._turn(now)
        self.total += value
        self._sums_now += value
        self._times_now += times

    def data(self, now: int) -> tuple[WindowSum, WindowSum, WindowSum]:
        """Return minute, hour and day."""
        self._turn(now)
        found = []
        at = 0
        for length, count in _RINGS:
            total, times = sum(self._sums[at : at + count]), sum(self._times[at : at + count])
            at += count
            span = max(min((count - 1) * length + now % length, now - self.since), length)
            mean = total / times if times else 0.0
            found.append(WindowSum(total, total * 1000 / span, mean))
        return found[0], found[1], found[2]

    def _turn(self, now: int) -> None:
        """Take what the slice has into the windows, and begin the one of ``now``."""
        self._advance(self._slice * SLICE_MS)
        at = 0
        for (_, count), last in zip(_RINGS, self._lasts, strict=True):
            slot = at + last % count
            at += count
            self._sums[slot] += self._sums_now
            self._times[slot] += self._times_now
        self._sums_now = self._times_now = 0
        self._slice = max(self._slice, now // SLICE_MS)
        self._advance(now)

    def _advance(self, now: int) -> None:
        """Clear the slices between the last one and that of ``now``."""
        at = 0
        for ring, (length, count) in enumerate(_RINGS):
            number, last = now // length, self._lasts[ring]
            for passed in range(last + 1, min(number, last + count) + 1):
                self._sums[at + passed % count] = self._times[at + passed % count] = 0
            self._lasts[ring] = max(last, number)
            at += count
