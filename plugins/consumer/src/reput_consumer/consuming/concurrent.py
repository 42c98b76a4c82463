"""`Concurrently`: messages of one queue may be handed out to several threads at once.

A message that fails is sent back, and comes again through the group's retry topic.

Source: RocketMQ ``ConsumeMessageConcurrentlyService`` and ``ProcessQueue#cleanExpiredMsg``.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from reput.errors import ReputError
from reput_consumer.consuming.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reput_consumer.consuming.line import Host
    from reput_consumer.group.assignment import Assignment

logger = logging.getLogger(__name__)

__all__ = ["Concurrently"]

_AGAIN_MS: Final = 5_000
_EXPIRED_LEVEL: Final = 3
_EXPIRED_AT_ONCE: Final = 16
_EXPIRE: Final = "expire"
_AGAIN: Final = "again"


class Concurrently:
    """See `reput_consumer.consuming.line.Line`."""

    def __init__(self, engine: Host) -> None:
        self._engine = engine
        self._fetched: deque[tuple[Delivery, int]] = deque()
        """Each with the number of its messages that were handed out."""
        self._again: list[tuple[int, Delivery]] = []
        """Messages that could not be sent back, and when they are handed out again, ms."""

    def add(
        self, assignment: Assignment, queue_offsets: Sequence[int], messages: Sequence[object]
    ) -> None:
        """See `Line.add`."""
        self._fetched.append(
            (Delivery(assignment, assignment.processing, queue_offsets, messages), 0)
        )

    def next(self, max_count: int, now: int) -> Delivery | None:
        """See `Line.next`."""
        fetched = self._fetched
        while fetched:
            delivery, start = fetched.popleft()
            if delivery.is_stale:
                continue
            end = start + max_count
            if end < len(delivery.queue_offsets):
                fetched.appendleft((delivery, end))
            if start or end < len(delivery.queue_offsets):
                delivery = delivery.part(start, end)
            taken_at = delivery.assignment.taken_at
            taken_at.update(dict.fromkeys(delivery.queue_offsets, now))
            self._engine.timers.arm(_EXPIRE, now + self._engine.settings.consume_timeout_ms)
            return delivery
        return None

    def finish(self, delivery: Delivery) -> int | None:
        """See `Line.finish`."""
        assignment = delivery.assignment
        for queue_offset in delivery.queue_offsets:
            assignment.taken_at.pop(queue_offset, None)
        if assignment.times:
            for queue_offset in delivery.queue_offsets:
                assignment.times.pop(queue_offset, None)
        return delivery.processing.remove(delivery.queue_offsets)

    def settle_failed(self, delivery: Delivery, level: int) -> None:
        """See `Line.settle_failed`: send messages back; those that cannot be come again here."""
        engine = self._engine
        settings = engine.settings
        if settings.broadcast:
            logger.warning(
                "messages failed and do not come again, as the group broadcasts group=%s queue=%s "
                "offsets=%s",
                *(settings.group, delivery.assignment.queue, list(delivery.queue_offsets)),
            )
            engine.finish(delivery)
            return
        for row, queue_offset in enumerate(delivery.queue_offsets):
            part = delivery.part(row, row + 1)
            if queue_offset not in delivery.processing:
                continue  # sent back already, as it took too long
            if self._send_back(part, level):
                engine.finish(part)
            else:
                self._come_again(part)

    def _send_back(self, delivery: Delivery, level: int) -> bool:
        settings = self._engine.settings
        try:
            self._engine.port.send_back(
                settings.group, delivery.messages[0], level, settings.max_reconsume_times
            )
        except (ReputError, OSError) as error:
            logger.warning("message not sent back group=%s: %s", settings.group, error)
            return False
        return True

    def _come_again(self, delivery: Delivery) -> None:
        engine, assignment = self._engine, delivery.assignment
        due = engine.port.clock() + _AGAIN_MS
        with engine.lock:
            for queue_offset in delivery.queue_offsets:
                assignment.times[queue_offset] = assignment.times.get(queue_offset, 0) + 1
                assignment.taken_at.pop(queue_offset, None)
            self._again.append((due, delivery))
            engine.timers.arm(_AGAIN, due)

    def is_held(self, assignment: Assignment) -> bool:
        """See `Line.is_held`: never; the other member gets what is not finished once more."""
        return False

    def unlocked(self, now: int) -> list[Assignment]:
        """See `Line.unlocked`: concurrent reading needs no locks."""
        return []

    def gone(self, assignments: Iterable[Assignment]) -> None:
        """See `Line.gone`; `next` passes over what is stale."""

    def work(self, now: int) -> None:
        """See `Line.work`."""
        engine = self._engine
        with engine.lock:
            if engine.timers.take(_AGAIN, now):
                due = [each for at, each in self._again if at <= now]
                self._again = [(at, each) for at, each in self._again if at > now]
                self._fetched.extendleft((each, 0) for each in due)
                for at, _ in self._again:
                    engine.timers.arm(_AGAIN, at)
                engine.wake()
            expires = engine.timers.take(_EXPIRE, now)
            assignments = list(engine.assignments.values())
        if expires:
            for each in assignments:
                self._expire(each, now)
            with engine.lock:
                if any(each.taken_at for each in engine.assignments.values()):
                    engine.timers.arm(_EXPIRE, now + engine.settings.consume_timeout_ms)

    def _expire(self, assignment: Assignment, now: int) -> None:
        """Send back the oldest messages of a queue that nobody has finished in time."""
        engine, processing = self._engine, assignment.processing
        for _ in range(_EXPIRED_AT_ONCE):
            with engine.lock:
                oldest = processing.oldest
                since = None if oldest is None else assignment.taken_at.get(oldest)
                if oldest is None or since is None:
                    return
                if now - since < engine.settings.consume_timeout_ms:
                    return
                message = processing.get(oldest)
            part = Delivery(assignment, processing, (oldest,), (message,))
            if engine.settings.broadcast or not self._send_back(part, _EXPIRED_LEVEL):
                return
            logger.warning(
                "message sent back, as it took too long group=%s queue=%s offset=%d",
                *(engine.settings.group, assignment.queue, oldest),
            )
            engine.finish(part)
