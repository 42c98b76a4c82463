"""`LevelDelivery`: delivers the messages of the delay levels when they are due.

A message is put under its real topic before the offset of its level moves on, and the offset is
saved when that message is on disk. Copies delivered after the last save are found in the log at
the next opening (`CopySurvey`), before anything is delivered.

Source: RocketMQ ``ScheduleMessageService.DeliverDelayedMessageTimerTask``. Different on purpose:
the deliver time is computed from the message (store time and level) and not read from its unit,
which a store without this plugin may have derived; a put that fails is tried again for ever; a
message that can never be put is skipped and counted; and after a clock was set back no message
comes too early.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_schedule.config import LEVEL_MAX, DelayLevels
from reput_schedule.delaylevels.copymatcher import CopyMatcher
from reput_schedule.delaylevels.copysurvey import CopySurvey
from reput_schedule.delaylevels.delaystate import DelayState
from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC
from reput_schedule.delaylevels.levelqueue import LevelQueue
from reput_schedule.delaylevels.parkedmessages import parked_rows
from reput_schedule.delaylevels.restoredmessage import restored
from reput_schedule.duemessages import put_storable
from reput_schedule.recordboundary import are_of_log

if TYPE_CHECKING:
    from reput.plugin import ReadResult, StoreContext
    from reput.record import DispatchBatch, Message, MessageView

logger = logging.getLogger(__name__)

_SLICE: Final = 4_096  # messages delivered by one call
_READ_FIRST, _READ_MOST = 32, 2_048  # messages of one read
_READ_SIZE: Final = 4 << 20  # bytes of one read
_WINDOWS: Final = 8  # of the log, looked at by one call
_STEPS: Final = 4  # of settling, by one call
_LOOK_AGAIN_MS: Final = 100


@attrs.define(eq=False, repr=False)
class LevelDelivery:
    """The delay levels of one store that is open for writing."""

    context: StoreContext
    levels: DelayLevels
    state: DelayState
    delivers: bool
    """Whether due messages are delivered. If false, only the next due times are found."""
    delivered: int = 0
    dropped: int = 0
    """Messages that can never be delivered: without a real topic, or refused by every store."""
    missing: int = 0
    """Places of level queues whose message the log no longer has."""
    queues: dict[int, LevelQueue] = attrs.field(factory=dict)
    _survey: CopySurvey | None = None
    _matcher: CopyMatcher | None = None
    _extent: CopySurvey | None = None  # of the whole log: how far the level queues will reach
    _knows_extent: bool = False
    _is_exact: bool = False  # whether the survey began where the offsets were saved
    _is_of_another_log: bool = False
    _is_open: bool = False
    _left: int = 0  # messages that this call may still deliver
    _last_now: int = 0
    _arrived: dict[int, int] = attrs.field(factory=dict)  # level: physical offset of the first
    _parked: dict[int, int] = attrs.field(factory=dict)  # level: queue offset after the last seen
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    # ------------------------------------------------------------------ opening

    def recover(self, max_physical_offset: int) -> None:
        """Start at the saved offsets; without saved offsets, at the beginning of the log."""
        saved = self.state.saved
        start = None if saved is None else saved.delivered_to
        offsets: Mapping[int, int] = {} if saved is None else saved.offsets
        if start is not None and not are_of_log(self.context.log, max_physical_offset, start):
            # The log was put back into an older state, or the file is another store's, so it is
            # unknown which messages the offsets count. The copies in the log tell what was
            # delivered.
            logger.warning(
                "offsets of delayed messages are of another log reputOffset=%d max=%d",
                start,
                max_physical_offset,
            )
            offsets, start, self._is_of_another_log = {}, None, True
        self._is_exact = start is not None
        for level in {*range(1, self.levels.max_level + 1), *offsets}:
            self._queue(level, offsets.get(level, 0))
        self._is_open = True
        if not self.delivers:
            return
        if start is None:
            logger.info("looking for delivered messages in all of the log")
        self._begin_survey(start or 0, max_physical_offset)

    def lower_beyond(self, queue_offsets: Mapping[tuple[str, int], int]) -> None:
        """Lower, durably, offsets that count more messages than were parked.

        A power cut may leave so what a broker has saved before it flushed its log. Messages parked
        from now on would be taken for delivered ones.

        Args:
            queue_offsets: the queue offset that the next message of each (topic, queue id) gets.
        """
        if self.state.saved is None:
            return
        if self._is_of_another_log:
            # The log grows, and the file would be believed after a crash.
            self.state.save({}, self.context.log.min_physical_offset)
            return
        beyond = self._beyond(queue_offsets)
        for level, end in beyond.items():
            logger.warning(
                "more was delivered of a delay level than was parked level=%d offset=%d max=%d",
                *(level, self.queues[level].offset, end),
            )
        if beyond and self._is_exact:
            self._forget_offsets()
        elif beyond:
            for level, end in beyond.items():
                self.queues[level].offset = end
            self.state.save(self.offsets(), None)

    def _beyond(self, queue_offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
        """Return where each level ends of which more was delivered than was parked."""
        ends = {level: queue_offsets.get((SCHEDULE_TOPIC, level - 1), 0) for level in self.queues}
        return {level: end for level, end in ends.items() if self.queues[level].offset > end}

    def _forget_offsets(self) -> None:
        """Learn from all of the log what was delivered: the saved offsets are another store's."""
        for queue in self.queues.values():
            queue.offset = 0
        self._is_exact, self._is_of_another_log = False, True
        if self._survey is not None:
            self._begin_survey(0, self._survey.end)
        self.state.save({}, self.context.log.min_physical_offset)

    def _queue(self, level: int, offset: int = 0) -> LevelQueue:
        queue = self.queues.get(level)
        if queue is None:
            queue = LevelQueue(level, self.levels.delay_ms(level), offset)
            self.queues[level] = queue
        return queue

    def _begin_survey(self, start: int, end: int) -> None:
        self._survey = CopySurvey(self.context.log, start, end)
        self._matcher = None

    # ------------------------------------------------------------------ dispatching

    def dispatch(self, batch: DispatchBatch) -> None:
        """Note which levels have new messages."""
        rows = parked_rows(batch)
        if len(rows) == 0:
            return
        levels, first = np.unique(batch.queue_id[rows] + 1, return_index=True)
        offsets = batch.physical_offset[rows[first]]
        wake = False
        with self._lock:
            for level, offset in zip(levels.tolist(), offsets.tolist(), strict=True):
                if not 1 <= level <= LEVEL_MAX:
                    continue
                end = int(batch.queue_offset[rows[batch.queue_id[rows] + 1 == level]].max()) + 1
                self._parked[level] = max(self._parked.get(level, 0), end)
                queue = self.queues.get(level)
                # A level with a known due time need not hear of later messages.
                if queue is None or queue.due is None:
                    self._arrived.setdefault(level, offset)
                    wake = True
        if wake:
            self.context.wake()

    def _take_arrived(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, {}
            for level, offset in arrived.items():
                queue = self._queue(level)
                if queue.due is None:
                    queue.forget()
                if queue.hold_offset is None:
                    queue.hold_offset = offset

    # ------------------------------------------------------------------ working

    def work(self, now: int) -> int | None:
        """Deliver what is due.

        Returns:
            When to call again, ms; None when no message waits.
        """
        if not self._is_open:
            return None
        log_end = self.context.log.max_physical_offset  # before anything is put
        self._last_now = now
        self._take_arrived()
        pause_ms, steps = self._settle(), 1
        while pause_ms == 0 and steps < _STEPS:
            pause_ms, steps = self._settle(), steps + 1
        if pause_ms is not None:
            return now + pause_ms
        self._left = _SLICE
        for queue in list(self.queues.values()):
            self._look(queue, now)
        if self.delivers:
            for queue in sorted(self.queues.values(), key=lambda each: each.due or 0):
                while self._left > 0 and queue.due is not None and queue.due <= now:
                    log_end = max(log_end, self._deliver(queue, now))
                    self._look(queue, now)
            self._note(log_end)
        return self._next_due(now)

    def _note(self, log_end: int) -> None:
        if any(queue.delivered_ahead for queue in self.queues.values()):
            return  # an offset cannot say what was delivered above it: the log still has to
        self.state.note(
            {level: queue.offset for level, queue in self.queues.items() if queue.offset},
            log_end,
        )

    def _next_due(self, now: int) -> int | None:
        if self._extent is not None and not self._knows_extent:
            return now
        queues = self.queues.values()
        times = [queue.due for queue in queues if queue.due is not None] if self.delivers else []
        if self.delivers and any(queue.is_behind for queue in queues):
            times.append(now + _LOOK_AGAIN_MS)
        return min(times, default=None)

    def clock_went_back(self, now: int) -> bool:
        """Return whether the clock shows less than at the last call of `work`."""
        return now < self._last_now

    # ------------------------------------------------------------------ reading

    def _look(self, queue: LevelQueue, now: int) -> None:
        """Find out when the next message of a level is due."""
        # No later than a message that is parked now, unless the clock was set back.
        is_in_time = queue.due is None or queue.due <= now + queue.delay_ms
        if queue.is_known and not queue.is_behind and is_in_time:
            return
        while True:
            result = self._read(queue, 1)
            if len(result) and result.queue_offsets[0] in queue.delivered_ahead:
                queue.move_to(result.queue_offsets[0])
            elif len(result) or not self._passes_over(queue, result):
                break
        queue.is_known, queue.due = True, None
        if len(result):
            self._take_head(queue, result, 0, now)
        elif not queue.is_behind:
            queue.hold_offset = None

    def _read(self, queue: LevelQueue, max_count: int) -> ReadResult:
        result = self.context.store.read(
            SCHEDULE_TOPIC, queue.level - 1, queue.offset, max_count, _READ_SIZE
        )
        self.missing += len(result.holes)
        return result

    def _take_head(self, queue: LevelQueue, result: ReadResult, row: int, now: int) -> None:
        view, place = result.messages[row], result.queue_offsets[row]
        with self._lock:
            queue.move_to(place)
            queue.hold_offset = view.physical_offset
            queue.due = queue.due_of(view, place, now, result.max_queue_offset)
            queue.is_known, queue.is_behind = True, False

    def _passes_over(self, queue: LevelQueue, result: ReadResult) -> bool:
        """Return whether a read without messages found a later place from which to read on."""
        was_behind, queue.is_behind = queue.is_behind, False
        if queue.offset == result.max_queue_offset:
            # The plugin that keeps queues may see a message later than this one: it reads on a
            # thread of its own while it is slow. Nobody would say that the message is there.
            queue.is_behind = self._parked.get(queue.level, 0) > queue.offset
            return False
        if queue.offset > result.max_queue_offset:
            self._end(queue, result.max_queue_offset, was_behind)
            return False
        if result.next_queue_offset <= queue.offset:
            return False
        logger.warning(
            "delayed messages are not in the log any more level=%d from=%d to=%d",
            queue.level,
            queue.offset,
            result.next_queue_offset,
        )
        queue.move_to(result.next_queue_offset)
        return True

    def _end(self, queue: LevelQueue, max_offset: int, was_behind: bool) -> None:
        """Handle a level whose offset lies above the end of its queue.

        Normally the queue is being rebuilt, so wait for it. If the log was put back into an older
        state or its oldest files were removed, the queue never gets there: lower the offset to the
        queue's end, or messages parked from now on would be taken for delivered ones.
        """
        queue.is_behind = True
        if not was_behind and self.delivers:
            self._extent = None  # an older survey does not know the newest messages
            self._ask_for_extent()
        elif self._knows_extent and self._extent is not None:
            reaches = max(self._extent.next_offsets.get(queue.level, 0), max_offset)
            if reaches < queue.offset:
                logger.warning(
                    "more was delivered of a delay level than was parked level=%d offset=%d max=%d",
                    queue.level,
                    queue.offset,
                    reaches,
                )
                queue.delivered_ahead.clear()
                queue.offset = reaches
                queue.is_behind = reaches > max_offset

    # ------------------------------------------------------------------ delivering

    def _deliver(self, queue: LevelQueue, now: int) -> int:
        """Deliver the due messages of one level.

        Returns:
            Physical offset after the last message put; 0 without one.
        """
        end, count = 0, _READ_FIRST
        while self._left > 0:
            result = self._read(queue, min(count, self._left))
            if not len(result):
                queue.forget()
                return end
            due = self._due_count(queue, result, now)
            wanted = [
                view
                for view, place in zip(result.messages[:due], result.queue_offsets, strict=False)
                if place not in queue.delivered_ahead
            ]
            end = max(end, self._put(_restored(wanted, self)))
            self._left -= due
            if due < len(result):
                self._take_head(queue, result, due, now)
                return end
            with self._lock:
                queue.move_to(result.next_queue_offset)
                queue.hold_offset = result.messages[-1].physical_offset + result.messages[-1].size
                queue.forget()
            count = min(2 * count, _READ_MOST)
        return end

    def _due_count(self, queue: LevelQueue, result: ReadResult, now: int) -> int:
        """Return how many messages at the start of ``result`` are due."""
        places, highest = result.queue_offsets, result.max_queue_offset
        for row, view in enumerate(result.messages):
            if places[row] in queue.delivered_ahead:
                continue
            if queue.due_of(view, places[row], now, highest) > now:
                return row
        return len(result)

    def _put(self, messages: Sequence[Message]) -> int:
        """Put messages in their order.

        Returns:
            Physical offset after the last of them; 0 without one.
        """
        start, end = self.context.log.max_physical_offset, 0
        try:
            for part, part_end in put_storable(self.context.store, messages):
                if part_end is None:
                    self.dropped += 1
                else:
                    self.delivered, end = self.delivered + len(part), part_end
        except BaseException:
            # When the disk fills up, some of the messages are stored: the log knows which.
            self._begin_survey(start, self.context.log.max_physical_offset)
            self._is_exact = True
            raise
        return end

    # ------------------------------------------------------------------ what was delivered before

    def _settle(self) -> int | None:
        """Find out how far each level was delivered, one slice per call.

        Returns:
            None when every level is known, else the pause until the next slice, ms.
        """
        if self._extent is not None and not self._knows_extent:
            self._knows_extent = self._extent.advance(_WINDOWS)
            return 0
        if self._survey is not None:
            if not self._survey.advance(_WINDOWS):
                return 0
            copies, self._survey = self._survey.copies, None
            # If the oldest files were removed, copies may be of parked messages in them.
            is_counted = self._is_exact or self.context.log.min_physical_offset == 0
            self._matcher = CopyMatcher(self.context, copies, each_once=not is_counted)
            return 0
        if self._matcher is None:
            return None
        extent = self._extent if self._knows_extent else None
        outcome = self._matcher.advance(
            self.queues, None if extent is None else extent.next_offsets
        )
        if outcome is None:
            self._ask_for_extent()
            return 0
        if not outcome:
            return self._matcher.pause_ms
        self._matcher = None
        return None

    def _ask_for_extent(self) -> None:
        if self._extent is None:
            self._extent = CopySurvey(self.context.log, 0, self.context.log.max_physical_offset)
            self._knows_extent = False

    # ------------------------------------------------------------------ telling

    def hold(self) -> int | None:
        """Return the physical offset of the oldest waiting message; None when no message waits."""
        with self._lock:
            known = [queue.hold_offset for queue in self.queues.values()]
            known += self._arrived.values()
        if not self._is_open or self._survey is not None or self._matcher is not None:
            return self.context.log.min_physical_offset
        return min((offset for offset in known if offset is not None), default=None)

    def offsets(self) -> Mapping[int, int]:
        """Return the queue offset of the next message to deliver, by level."""
        return {level: queue.offset for level, queue in list(self.queues.items())}

    def uncounted_from(self) -> int | None:
        """Return the physical offset after which copies may be that `offsets` do not count yet.

        None once all are counted, and where it is unknown which of them are.
        """
        if self._survey is None and self._matcher is None:
            return None
        return None if self.state.saved is None else self.state.saved.delivered_to


def _restored(views: Sequence[MessageView], delivery: LevelDelivery) -> list[Message]:
    """Return what to put for parked messages; a message without a real topic is only counted."""
    messages = []
    for view in views:
        try:
            message = restored(view)
        except CorruptFileError:
            message = None
        if message is None:
            delivery.dropped += 1
            logger.warning(
                "delayed message names no topic to deliver it to and is dropped physical_offset=%d",
                view.physical_offset,
            )
        else:
            messages.append(message)
    return messages
