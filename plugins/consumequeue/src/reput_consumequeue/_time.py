"""Queue offset by store time.

Source: RocketMQ 5 ``ConsumeQueue#getOffsetInQueueByTime`` and
``MappedFileQueue#getConsumeQueueMappedFileByTime``: the lower boundary is the first message stored
at the time or later, the upper one the last stored at the time or earlier. (4.8 chose the file by
its modification time and took the nearer neighbour.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.context import LogReader
    from reput_consumequeue._queue import ConsumeQueue

__all__ = ["offset_by_time"]

LOWER = "lower"


def offset_by_time(queue: ConsumeQueue, log: LogReader, timestamp: int, boundary: str) -> int:
    """See `reput.hookspecs.reput_offset_by_time`."""
    low, high = queue.min_offset, queue.max_offset
    base = _file_by_time(queue, log, timestamp, boundary)
    if base is None:
        return 0
    first = max(low, base)
    last = min(base + queue.files.units_per_file, high) - 1
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


def _halve(
    queue: ConsumeQueue, log: LogReader, timestamp: int, boundary: str, first: int, last: int
) -> int:
    """First unit at ``timestamp`` or later (lower), or last one until then (upper)."""
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


def _file_by_time(queue: ConsumeQueue, log: LogReader, timestamp: int, boundary: str) -> int | None:
    """First unit of the file to look into; None when there is none."""
    bases = queue.files.bases
    if not bases:
        return None
    per_file = queue.files.units_per_file
    if boundary == LOWER:
        for base in bases[:-1]:
            if _time_of(queue, log, base + per_file - 1) >= timestamp:
                return base
        return bases[-1]
    for base in reversed(bases):
        if base >= queue.max_offset:
            continue  # made, and nothing that may be read is in it yet
        # A first unit whose message is gone has no time, which counts as early enough.
        if _time_of(queue, log, max(base, queue.min_offset)) <= timestamp:
            return base
    return None


def _time_of(queue: ConsumeQueue, log: LogReader, unit: int) -> int:
    """Store time of the message that ``unit`` points to, ms; -1 where there is none."""
    units = queue.files.read(unit, 1)
    if len(units) == 0:
        return -1
    offset = int(units["physical_offset"][0])
    return log.store_timestamp_at(offset) if offset >= log.min_physical_offset else -1
