"""`ConcurrentMode`: messages of one queue may be handed out to several threads at once.

A message that fails is sent back, and comes again through the group's retry topic.

Source: RocketMQ ``ConsumeMessageConcurrentlyService``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reput.errors import ReputError
from reput_consumer.consumption.delivery import CONSUMED, OPEN, SETTLED, Delivery
from reput_consumer.consumption.expiry import EXPIRE, overdue

if TYPE_CHECKING:
    from reput_consumer.consumption.deliveryorder import Host
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.processqueue import ProcessQueue

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 5_000
_EXPIRED_LEVEL: Final = 3
_EXPIRED_AT_ONCE: Final = 16
_AGAIN: Final = "again"
_DONE: Final = "no retry, as the message was acknowledged or sent back before"


class _Fetched(NamedTuple):
    """Messages that wait to be handed out: those from ``start`` on."""

    assignment: Assignment
    processing: ProcessQueue[Any]
    queue_offsets: Sequence[int]
    messages: Sequence[Any]
    start: int


class ConcurrentMode:
    """See `reput_consumer.consumption.deliveryorder.DeliveryOrder`."""

    def __init__(self, engine: Host) -> None:
        self._engine = engine
        self._fetched: deque[_Fetched] = deque()
        self._opened: Delivery | None = None
        """The delivery that threads share, while rows of it are left."""
        self._again: list[tuple[int, _Fetched]] = []
        """Messages that could not be sent back, and when they are handed out again, ms."""

    def add(
        self, assignment: Assignment, queue_offsets: Sequence[int], messages: Sequence[object]
    ) -> None:
        """See `DeliveryOrder.add`."""
        fetched = _Fetched(assignment, assignment.processing, queue_offsets, messages, 0)
        self._fetched.append(fetched)

    @property
    def may_have_more(self) -> bool:
        """See `DeliveryOrder.may_have_more`."""
        opened = self._opened
        return bool(self._fetched) or (opened is not None and opened.unhanded_count > 1)

    def take(self, max_count: int, now: int) -> Delivery | None:
        """See `DeliveryOrder.take`."""
        if self._opened is not None:
            self.recall(self._opened)
            self._opened = None
        return self._hand_out(max_count, now, is_shared=False)

    def open(self, max_count: int | None, now: int) -> Delivery | None:
        """See `DeliveryOrder.open`."""
        if self._opened is None or not self._opened.unhanded_count:
            self._opened = self._hand_out(max_count, now, is_shared=True)
        return self._opened

    def _hand_out(self, max_count: int | None, now: int, *, is_shared: bool) -> Delivery | None:
        fetched, engine = self._fetched, self._engine
        while fetched:
            each = fetched.popleft()
            assignment, processing, offsets, messages, start = each
            if processing.is_dropped:
                continue
            end = len(offsets) if max_count is None else min(start + max_count, len(offsets))
            if end < len(offsets):
                fetched.appendleft(each._replace(start=end))
            goal = engine.goal_of(assignment.queue)
            if goal is not None:  # later messages stay unfinished
                end = bisect_left(offsets, goal, start, end)
            if start == end:
                continue
            delivery = Delivery(
                engine,
                assignment,
                processing,
                offsets[start:end],
                list(messages[start:end]),
                iter(range(end - start if is_shared else 0)),
            )
            delivery.look(now)
            engine.in_flight.add(delivery)
            engine.timers.arm(EXPIRE, now + engine.settings.consume_timeout_ms)
            return delivery
        return None

    def recall(self, delivery: Delivery) -> None:
        """See `DeliveryOrder.recall`."""
        left = delivery.recall()
        if not left or delivery.is_stale:
            return
        offsets, messages = delivery.queue_offsets[-left:], delivery.messages[-left:]
        self._fetched.appendleft(
            _Fetched(delivery.assignment, delivery.processing, offsets, messages, 0)
        )
        delivery.shrink(left)
        self._forget_settled(delivery)

    # ------------------------------------------------------------------ results

    def settle(self, delivery: Delivery) -> int | None:
        """See `DeliveryOrder.settle`."""
        marks, offsets = delivery.marks, delivery.queue_offsets
        assignment = delivery.assignment
        if marks.count(CONSUMED) == len(marks):
            marks[:] = bytes([SETTLED]) * len(marks)
            self._engine.in_flight.discard(delivery)
            found = offsets
            offset = delivery.processing.remove_run(offsets) if offsets else None
        else:
            rows = [row for row, mark in enumerate(marks) if mark == CONSUMED]
            if not rows:
                return None
            for row in rows:
                marks[row], delivery.messages[row] = SETTLED, None
            self._forget_settled(delivery)
            found = [offsets[row] for row in rows]
            offset = delivery.processing.remove(found)
        if assignment.times:
            for queue_offset in found:
                assignment.times.pop(queue_offset, None)
        return offset

    def _forget_settled(self, delivery: Delivery) -> None:
        if delivery.marks.count(SETTLED) == len(delivery.marks):
            self._engine.in_flight.discard(delivery)

    def retry(self, delivery: Delivery, level: int, rows: range) -> str:
        """See `DeliveryOrder.retry`: send messages back; if that fails, they come again here."""
        engine = self._engine
        if engine.settings.broadcast:
            for row in rows:
                delivery.marks[row] = delivery.marks[row] or CONSUMED
            outcomes = ["no retry, as the group broadcasts"]
        else:
            outcomes = [self._retry(delivery, level, row) for row in rows]
        engine.settle(delivery)
        return outcomes[0] if outcomes else _DONE

    def _retry(self, delivery: Delivery, level: int, row: int) -> str:
        message = delivery.messages[row]
        if delivery.marks[row] != OPEN or delivery.is_stale:
            return _DONE
        outcome = self._send_back(message, level)
        if outcome is not None:
            delivery.marks[row] = delivery.marks[row] or CONSUMED
            return outcome
        self._come_again(delivery, row)
        return f"retry in {_AGAIN_MS // 1_000} s, as the message could not be sent back"

    def _send_back(self, message: Any, level: int) -> str | None:
        """Return what becomes of a message; None if it could not be sent back."""
        settings = self._engine.settings
        try:
            return self._engine.port.send_back(
                settings.group, message, level, settings.max_reconsume_times
            )
        except (ReputError, OSError) as error:
            logger.warning("message not sent back group=%s: %s", settings.group, error)
            return None

    def _come_again(self, delivery: Delivery, row: int) -> None:
        engine, assignment = self._engine, delivery.assignment
        due = engine.port.clock() + _AGAIN_MS
        with engine.lock:
            queue_offset, message = delivery.queue_offsets[row], delivery.messages[row]
            assignment.times[queue_offset] = assignment.times.get(queue_offset, 0) + 1
            again = _Fetched(assignment, delivery.processing, [queue_offset], [message], 0)
            self._again.append((due, again))
            delivery.marks[row] = SETTLED
            self._forget_settled(delivery)
            engine.timers.arm(_AGAIN, due)

    # ------------------------------------------------------------------ locks, timed work

    def is_held(self, assignment: Assignment) -> bool:
        """See `DeliveryOrder.is_held`: never; another member gets what is not finished again."""
        return False

    def unlocked(self, now: int) -> list[Assignment]:
        """See `DeliveryOrder.unlocked`: concurrent reading needs no locks."""
        return []

    def work(self, now: int) -> None:
        """See `DeliveryOrder.work`."""
        engine = self._engine
        with engine.lock:
            if engine.timers.take(_AGAIN, now):
                due = [each for at, each in self._again if at <= now]
                self._again = [(at, each) for at, each in self._again if at > now]
                self._fetched.extendleft(due)
                for at, _ in self._again:
                    engine.timers.arm(_AGAIN, at)
                engine.wake()
            expires = engine.timers.take(EXPIRE, now)
            assignments = list(engine.assignments.values()) if expires else []
        for each in assignments:
            self._expire(each, now)
        if expires:
            with engine.lock:
                if engine.in_flight:
                    engine.timers.arm(EXPIRE, now + engine.settings.consume_timeout_ms)

    def _expire(self, assignment: Assignment, now: int) -> None:
        """Send back the oldest messages of a queue that nobody has finished in time."""
        engine = self._engine
        for _ in range(_EXPIRED_AT_ONCE):
            with engine.lock:
                found = overdue(engine, assignment, now)
            if found is None or engine.settings.broadcast:
                return
            delivery, row = found
            outcome = self._send_back(delivery.messages[row], _EXPIRED_LEVEL)
            if outcome is None:
                return
            logger.warning(
                "message took too long, %s group=%s queue=%s offset=%d",
                *(outcome, engine.settings.group, assignment.queue, delivery.queue_offsets[row]),
            )
            delivery.marks[row] = delivery.marks[row] or CONSUMED
            engine.settle(delivery)
