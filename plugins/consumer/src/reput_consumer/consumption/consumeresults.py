"""`ConsumeResults`: what becomes of messages that a member was handed, and how far it is by that.

Source: RocketMQ ``ConsumeMessageConcurrentlyService#processConsumeResult`` and its orderly kin.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from reput_consumer.consumption.delivery import CONSUMED, OPEN
from reput_consumer.consumption.member import Member

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.group.assignment import Assignment

logger = logging.getLogger(__name__)

_OPEN_BYTE: Final = bytes([OPEN])
_CONSUMED_BYTE: Final = bytes([CONSUMED])


class ConsumeResults(Member):
    """Settles, retries and saves. Thread-safe."""

    def finish(self, delivery: Delivery) -> None:
        """Count all messages of a delivery as consumed of which nothing else was said."""
        with self.mutex:
            delivery.marks[:] = delivery.marks.replace(_OPEN_BYTE, _CONSUMED_BYTE)
            self.settle(delivery)

    def settle(self, delivery: Delivery) -> None:
        """Count messages as consumed that are marked so."""
        with self.mutex:
            if delivery.is_stale:
                return
            assignment, processing = delivery.assignment, delivery.processing
            offset = self.line.settle(delivery)
            if offset is not None:
                if not len(processing):
                    # Messages that the selector skipped need not be looked at again either.
                    offset = max(offset, assignment.next_offset)
                self._moved(assignment, offset, only_forward=not self.settings.ordered)
            if not assignment.is_ready and self._refill(assignment):
                self.wake()
            if assignment.is_leaving:
                self.give_up_soon()

    def close_delivery(self, delivery: Delivery) -> None:
        """Settle what is marked, and have what was not handed out be part of another delivery."""
        with self.mutex:
            if delivery.unhanded_count:
                self.line.recall(delivery)
            self.settle(delivery)

    def _settle_all(self, now: int) -> bool:
        """Settle what is marked; return whether there was any."""
        found = [each for each in self.in_flight if CONSUMED in each.marks]
        for each in self.in_flight:
            each.look(now)
        for each in found:
            self.settle(each)
        return bool(found)

    def retry(
        self,
        delivery: Delivery,
        level: int = 0,
        rows: range | None = None,
        *,
        is_logged: bool = False,
    ) -> str:
        """Have messages come again: later, through the retry topic, or in order, after a pause.

        Args:
            delivery: the messages.
            level: delay level; 0 for 3 + how often it came back, -1 to give it up.
            rows: the failed ones; None for all.
            is_logged: whether the caller logs the failure, and what becomes of the messages.

        Returns:
            What becomes of the first message, for a log.
        """
        if delivery.is_stale:
            return "retry, as the queue was lost or is read again"
        failed = range(len(delivery)) if rows is None else rows
        outcome = self.line.retry(delivery, level, failed)
        if self.settings.broadcast and not self.settings.ordered and not is_logged:
            logger.warning(
                "messages failed, %s group=%s queue=%s offsets=%s",
                *(outcome, self.settings.group, delivery.assignment.queue),
                [delivery.queue_offsets[row] for row in failed],
            )
        return outcome

    def recall(self, assignments: Iterable[Assignment]) -> None:
        """Settle what is marked of some queues, and hand out nothing more of it; under the lock."""
        queues = {each.queue for each in assignments}
        for delivery in [each for each in self.in_flight if each.assignment.queue in queues]:
            self.line.recall(delivery)
            self.settle(delivery)

    def forget_stale(self) -> None:
        """Forget deliveries of queues that are lost, or are read again; under the lock."""
        for delivery in [each for each in self.in_flight if each.is_stale]:
            delivery.recall()
            self.in_flight.remove(delivery)

    # ------------------------------------------------------------------ how far the member is

    def _moved(self, assignment: Assignment, offset: int | None, *, only_forward: bool) -> None:
        if assignment.move(offset, only_forward=only_forward):
            self._save_later()
            if self._is_at_goals():
                self.wake_all()  # nothing else will come that wakes them

    def _refill(self, assignment: Assignment) -> bool:
        """Fetch more from a queue, unless too much of it is unfinished; return whether it will."""
        settings = self.settings
        if assignment.processing.is_over(settings.limits, in_order=settings.ordered):
            return False
        self._make_ready(assignment)
        return assignment.is_ready

    def save(self, *, durable: bool = False) -> None:
        """Commit how far the member is.

        Raises:
            ReputError: it cannot be committed.
            OSError: it cannot be written; the next save tries it again.
        """
        with self.mutex:
            if self.in_flight:
                self._settle_all(self.port.clock())
            changed = [each for each in self.assignments.values() if each.is_changed]
            offsets = {each.queue: each.offset for each in changed}
            for each in changed:
                each.is_changed = False
        if not offsets and not durable:
            return
        try:
            self._offsets.save(offsets, durable=durable)
        except BaseException:
            with self.lock:
                for each in changed:
                    each.is_changed = True
            raise
