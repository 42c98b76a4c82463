"""`InOrder`: of each queue, messages are handed out one delivery after the other.

A message that fails keeps its queue: it comes again after a pause, and no later one before it.

Source: RocketMQ ``ConsumeMessageOrderlyService``.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from reput.errors import ReputError
from reput_consumer.consuming.delivery import Delivery
from reput_consumer.port.port import DEAD_LETTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput_consumer.consuming.line import Host
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.processing.processqueue import ProcessQueue

logger = logging.getLogger(__name__)

__all__ = ["InOrder"]

_EXTEND_MS: Final = 20_000
"""Age at which a lock is extended."""
_SHORTEST_MS: Final = 10
_LONGEST_MS: Final = 30_000
_LOCKS: Final = "locks"


class InOrder:
    """See `reput_consumer.consuming.line.Line`."""

    def __init__(self, engine: Host) -> None:
        self._engine = engine
        self._waiting: deque[Assignment] = deque()
        """Queues that may have messages to hand out; the one that waits longest first."""

    def add(
        self, assignment: Assignment, queue_offsets: Sequence[int], messages: Sequence[object]
    ) -> None:
        """See `Line.add`."""
        self._line_up(assignment)

    def _line_up(self, assignment: Assignment) -> None:
        if assignment not in self._waiting:
            self._waiting.append(assignment)

    def next(self, max_count: int, now: int) -> Delivery | None:
        """See `Line.next`."""
        for _ in range(len(self._waiting)):
            each = self._waiting.popleft()
            if each.is_lost or each.is_leaving or not _has_next(each.processing):
                continue  # `finish` lines it up again
            self._waiting.append(each)
            if each.suspended_until > now or self._is_unlocked(each, now):
                continue
            self._waiting.pop()
            found = each.processing.take(max_count)
            offsets, messages = zip(*found, strict=True)
            if self._needs_locks:
                self._engine.timers.arm(_LOCKS, each.locked_at + _EXTEND_MS)
            return Delivery(each, each.processing, offsets, messages)
        return None

    def finish(self, delivery: Delivery) -> int | None:
        """See `Line.finish`."""
        assignment = delivery.assignment
        for queue_offset in delivery.queue_offsets:
            assignment.times.pop(queue_offset, None)
        offset = delivery.processing.commit()
        self._line_up(assignment)
        self._engine.wake()
        return offset

    def settle_failed(self, delivery: Delivery, level: int) -> None:
        """See `Line.settle_failed`: pause the queue; give up what has failed too often."""
        engine, assignment = self._engine, delivery.assignment
        most, comes_again = engine.settings.max_reconsume_times, False
        for row, queue_offset in enumerate(delivery.queue_offsets):
            is_given_up = level < 0 or (most is not None and delivery.times_of(row) >= most)
            if not (is_given_up and self._give_up(delivery.messages[row])):
                comes_again = True
                with engine.lock:
                    assignment.times[queue_offset] = assignment.times.get(queue_offset, 0) + 1
        if not comes_again or delivery.is_stale:
            engine.finish(delivery)
            return
        pause = min(max(engine.settings.suspend_ms, _SHORTEST_MS), _LONGEST_MS)
        with engine.lock:
            delivery.processing.give_back()
            engine.suspend(assignment, engine.port.clock() + pause)
            self._line_up(assignment)
            if assignment.is_leaving:
                engine.give_up_soon()

    def _give_up(self, message: object) -> bool:
        settings = self._engine.settings
        if settings.broadcast:
            logger.warning("message given up group=%s message=%r", settings.group, message)
            return True
        try:
            self._engine.port.send_back(settings.group, message, DEAD_LETTER, None)  # type: ignore[arg-type]
        except (ReputError, OSError) as error:
            logger.warning("message not given up group=%s: %s", settings.group, error)
            return False
        return True

    @property
    def _needs_locks(self) -> bool:
        return not self._engine.settings.broadcast

    def _is_unlocked(self, assignment: Assignment, now: int) -> bool:
        return self._needs_locks and now - assignment.locked_at >= _EXTEND_MS

    def is_held(self, assignment: Assignment) -> bool:
        """See `Line.is_held`: while a message is being consumed, no other member may have it."""
        return assignment.processing.has_taken

    def unlocked(self, now: int) -> list[Assignment]:
        """See `Line.unlocked`."""
        return [
            each
            for each in self._waiting
            if not each.is_lost and each.suspended_until <= now and self._is_unlocked(each, now)
        ]

    def gone(self, assignments: Iterable[Assignment]) -> None:
        """See `Line.gone`; `next` passes over queues that are lost."""

    def work(self, now: int) -> None:
        """See `Line.work`: extend the locks of queues whose messages are being consumed."""
        engine = self._engine
        with engine.lock:
            if not engine.timers.take(_LOCKS, now):
                return
            held = [each for each in engine.assignments.values() if each.processing.has_taken]
        if not held:
            return
        settings = engine.settings
        locked = engine.port.lock(settings.group, settings.member, [each.queue for each in held])
        with engine.lock:
            for each in held:
                if each.queue in locked:
                    each.locked_at = now
            engine.timers.arm(_LOCKS, now + _EXTEND_MS)


def _has_next(processing: ProcessQueue[Any]) -> bool:
    return processing.has_waiting and not processing.has_taken
