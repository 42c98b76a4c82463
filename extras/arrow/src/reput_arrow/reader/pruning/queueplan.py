"""Plan a read of queues by their units.

Queue offsets have no gaps, so units ``[first, stop)`` are all of a queue between two places. What
they do not reach is scanned: the log before the oldest unit, where messages before it are wanted
and may be there, and the log after the place up to which the units are known to be complete. That
is the plugin's progress in a reput store; in a broker's store nothing says so, and the newest unit
is the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_arrow.reader.pruning.derivedfiles import DoubtError
from reput_arrow.reader.pruning.prunedread import Pruned, QueueRange, QueueRanges
from reput_arrow.reader.pruning.queueunits import QueueUnits, check_units, queue_ids_of

if TYPE_CHECKING:
    from reput_arrow.logs.openlog import OpenLog
    from reput_arrow.reader.pruning.derivedfiles import DerivedFiles
    from reput_arrow.reader.selection import Selection

PLUGIN: Final = "consumequeue"
SCAN_FROM: Final = 8
"""A scan of all bytes is cheaper than reading one record of so many by its place."""
_PART_SIZE: Final = 64 << 20  # bytes of records of one part, about
_SAMPLE: Final = 64  # units at each end of a range, for the mean size of its records
_QUEUES_MAX: Final = 10_000
_PART_MAX: Final = 4_096


@attrs.define(eq=False)
class _Queue:
    """One queue, and what is wanted of it."""

    topic: str
    queue_id: int
    units: QueueUnits
    first: int
    stop: int
    """Queue offset after the last unit wanted."""
    low: int = 0
    """Physical offset below which the units do not answer."""
    high: int = 1 << 63
    """Physical offset from which on they do not."""


def plan_queues(
    log: OpenLog, beside: DerivedFiles, options: Selection, start: int, end: int
) -> Pruned | None:
    """Plan a read of topics and queues in ``[start, end)``.

    Returns:
        The plan; None where scanning all of it is as quick.

    Raises:
        DoubtError: the queues cannot answer.
    """
    vouched = beside.vouched(PLUGIN, log)
    queues = _queues(log, beside, options, vouched)
    low = max([start, *(each.low for each in queues)])
    high = min([end, *(each.high for each in queues)])
    if low >= high:
        return None
    for each in queues:
        _limit(each, low, high)
    filled = [each for each in queues if each.first < each.stop]
    size = sum(_size(each) for each in filled)
    ranges = [(start, min(low, end)), (max(high, start), end)]
    if not filled:
        return Pruned((), tuple(each for each in ranges if each[0] < each[1]))
    begin = min(_checked(log, each, each.first)[0] for each in filled)
    stop = max(_checked(log, each, each.stop - 1)[1] for each in filled)
    if size * SCAN_FROM > stop - begin:
        if begin - start + end - stop < (end - start) // SCAN_FROM:
            return None
        ranges.append((begin, stop))
        return Pruned((), _merged(ranges))
    count = min(max(size // _PART_SIZE, 1), _PART_MAX)
    return Pruned(tuple(_parts(filled, begin, stop, count, low, high)), _merged(ranges))


def _queues(
    log: OpenLog, beside: DerivedFiles, options: Selection, vouched: int | None
) -> list[_Queue]:
    reaches = beside.reaches()
    names = []
    for topic in sorted(options.topics or ()):
        queue_ids = options.queue_ids
        if queue_ids is None:
            noted = {number for name, number in reaches if name == topic}
            if vouched is None or not noted:
                raise DoubtError(f"nothing says which queues {topic} has")
            queue_ids = frozenset(noted | queue_ids_of(beside, topic))
        names += [(topic, queue_id) for queue_id in sorted(queue_ids)]
    if len(names) > _QUEUES_MAX:
        raise DoubtError(f"{len(names)} queues")
    found = []
    for topic, queue_id in names:
        units = QueueUnits(beside, topic, queue_id)
        reach = reaches.get((topic, queue_id))
        is_whole = reach is not None and reach.max_offset <= units.stop and not units.is_cut_off
        found.append(_queue(log, options, topic, queue_id, units, vouched if is_whole else None))
    return found


def _queue(
    log: OpenLog,
    options: Selection,
    topic: str,
    queue_id: int,
    units: QueueUnits,
    vouched: int | None,
) -> _Queue:
    """Say what is wanted of one queue, and in which part of the log its units answer."""
    oldest = units.first_at(log.min_physical_offset)
    wanted, limit = options.min_queue_offset or 0, options.max_queue_offset
    stop = units.stop if limit is None else min(limit, units.stop)
    found = _Queue(topic, queue_id, units, max(wanted, oldest), stop)
    if wanted < oldest == units.first < units.stop:
        # No unit tells that the messages before it are gone.
        found.low = _checked(log, found, oldest)[0]
    if limit is None or limit > units.stop:
        high = vouched or 0
        if oldest < units.stop:
            high = max(high, _checked(log, found, units.stop - 1)[1])
        found.high = high
    return found


def _checked(log: OpenLog, queue: _Queue, queue_offset: int) -> tuple[int, int]:
    """Return where the record of a unit begins and ends.

    Raises:
        DoubtError: no such record is there.
    """
    place, size = queue.units.place(queue_offset)
    message = log.read_message(place, size)
    if message is None or (message.topic, message.queue_id, message.queue_offset) != (
        queue.topic,
        queue.queue_id,
        queue_offset,
    ):
        raise DoubtError(f"unit {queue_offset} of {queue.units.name} leads to another record")
    return place, place + size


def _limit(queue: _Queue, low: int, high: int) -> None:
    """Leave out units of what stands outside of ``[low, high)``."""
    if queue.first < queue.stop:
        queue.first = max(queue.first, queue.units.first_at(low))
        queue.stop = min(queue.stop, queue.units.first_at(high))


def _size(queue: _Queue) -> int:
    """Return the bytes of the records wanted of a queue, about."""
    count = queue.stop - queue.first
    ends = [
        queue.units.read(queue.first, min(queue.first + _SAMPLE, queue.stop)),
        queue.units.read(max(queue.stop - _SAMPLE, queue.first), queue.stop),
    ]
    for units in ends:
        check_units(units)
    return int(count * np.mean(np.concatenate([units["size"] for units in ends])))


def _parts(
    queues: list[_Queue], begin: int, stop: int, count: int, low: int, high: int
) -> list[QueueRanges]:
    """Divide queues into parts that stand one after another in the log.

    Each part begins, in each queue, at the queue offset at which the one before it ends: so no
    message is in none, whatever the units say.
    """
    borders = [begin + (stop - begin) * number // count for number in range(1, count)]
    cuts = [
        [
            each.first,
            *(min(max(each.units.first_at(at), each.first), each.stop) for at in borders),
            each.stop,
        ]
        for each in queues
    ]
    for queue_cuts in cuts:
        queue_cuts.sort()
    found = []
    for number in range(count):
        ranges = tuple(
            QueueRange(each.topic, each.queue_id, queue_cuts[number], queue_cuts[number + 1])
            for each, queue_cuts in zip(queues, cuts, strict=True)
            if queue_cuts[number] < queue_cuts[number + 1]
        )
        if ranges:
            at = begin + (stop - begin) * number // count
            found.append(QueueRanges(ranges, low, high, at))
    return found


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges that ascend and do not touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(each for each in ranges if each[0] < each[1]):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)
