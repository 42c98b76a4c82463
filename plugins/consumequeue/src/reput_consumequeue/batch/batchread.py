"""Read one batch queue: units, the records that they lead to, and the messages of these records.

Statuses and next offsets are those of plain queues (`reput_consumequeue.reader.queueread`), as are
holes. Source: RocketMQ ``DefaultMessageStore#getMessage`` and ``BatchConsumeQueue``. Different on
purpose: a read begins and ends between two messages of an inner batch if it must, and a filter sees
each message. RocketMQ returns whole batches, which its clients unwrap, and its filter by tags sees
only the tags of a batch, which has none.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.plugin import MissingMessage, ReadResult
from reput.record import unwrapped
from reput.status import ReadStatus

if TYPE_CHECKING:
    from reput.log import LogView
    from reput.record import MessageView
    from reput_consumequeue.batch.batchqueue import BatchQueue

_UNITS_MAX: Final = 800  # that one read looks at
_LOWER: Final = "lower"


def read_batches(
    queue: BatchQueue,
    log: LogView,
    queue_offset: int,
    max_count: int,
    max_bytes: int,
    matches: Callable[[MessageView], bool] | None,
) -> ReadResult:
    """Answer `reput_read` for one queue; ``matches`` selects messages, None all of them."""
    low, high = queue.extent
    if high == 0:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if queue_offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    if queue_offset > high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    found: list[MessageView] = []
    places: list[int] = []
    holes: list[MissingMessage] = []
    at, total, left, is_removed = queue_offset, 0, _UNITS_MAX, False
    for units in queue.units(queue.unit_of(queue_offset)):
        for physical_offset, size, _, _, base, count, _, _ in units[:left].tolist():
            if base > at:
                holes.append(MissingMessage(at, physical_offset, 0, "no unit of the queue has it"))
                at = base
            if base + count <= at:
                continue
            message = log.read_message(physical_offset, size)
            reason = _fault(queue, message)
            if message is None or reason:
                is_removed = True
                if physical_offset >= log.min_physical_offset:
                    holes.append(MissingMessage(at, physical_offset, size, reason))
                at = base + count
                continue
            for place, each in enumerate(unwrapped(message), base):
                if place < at:
                    continue
                if matches is not None and not matches(each):
                    at = place + 1
                    continue
                if len(found) >= max_count or (found and total + each.size > max_bytes):
                    return _answer(queue, found, places, holes, at)
                found.append(each)
                places.append(place)
                total, at = total + each.size, place + 1
            at = max(at, base + count)
        left -= len(units)
        if left <= 0 or len(found) >= max_count:
            break
    if found:
        return _answer(queue, found, places, holes, at)
    status = ReadStatus.MESSAGE_WAS_REMOVING if is_removed else ReadStatus.NO_MATCHED_MESSAGE
    return ReadResult(status, at, low, high, holes=tuple(holes))


def _answer(
    queue: BatchQueue,
    found: list[MessageView],
    places: list[int],
    holes: list[MissingMessage],
    at: int,
) -> ReadResult:
    low, high = queue.extent
    return ReadResult(ReadStatus.FOUND, at, low, high, tuple(found), tuple(places), tuple(holes))


def _fault(queue: BatchQueue, message: MessageView | None) -> str:
    """Return why a record is not one of the queue; empty if it is."""
    if message is None:
        return "no whole record of that size stands there"
    if (message.topic, message.queue_id) != (queue.topic, queue.queue_id):
        return f"the record is one of {message.topic}/{message.queue_id}"
    return "" if message.body_matches() else "checksum and body differ"


def batch_offset_by_time(
    queue: BatchQueue, timestamp: int, boundary: str, *, is_sorted: bool
) -> int:
    """See `reput.plugin.hookspecs.reput_offset_by_time`; units have the store times.

    Args:
        queue: the queue to search.
        timestamp: store time, ms.
        boundary: as for the hook.
        is_sorted: whether store times ascend; else all units are looked at.
    """
    low, high = queue.min_offset, queue.max_offset
    is_lower = boundary == _LOWER
    if is_sorted:
        side = bisect.bisect_left if is_lower else bisect.bisect_right
        unit = side(range(high), timestamp, low, high, key=lambda each: _time_of(queue, each))
        unit -= not is_lower
    else:
        unit, at = high if is_lower else low - 1, low
        for units in queue.units(low):
            times = units["store_timestamp"].astype(np.int64)
            rows = np.flatnonzero(times >= timestamp if is_lower else times <= timestamp)
            if len(rows):
                unit = at + int(rows[0 if is_lower else -1])
                if is_lower:
                    break
            at += len(units)
    if unit < low:
        return queue.extent[0]
    return queue.offset_of(unit) if is_lower else queue.offset_of(unit + 1) - 1


def _time_of(queue: BatchQueue, unit: int) -> int:
    units = queue.files.read(unit, 1)
    return int(units[0]["store_timestamp"]) if len(units) else -1
