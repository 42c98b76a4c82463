"""`Scheduled`: what waits to be delivered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import NoReaderError
from reput.plugin import QueueInfo
from reput_schedule.api.uncountedcopies import LONGEST, BehindMessage, UncountedCopies
from reput_schedule.config import LEVEL_MAX, DelayLevels
from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC
from reput_schedule.delaylevels.parkedmessages import parked_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput.plugin import StoreContext

    Integers = npt.NDArray[np.int64]


@attrs.frozen
class PendingLevel:
    """What waits at one delay level of a store."""

    level: int
    delay_ms: int
    next_queue_offset: int
    """Queue offset in ``SCHEDULE_TOPIC_XXXX`` of the message that is delivered next."""
    message_count: int
    next_timestamp: int | None
    """When the next message is due, ms."""
    last_timestamp: int | None
    """When the last message is due, ms."""


@attrs.frozen(eq=False)
class Scheduled:
    """What waits in a store, by delay level and by time."""

    levels: tuple[PendingLevel, ...]
    """The levels at which messages wait."""
    times: Integers
    """``(n,)`` ms, ascending: when timed messages are delivered, or carried on to be delivered
    later."""
    counts: Integers
    """``(n,)``: how many messages at each of `times`."""
    uncounted_size: int = 0
    """Bytes of the log in which messages of delay levels were not counted, because their queues are
    being rebuilt and that part is too long to be read for an answer; 0 if all were counted."""

    @property
    def message_count(self) -> int:
        """How many messages wait in all."""
        return sum(each.message_count for each in self.levels) + int(self.counts.sum())

    @property
    def next_timestamp(self) -> int | None:
        """When the next message is due, ms; None when nothing waits."""
        times = [each.next_timestamp for each in self.levels if each.next_timestamp is not None]
        if len(self.times):
            times.append(int(self.times[0]))
        return min(times, default=None)


def scheduled(
    context: StoreContext,
    levels: DelayLevels,
    offsets: Mapping[int, int],
    timed: tuple[Integers, Integers],
    dispatched_to: int,
    delivered_to: int | None,
) -> Scheduled:
    """Read both ends of what waits in each level's queue, and the log after them.

    Args:
        context: of the store.
        levels: delays of the levels.
        offsets: queue offset of the next message to deliver, by level.
        timed: delivery times and message counts, as `Timer.pending` returns them.
        dispatched_to: physical offset below which every parked message is in its queue.
        delivered_to: physical offset after which the log may have copies of messages that
            ``offsets`` do not count; None where they count all.
    """
    try:
        queues = context.store.queues()
    except NoReaderError:
        queues = []
    # The queues before the log: a message that comes into a queue meanwhile is counted once.
    extents = {
        queue.queue_id + 1: queue
        for queue in queues
        if queue.topic == SCHEDULE_TOPIC and queue.queue_id < LEVEL_MAX
    }
    start = max(dispatched_to, context.log.min_physical_offset)
    unseen = max(context.log.max_physical_offset - start, 0)
    if unseen > LONGEST:
        behind = {}
    else:
        behind, unseen = _parked_behind(context.log, start), 0
    delivered = UncountedCopies(context, delivered_to)
    found = []
    for level in sorted({*extents, *behind}):
        queue = extents.get(level) or QueueInfo(SCHEDULE_TOPIC, level - 1, 0, 0, None)
        more = behind.get(level, {})
        each = _pending(context, levels, queue, offsets.get(level, 0), more, delivered)
        if each is not None:
            found.append(each)
    return Scheduled(tuple(found), *timed, uncounted_size=unseen)


def _pending(
    context: StoreContext,
    levels: DelayLevels,
    queue: QueueInfo,
    offset: int,
    behind: Mapping[int, BehindMessage],
    delivered: UncountedCopies,
) -> PendingLevel | None:
    level, last = queue.queue_id + 1, queue.max_queue_offset - 1
    more = {place: stored for place, stored in behind.items() if place > last}
    if more:
        if last < queue.min_queue_offset:
            offset = max(offset, min(more))  # messages before it are not in the log
        last = max(more)
    offset = max(offset, queue.min_queue_offset)
    if offset > last:
        return None
    delay = levels.delay_ms(level)

    def due(place: int) -> int | None:
        if place in more:
            return more[place].store_timestamp + delay
        result = context.store.read(SCHEDULE_TOPIC, queue.queue_id, place, 1)
        return result.messages[0].store_timestamp + delay if len(result) else None

    next_due = due(offset)
    count = last + 1 - offset
    if next_due is None or next_due <= context.clock():
        places = delivered.places(level, offset, last, more)
        if places:
            waiting = [place for place in range(offset, last + 1) if place not in places]
            if not waiting:
                return None
            offset, last, count = waiting[0], waiting[-1], len(waiting)
            next_due = due(offset)
    return PendingLevel(level, delay, offset, count, next_due, due(last))


def _parked_behind(log: LogView, start: int) -> dict[int, dict[int, BehindMessage]]:
    """Find the parked messages at the log's end, from a physical offset on.

    A message waits as soon as it is in the log, and is in its queue after its dispatch; a kill may
    come in between, and readers dispatch nothing.

    Returns:
        By level: the message, by queue offset.
    """
    found: dict[int, dict[int, BehindMessage]] = {}
    if start >= log.max_physical_offset:
        return found
    for batch in log.scan(start):
        if len(batch) == 0:
            continue
        rows = parked_rows(batch)
        for queue_id, place, stored, offset in zip(
            batch.queue_id[rows].tolist(),
            batch.queue_offset[rows].tolist(),
            batch.store_timestamp[rows].tolist(),
            batch.physical_offset[rows].tolist(),
            strict=True,
        ):
            if 0 <= queue_id < LEVEL_MAX:
                found.setdefault(queue_id + 1, {})[place] = BehindMessage(stored, offset)
    return found
