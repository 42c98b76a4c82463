"""Find a queue offset by store time.

Source: RocketMQ 5 ``ConsumeQueue#getOffsetInQueueByTime`` and
``MappedFileQueue#getConsumeQueueMappedFileByTime``: the lower boundary is the first message stored
at the time or later, the upper one the last stored at the time or earlier. (4.8 chose the file by
its modification time and took the nearer neighbour.)

Different on purpose: RocketMQ halves as if times ascended, and finds anything if a clock was set
back. Here each part of the log in which they ascend (`reput.log.TimeRun`) is searched by itself.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reput_consumequeue.layout import PRE_BLANK_SIZE

if TYPE_CHECKING:
    from reput.log import LogView, TimeRun
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

LOWER = "lower"


def offset_by_time(
    queue: ConsumeQueue,
    log: LogView,
    timestamp: int,
    boundary: str,
    runs: Sequence[TimeRun] = (),
) -> int:
    """See `reput.plugin.hookspecs.reput_offset_by_time`."""
    if len(runs) > 1:
        return _by_runs(queue, log, timestamp, boundary, runs)
    low, high = queue.min_offset, queue.max_offset
    base = _file_by_time(queue, log, timestamp, boundary)
    if base is None:
        return min(low, high)
    first = max(low, base)
    last = min(base + queue.files.per_file, high) - 1
    if last < first:
        return min(max(base, low), high)
    last_time, first_time = _time_of(queue, log, last), _time_of(queue, log, first)
    if last_time < timestamp:
        found = last + 1 if boundary == LOWER else last
    elif first_time > timestamp:
        found = base if boundary == LOWER else 0
    else:
        found = _halve(queue, log, timestamp, boundary, first, last)
    return min(max(found, low), high)


def _by_runs(
    queue: ConsumeQueue, log: LogView, timestamp: int, boundary: str, runs: Sequence[TimeRun]
) -> int:
    """Do the same in a log whose store times go back: search the runs that may have the time."""
    low, high = queue.min_offset, queue.max_offset
    is_lower = boundary == LOWER
    numbers = range(len(runs)) if is_lower else reversed(range(len(runs)))
    for number in numbers:
        run = runs[number]
        if is_lower and run.highest is not None and run.highest < timestamp:
            continue
        if not is_lower and run.lowest > timestamp:
            continue
        first = _unit_at(queue, run.start_offset, low, high)
        last = high - 1
        if number + 1 < len(runs):
            last = _unit_at(queue, runs[number + 1].start_offset, first, high) - 1
        search = _halve if run.is_sorted else _look
        found = search(queue, log, timestamp, boundary, first, last)
        if first <= found <= last:
            return found
    return high if is_lower else min(low, high)


def _unit_at(queue: ConsumeQueue, physical_offset: int, first: int, stop: int) -> int:
    """Return the first unit in ``[first, stop)`` of a message at an offset or later, else stop."""
    if physical_offset <= 0:
        return first
    # Units ascend with the log; that of a lost message has the place of the next one.
    return bisect.bisect_left(
        range(stop), physical_offset, first, stop, key=lambda unit: _offset_of(queue, unit)
    )


def _offset_of(queue: ConsumeQueue, unit: int) -> int:
    place = queue.files.read_place(unit)
    return -1 if place is None or place[1] == PRE_BLANK_SIZE else place[0]


def _look(
    queue: ConsumeQueue, log: LogView, timestamp: int, boundary: str, first: int, last: int
) -> int:
    """Do as `_halve`, but in units whose times do not ascend."""
    if boundary == LOWER:
        found = (unit for unit in range(first, last + 1) if _time_of(queue, log, unit) >= timestamp)
        return next(found, last + 1)
    for unit in range(last, first - 1, -1):
        if 0 <= _time_of(queue, log, unit) <= timestamp:
            return unit
    return first - 1


def _halve(
    queue: ConsumeQueue, log: LogView, timestamp: int, boundary: str, first: int, last: int
) -> int:
    """Return the first unit at ``timestamp`` or later (lower), or the last until then (upper)."""
    below, above = first - 1, last + 1  # unit below is too early, unit above is not
    while above - below > 1:
        middle = (below + above) // 2
        time = _time_of(queue, log, middle)
        early = time < timestamp if boundary == LOWER else time <= timestamp
        if early:
            below = middle
        else:
            above = middle
    return above if boundary == LOWER else below


def _file_by_time(queue: ConsumeQueue, log: LogView, timestamp: int, boundary: str) -> int | None:
    """Return the first unit of the file to search; None if no file can have it."""
    bases = queue.files.bases
    if not bases:
        return None
    # By halving, as times ascend; a missing message has no time, which counts as early.
    last_of = queue.files.per_file - 1
    if boundary == LOWER:
        closed = bases[:-1]
        at = bisect.bisect_left(
            closed, timestamp, key=lambda base: _time_of(queue, log, base + last_of)
        )
        return bases[at]
    begun = bases[: bisect.bisect_left(bases, queue.max_offset)]  # the last may have no units yet
    low = queue.min_offset
    at = bisect.bisect_right(
        begun, timestamp, key=lambda base: _time_of(queue, log, max(base, low))
    )
    return begun[at - 1] if at else None


def _time_of(queue: ConsumeQueue, log: LogView, unit: int) -> int:
    """Return the store time of the message that ``unit`` points to, ms; -1 without a message."""
    place = queue.files.read_place(unit)
    if place is None or place[1] == PRE_BLANK_SIZE or place[0] < log.min_physical_offset:
        return -1
    return log.store_timestamp_at(place[0])
