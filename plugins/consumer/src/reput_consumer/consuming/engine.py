"""`Engine`: one member of a group at work, whoever drives it.

Threads that want messages call `take`, which fetches by itself when there is nothing at hand, and
otherwise sleeps until a message arrives. Timed work (saves, expiry, retries) is done by `work`,
which the owner of the engine calls at the times that the engine asks for.

Source: RocketMQ ``DefaultMQPushConsumerImpl#pullMessage`` and ``RebalanceImpl``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reput.errors import ReputError
from reput_consumer.consuming.concurrent import Concurrently
from reput_consumer.consuming.holdings import REBALANCE, SAVE, Holdings
from reput_consumer.consuming.orderly import InOrder
from reput_consumer.errors import ConsumerClosedError
from reput_consumer.port.port import Fetched, FetchRequest, FetchStatus

if TYPE_CHECKING:
    from reput_consumer.consuming.delivery import Delivery
    from reput_consumer.consuming.line import Line
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.group.offsetstores import OffsetStore
    from reput_consumer.group.settings import MemberSettings
    from reput_consumer.port.port import ConsumerPort
    from reput_consumer.processing.processqueue import ProcessQueue
    from reput_consumer.queues import MessageQueue

logger = logging.getLogger(__name__)

__all__ = ["Engine"]

_LOCK_AGAIN_MS: Final = 3_000
_RESUME: Final = "resume"


class Engine(Holdings):
    """One member, and its messages. Thread-safe."""

    def __init__(
        self,
        port: ConsumerPort,
        settings: MemberSettings,
        offsets: OffsetStore,
        wake_at: Callable[[int], None],
        closed: Callable[[Engine], None] = lambda engine: None,
    ) -> None:
        """Make a member that is not in its group yet; `join` or `assign` begins.

        Args:
            port: where messages are.
            settings: what the member does.
            offsets: where its offsets are kept.
            wake_at: called with a time, ms, at which `work` is to be called.
            closed: called at the end of `close`.
        """
        super().__init__(port, settings, offsets, wake_at)
        self.is_stopped = False
        """Whether `take` returns nothing more; what was taken can still be finished."""
        self.goals: Mapping[MessageQueue, int] | None = None
        """By queue, the queue offset up to which messages are wanted; None for no end."""
        line = InOrder if settings.ordered else Concurrently
        self.line: Line = line(self)
        self._closed = closed

    # ------------------------------------------------------------------ taking

    def take(self, max_count: int, seconds: float | None) -> Delivery | None:
        """Return messages of one queue; wait for them if there are none.

        Args:
            max_count: most messages to return.
            seconds: how long to wait; None for ever, 0 not at all.

        Returns:
            The messages, which are to be finished or retried; None if none came in that time, or
            if the engine was closed meanwhile.

        Raises:
            ReputError: a queue cannot be read.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            with self.lock:
                if self.is_closed or self.is_stopped or self._is_at_goals():
                    return None
                now = self.port.clock()
                delivery = self.line.next(max_count, now)
                if delivery is not None:
                    return delivery
                unlocked = self.line.unlocked(now)
                fetching = None if unlocked else self._next_to_fetch()
                if not unlocked and fetching is None:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return None
                    self.lock.wait(left)
                    continue
            if fetching is not None:
                self._fetch(fetching)
            else:
                self._lock_queues(unlocked)

    def _is_at_goals(self) -> bool:
        """Whether the member's queues are finished up to their goals."""
        if self.goals is None:
            return False
        assignments = self.assignments
        return all(
            queue not in assignments or assignments[queue].offset >= goal
            for queue, goal in self.goals.items()
        )

    @property
    def is_over(self) -> bool:
        """Whether `take` returns None whatever comes."""
        with self.lock:
            return self.is_closed or self.is_stopped or self._is_at_goals()

    def stop(self) -> None:
        """Have `take` return None, on all threads."""
        with self.lock:
            self.is_stopped = True
            self.wake()

    def _next_to_fetch(self) -> Assignment | None:
        while self._ready:
            each = self._ready.popleft()
            each.is_ready = False
            if not (each.is_lost or each.is_paused or each.is_fetching):
                each.is_fetching = True
                return each
        return None

    def _fetch(self, assignment: Assignment) -> None:
        settings, processing = self.settings, assignment.processing
        request = FetchRequest(
            settings.group,
            settings.member,
            assignment.queue,
            assignment.next_offset,
            assignment.selector,
            settings.fetch_count,
            settings.fetch_bytes,
        )
        try:
            self.port.fetch(request, partial(self._answered, assignment, processing))
        except BaseException:
            with self.lock:
                assignment.is_fetching = False
                self._make_ready(assignment)
            raise

    def _answered(
        self, assignment: Assignment, processing: ProcessQueue[Any], fetched: Fetched
    ) -> None:
        """Take the answer to a fetch; on any thread, so this does not wait."""
        with self.lock:
            if processing is not assignment.processing or assignment.is_lost:
                return  # the queue was lost, or is read anew
            assignment.is_fetching = False
            assignment.next_offset = fetched.next_offset
            if fetched.status is FetchStatus.FOUND:
                self._add(assignment, fetched)
            elif fetched.status is FetchStatus.OFFSET_ILLEGAL:
                logger.warning(
                    "queue read from another offset queue=%s/%d offset=%d instead_of=%d",
                    *(assignment.queue.topic, assignment.queue.queue_id),
                    *(fetched.next_offset, assignment.offset),
                )
                self._read_anew(assignment, fetched.next_offset)
            elif not len(processing):
                # Nothing before this offset is wanted, so a restart need not read it again.
                self._moved(assignment, fetched.next_offset, only_forward=True)
            self._refill(assignment)
            self.wake()

    def _add(self, assignment: Assignment, fetched: Fetched) -> None:
        offsets, messages = fetched.queue_offsets, fetched.messages
        tags = assignment.selector.tags
        if tags and not fetched.is_exact:
            rows = [row for row, message in enumerate(messages) if message.tags in tags]
            offsets = [offsets[row] for row in rows]
            messages = [messages[row] for row in rows]
        if messages:
            assignment.processing.put(offsets, messages)
            self.line.add(assignment, offsets, messages)
        elif not len(assignment.processing):
            self._moved(assignment, fetched.next_offset, only_forward=True)

    def _refill(self, assignment: Assignment) -> None:
        """Fetch more from a queue, unless too much of it is unfinished."""
        settings = self.settings
        if not assignment.processing.is_over(settings.limits, in_order=settings.ordered):
            self._make_ready(assignment)

    def _lock_queues(self, assignments: list[Assignment]) -> None:
        settings, now = self.settings, self.port.clock()
        locked = self.port.lock(
            settings.group, settings.member, [each.queue for each in assignments]
        )
        with self.lock:
            for each in assignments:
                if each.queue in locked:
                    each.locked_at = now
                else:
                    self.suspend(each, now + _LOCK_AGAIN_MS)

    # ------------------------------------------------------------------ results

    def finish(self, delivery: Delivery) -> None:
        """Count messages as consumed."""
        with self.lock:
            if delivery.is_stale:
                return
            assignment = delivery.assignment
            only_forward = not self.settings.ordered
            offset = self.line.finish(delivery)
            if offset is not None and not len(delivery.processing):
                # What the selector has passed over needs not be looked at again either.
                offset = max(offset, assignment.next_offset)
            self._moved(assignment, offset, only_forward=only_forward)
            if self.goals is not None:
                self.wake()
            if not assignment.is_ready:
                self._refill(assignment)
            if assignment.is_leaving:
                self.give_up_soon()

    def retry(self, delivery: Delivery, level: int = 0) -> None:
        """Have messages come again: later, through the retry topic, or in order, after a pause.

        Args:
            delivery: what failed.
            level: delay level; 0 for 3 + how often it came back, -1 to give it up.
        """
        if not delivery.is_stale:
            self.line.settle_failed(delivery, level)

    def suspend(self, assignment: Assignment, until: int) -> None:
        """Hand out nothing of a queue until a time, ms."""
        with self.lock:
            assignment.suspended_until = until
            self.timers.arm(_RESUME, until)

    def _moved(self, assignment: Assignment, offset: int | None, *, only_forward: bool) -> None:
        if assignment.move(offset, only_forward=only_forward):
            self._save_later()

    def save(self, *, durable: bool = False) -> None:
        """Commit how far the member is.

        Raises:
            ReputError: it cannot be committed.
            OSError: it cannot be written; the next save tries it again.
        """
        with self.lock:
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

    # ------------------------------------------------------------------ what users control

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of a queue; what was fetched and not finished is dropped.

        Raises:
            KeyError: the member does not have the queue.
        """
        with self.lock:
            assignment = self.assignments[queue]
            self.port.drop(self.settings.member, queue)
            self._read_anew(assignment, offset)
            self._refill(assignment)
            self.wake()

    def _read_anew(self, assignment: Assignment, offset: int) -> None:
        assignment.read_anew(offset)
        assignment.is_fetching = False
        self._moved(assignment, offset, only_forward=False)

    def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere in those of the queues that the member has; see `seek`."""
        with self.lock:
            for queue in offsets.keys() & self.assignments.keys():
                self.seek(queue, offsets[queue])

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch nothing more of queues; what was fetched is still handed out."""
        with self.lock:
            for queue in queues:
                self.assignments[queue].is_paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch again from queues that were paused."""
        with self.lock:
            for queue in queues:
                self.assignments[queue].is_paused = False
                self._refill(self.assignments[queue])
            self.wake()

    # ------------------------------------------------------------------ timed work, the end

    def work(self, now: int) -> int | None:
        """Do what is due; return when to be called again, ms, or None."""
        with self.lock:
            if self.is_closed:
                return None
            rebalances, saves = self.timers.take(REBALANCE, now), self.timers.take(SAVE, now)
            if self.timers.take(_RESUME, now):
                later = [each.suspended_until for each in self.assignments.values()]
                for at in later:
                    if at > now:
                        self.timers.arm(_RESUME, at)
                self.wake()
        if rebalances:
            self.rebalance()
        self.line.work(now)
        if saves:
            try:
                self.save()
            except (ReputError, OSError) as error:
                logger.warning("offsets not saved group=%s: %s", self.settings.group, error)
                with self.lock:
                    self._save_later()
        with self.lock:
            return self.timers.next_due

    def close(self) -> None:
        """Save how far the member is, and leave the group; what is unfinished comes again.

        Raises:
            ReputError: the offsets cannot be committed; the group is left all the same.
            OSError: likewise.
        """
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self.timers.disarm()
            self.wake()
        with contextlib.ExitStack() as ending:  # all of it, whatever fails; the last one first
            ending.callback(self._closed, self)
            ending.callback(self._leave)
            with self._rebalancing:  # one that is under way
                if self.settings.auto_commit:
                    self.save()

    def check_open(self) -> None:
        """Raise `ConsumerClosedError` if the engine is closed."""
        if self.is_closed:
            raise ConsumerClosedError(self.settings.group)
