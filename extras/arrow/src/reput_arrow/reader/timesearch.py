"""Where in a log a moment is: borders between records, near the first message from a time on.

Store times ascend with the offsets, but for clocks that were put back, by a minute at most
(`CLOCK_SLACK_MS`). A log that was written quickly is within a minute as a whole. So the part that a
clock could have touched is sampled: where no sample is older than the one before it, the clock was
not put back by more than what a few samples span, and these few are read in addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput_arrow.reader.timefiles import CLOCK_SLACK_MS

if TYPE_CHECKING:
    from reput_arrow.logs.openlog import OpenLog

_LEAST_SIZE: Final = 32 << 20
"""Bytes below which reading all is as quick as looking for a place."""
_STEP: Final = 1 << 20
_SAMPLES: Final = 192
_SPARE: Final = 4
"""Samples that are read in addition, before and after what is wanted."""
_REACH: Final = 8 << 20
"""Bytes in which a border is looked for, twice as many as a body has, unless a broker was told
otherwise."""


@attrs.frozen
class Window:
    """A part of a log to read, which may begin at a border that only looks like one."""

    start: int
    """Where reading begins: a file's first byte, or a border that was found."""
    rows_from: int
    """Physical offset of the first row: further from ``start`` than a body is long, so that no
    record in a body, at which reading could begin, becomes a row."""


def start_before(log: OpenLog, low: int, high: int, timestamp: int) -> Window:
    """Return where to begin to read for messages that were stored from ``timestamp`` on.

    Args:
        log: the log.
        low: a file's first byte; no message is before it.
        high: where the log, or its wanted part, ends.
        timestamp: ms.
    """
    if high - low < _LEAST_SIZE:
        return Window(low, low)
    times = _Times(log)
    first = times.first_from(low, high, timestamp, unknown=True)
    # The place that is found may be a step too late.
    doubtful = times.first_from(low, first, timestamp - CLOCK_SLACK_MS, unknown=True) - _STEP
    place = times.back_from(first, max(doubtful, low))
    border = None if place - _REACH <= low else times.border(place - _REACH)
    return Window(low, low) if border is None or border <= low else Window(border, place)


def end_after(log: OpenLog, low: int, high: int, timestamp: int) -> int:
    """Return a border after which no message was stored before ``timestamp``; ``high`` where none.

    Args:
        log: the log.
        low: where the wanted part begins, or a border before it.
        high: where the log ends, or a border after the last such message.
        timestamp: ms.
    """
    if high - low < _LEAST_SIZE:
        return high
    times = _Times(log)
    first = times.first_from(low, high, timestamp, unknown=False)
    doubtful = times.first_from(first, high, timestamp + CLOCK_SLACK_MS, unknown=False)
    place = times.on_from(first, doubtful)
    border = None if place >= high else times.border(place)
    return high if border is None or border >= high else border


class _Times:
    """Store times at places of a log."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log

    def border(self, offset: int) -> int | None:
        """Return the first border at ``offset`` or after it, in the same file; None where none."""
        base = self._log.files.base_of(offset)
        if base is None:
            return None
        stop = min(offset + _REACH, base + self._log.file_size)
        found = self._log.next_record(offset, stop)
        return found if found < stop else None

    def at(self, offset: int) -> int | None:
        """Return the store time of the first record from ``offset`` on; None where none is near."""
        border = self.border(offset)
        if border is None:
            return None
        found = self._log.store_timestamp_in_files(border)
        return found if found >= 0 else None

    def first_from(self, low: int, high: int, timestamp: int, *, unknown: bool) -> int:
        """Return about where messages from ``timestamp`` on begin in ``[low, high)``; not before.

        Args:
            low: where to look.
            high: up to where.
            timestamp: ms.
            unknown: whether a place near which no record is counts as one of them.
        """
        while high - low > _STEP:
            middle = (low + high) // 2
            found = self.at(middle)
            if unknown if found is None else found >= timestamp:
                high = middle
            else:
                low = middle
        return high

    def back_from(self, first: int, doubtful: int) -> int:
        """Return a place before ``first``, so far that a clock put back hides nothing before it."""
        places = self._ascending(doubtful, first)
        spare = len(places) - _SPARE
        return places[spare] if spare >= 0 else max(doubtful - _STEP, 0)

    def on_from(self, first: int, doubtful: int) -> int:
        """Return a place after ``first``, so far that a clock put back hides nothing after it."""
        places = self._ascending(first, doubtful)
        return places[_SPARE - 1] if len(places) >= _SPARE else doubtful + _STEP

    def _ascending(self, low: int, high: int) -> list[int]:
        """Return places in ``[low, high)`` whose times ascend; none where they do not."""
        step = max((high - low) // _SAMPLES, _STEP)
        places = list(range(low, high, step))
        newest = -1
        for place in places:
            found = self.at(place)
            if found is None:
                continue
            if found < newest:
                return []
            newest = found
        return places
