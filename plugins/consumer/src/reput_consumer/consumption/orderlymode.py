"""`OrderlyMode`: of each queue, messages are handed out one delivery after the other.

A message that fails keeps its queue: it comes again after a pause, and no later one before it.

Source: RocketMQ ``ConsumeMessageOrderlyService``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from reput.errors import ReputError
from reput_consumer.backend.consumerbackend import DEAD_LETTER
from reput_consumer.consumption.delivery import CONSUMED, OPEN, SETTLED, Delivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_consumer.consumption.deliveryorder import Host
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.processqueue import ProcessQueue

logger = logging.getLogger(__name__)

_EXTEND_MS: Final = 20_000
"""Age at which a lock is extended."""
_SHORTEST_MS: Final = 10
_LONGEST_MS: Final = 30_000
_LOCKS: Final = "locks"
_OPENED_COUNT: Final = 256
"""Most messages of one queue before the next queue has its turn."""
_DONE: Final = bytes([CONSUMED, SETTLED])
_KNOWN: Final = bytes([SETTLED])


class OrderlyMode:
    """See `reput_consumer.consumption.deliveryorder.DeliveryOrder`."""

    def __init__(self, engine: Host) -> None:
        self._engine = engine
        self._waiting: deque[Assignment] = deque()
        """Queues that may have messages to hand out; the one that waits longest first."""

    def add(
        self, assignment: Assignment, queue_offsets: Sequence[int], messages: Sequence[object]
    ) -> None:
        """See `DeliveryOrder.add`."""
        self._line_up(assignment)

    def _line_up(self, assignment: Assignment) -> None:
        if not assignment.is_in_line:
            assignment.is_in_line = True
            self._waiting.append(assignment)

    @property
    def may_have_more(self) -> bool:
        """See `DeliveryOrder.may_have_more`."""
        return bool(self._waiting)

    def take(self, max_count: int, now: int) -> Delivery | None:
        """See `DeliveryOrder.take`."""
        return self._hand_out(max_count, now, is_by_row=False)

    def open(self, max_count: int | None, now: int) -> Delivery | None:
        """See `DeliveryOrder.open`; nobody else gets what was opened."""
        return self._hand_out(
            _OPENED_COUNT if max_count is None else max_count, now, is_by_row=True
        )

    def _hand_out(self, max_count: int, now: int, *, is_by_row: bool) -> Delivery | None:
        for _ in range(len(self._waiting)):
            each = self._waiting.popleft()
            each.is_in_line = False
            if each.is_lost or each.is_leaving or not _has_next(each.processing):
                continue  # `settle` lines it up again
            if each.suspended_until > now or self._is_unlocked(each, now):
                self._line_up(each)
                continue
            offsets, messages = each.processing.take(max_count)
            beyond = self._beyond_goal(each, offsets)
            if beyond:
                each.processing.give_back(beyond)
                del offsets[-beyond:], messages[-beyond:]
                if not offsets:
                    continue
            if self._needs_locks:
                self._engine.timers.arm(_LOCKS, each.locked_at + _EXTEND_MS)
            rows = iter(range(len(offsets) if is_by_row else 0))
            delivery = Delivery(self._engine, each, each.processing, offsets, messages, rows)
            self._engine.in_flight.add(delivery)
            return delivery
        return None

    def _beyond_goal(self, assignment: Assignment, queue_offsets: Sequence[int]) -> int:
        """Return how many of the last messages are not wanted."""
        goal = self._engine.goal_of(assignment.queue)
        return 0 if goal is None else len(queue_offsets) - bisect_left(queue_offsets, goal)

    def recall(self, delivery: Delivery) -> None:
        """See `DeliveryOrder.recall`."""
        left = delivery.recall()
        if left and not delivery.is_stale:
            delivery.processing.give_back(left)
            delivery.shrink(left)
            self._end_if_settled(delivery)

    # ------------------------------------------------------------------ results

    def settle(self, delivery: Delivery) -> int | None:
        """See `DeliveryOrder.settle`; a message that is marked waits for those before it."""
        if delivery not in self._engine.in_flight:
            return None
        marks = delivery.marks
        end = len(marks) - len(marks.lstrip(_DONE))
        start = len(marks) - len(marks.lstrip(_KNOWN))
        if end == start:
            return None
        times = delivery.assignment.times
        for row in range(start, end) if times else ():
            times.pop(delivery.queue_offsets[row], None)
        marks[start:end] = _KNOWN * (end - start)
        delivery.messages[start:end] = [None] * (end - start)
        offset = delivery.processing.commit(end - start)
        self._end_if_settled(delivery)
        return offset

    def _end_if_settled(self, delivery: Delivery) -> None:
        if delivery.marks.count(SETTLED) == len(delivery.marks):
            self._end(delivery)

    def _end(self, delivery: Delivery) -> None:
        """Have others get messages of the queue."""
        self._engine.in_flight.discard(delivery)
        self._line_up(delivery.assignment)
        self._engine.wake()

    def retry(self, delivery: Delivery, level: int, rows: range) -> str:
        """See `DeliveryOrder.retry`: pause the queue; give up what has failed too often."""
        engine, assignment = self._engine, delivery.assignment
        most, comes_again = engine.settings.max_reconsume_times, False
        pause = min(max(engine.settings.suspend_ms, _SHORTEST_MS), _LONGEST_MS)
        outcomes = []
        for row in rows:
            message = delivery.messages[row]
            if delivery.marks[row] != OPEN:
                continue
            times = message.reconsume_times + delivery.failed_here(row)
            is_over = level < 0 or (most is not None and times >= most)
            outcome = self._give_up(message) if is_over else None
            outcomes.append(outcome or f"retry after a pause of {pause} ms")
            if outcome is not None:
                delivery.marks[row] = CONSUMED
                continue
            comes_again = True
            queue_offset = delivery.queue_offsets[row]
            with engine.lock:
                assignment.times[queue_offset] = assignment.times.get(queue_offset, 0) + 1
        engine.settle(delivery)
        if comes_again:
            self._put_back(delivery, pause)
        return outcomes[0] if outcomes else "no retry, as the message was acknowledged before"

    def _put_back(self, delivery: Delivery, pause: int) -> None:
        engine, assignment = self._engine, delivery.assignment
        with engine.lock:
            if delivery.is_stale or delivery not in engine.in_flight:
                return
            delivery.recall()
            delivery.marks[:] = _KNOWN * len(delivery)
            delivery.processing.give_back()
            engine.suspend(assignment, engine.port.clock() + pause)
            self._end(delivery)
            if assignment.is_leaving:
                engine.give_up_soon()

    def _give_up(self, message: Any) -> str | None:
        """Return what becomes of a message; None if it could not be given up."""
        settings = self._engine.settings
        if settings.broadcast:
            logger.warning("message given up group=%s message=%r", settings.group, message)
            return "no retry, as the group broadcasts"
        try:
            return self._engine.port.send_back(settings.group, message, DEAD_LETTER, None)
        except (ReputError, OSError) as error:
            logger.warning("message not given up group=%s: %s", settings.group, error)
            return None

    # ------------------------------------------------------------------ locks, timed work

    @property
    def _needs_locks(self) -> bool:
        return not self._engine.settings.broadcast

    def _is_unlocked(self, assignment: Assignment, now: int) -> bool:
        return self._needs_locks and now - assignment.locked_at >= _EXTEND_MS

    def is_held(self, assignment: Assignment) -> bool:
        """See `DeliveryOrder.is_held`: no other member may have what is being consumed."""
        return assignment.processing.has_taken

    def unlocked(self, now: int) -> list[Assignment]:
        """See `DeliveryOrder.unlocked`."""
        return [
            each
            for each in self._waiting
            if not each.is_lost and each.suspended_until <= now and self._is_unlocked(each, now)
        ]

    def work(self, now: int) -> None:
        """See `DeliveryOrder.work`: extend the locks of queues with messages being consumed."""
        engine = self._engine
        with engine.lock:
            if not engine.timers.take(_LOCKS, now):
                return
            held = {each.assignment.queue: each for each in engine.in_flight if not each.is_stale}
        if not held:
            return
        locked = engine.locked(list(held))
        with engine.lock:
            for queue, delivery in held.items():
                if queue in locked:
                    delivery.assignment.locked_at = now
                else:
                    self.recall(delivery)  # the next delivery must wait for the lock
            engine.timers.arm(_LOCKS, now + _EXTEND_MS)


def _has_next(processing: ProcessQueue[Any]) -> bool:
    return processing.has_waiting and not processing.has_taken
