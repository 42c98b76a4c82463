"""`MemberEngine`: one member of a group at work, independent of its caller.

Threads that want messages call `take` or `open`, which fetch by themselves when there is nothing at
hand, and otherwise sleep until a message arrives. Timed work (saves, expiry, retries) is done by
`work`, which the owner of the engine calls at the times that the engine gives.

Source: RocketMQ ``DefaultMQPushConsumerImpl`` and ``RebalanceImpl``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from reput.errors import ReputError
from reput_consumer.consumption.concurrentmode import ConcurrentMode
from reput_consumer.consumption.fetcher import Fetcher
from reput_consumer.consumption.member import REBALANCE, RESUME, SAVE
from reput_consumer.consumption.orderlymode import OrderlyMode
from reput_consumer.errors import ConsumerClosedError

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.consumption.deliveryorder import DeliveryOrder
    from reput_consumer.consumption.directconsume import Handled
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.group.offsetstore import OffsetStore
    from reput_consumer.messagequeue import MessageQueue

logger = logging.getLogger(__name__)

_LOCK_AGAIN_MS: Final = 3_000


class MemberEngine(Fetcher):
    """One member, and its messages. Thread-safe."""

    def __init__(
        self,
        port: ConsumerBackend,
        settings: MemberSettings,
        offsets: OffsetStore,
        wake_at: Callable[[int], None],
        closed: Callable[[MemberEngine], None] = lambda engine: None,
        queues_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a member that is not in its group yet; `join` or `assign` begins.

        Args:
            port: where messages are.
            settings: what the member does.
            offsets: where its offsets are kept.
            wake_at: called with a time, ms, at which `work` is to be called.
            closed: called at the end of `close`.
            queues_changed: called when queues were taken or given up; must not wait.
        """
        super().__init__(port, settings, offsets, wake_at, queues_changed)
        self.is_stopped = False
        """Whether `take` returns nothing more; what was taken can still be finished."""
        self.saves_by: int | None = None
        """Of a member that is closed: until when the file has to hold what it has committed, ms."""
        self.handle_now: Callable[[MessageView, MessageQueue], Handled] | None = None
        """Handles one message that is in no queue of the member, while a function handles all."""
        line = OrderlyMode if settings.ordered else ConcurrentMode
        self.line: DeliveryOrder = line(self)
        self._closed = closed

    # ------------------------------------------------------------------ taking

    def take(self, max_count: int, seconds: float | None) -> Delivery | None:
        """Return messages of one queue; wait until some exist.

        Args:
            max_count: most messages to return.
            seconds: how long to wait; None for ever, 0 not at all.

        Returns:
            The messages, which are to be finished or retried; None if none came in that time, or
            if the engine was closed meanwhile.

        Raises:
            ReputError: a queue cannot be read.
        """
        return self._next(lambda now: self.line.take(max_count, now), seconds)

    def open(self, seconds: float | None, max_count: int | None = None) -> Delivery | None:
        """Return messages of one queue, to be handed out by their `Delivery.rows`.

        Several threads may get the same delivery, and each of its messages only one of them.
        What nobody was handed yet can be called back, so that the rows end early.

        Args:
            seconds: as for `take`.
            max_count: most messages; None for no limit.

        Returns:
            As for `take`; the messages are to be marked, and settled.

        Raises:
            ReputError: as for `take`.
        """
        return self._next(lambda now: self.line.open(max_count, now), seconds)

    def _next(
        self, hand_out: Callable[[int], Delivery | None], seconds: float | None
    ) -> Delivery | None:
        deadline = None if seconds is None else time.monotonic() + seconds
        ahead: list[Assignment] = []
        while True:
            with self.mutex:
                if self.is_closed or self.is_stopped:
                    return None
                now = self.port.clock()
                delivery = hand_out(now)
                if delivery is None and self._settle_all(now):
                    delivery = hand_out(now)
                if delivery is not None:
                    ahead = self._next_ahead()
                    if self._sleeping and (self._ready or self.line.may_have_more):
                        self.lock.notify()
                    break
                if self._is_at_goals():
                    return None
                unlocked = self.line.unlocked(now)
                fetching = None if unlocked else self._next_to_fetch()
                if not unlocked and fetching is None:
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        return None
                    self._sleep(left)
                    continue
                if self._sleeping and self._ready:
                    self.lock.notify()
            if fetching is not None:
                self._fetch(fetching)
            else:
                self._lock_queues(unlocked)
        for each in ahead:
            with contextlib.suppress(ReputError):  # it is met again when nothing is at hand
                self._fetch(each)
        return delivery

    def _sleep(self, seconds: float | None) -> None:
        """Wait until there may be something to do, unless an outcome was set just now."""
        self._sleeping += 1
        self._watch()
        try:
            # A thread that sets an outcome reads `is_watching` afterwards: an outcome that it set
            # before that is seen here.
            if not self._settle_all(self.port.clock()):
                self.lock.wait(seconds)
        finally:
            self._sleeping -= 1
            self._watch()

    @property
    def is_over(self) -> bool:
        """Whether `take` returns None whatever comes."""
        with self.mutex:
            return self.is_closed or self.is_stopped or self._is_at_goals()

    def stop(self) -> None:
        """Have `take` return None, on all threads."""
        with self.lock:
            self.is_stopped = True
            self.recall(self.assignments.values())
            self.wake_all()

    def _lock_queues(self, assignments: list[Assignment]) -> None:
        now = self.port.clock()
        locked = self.locked([each.queue for each in assignments])
        with self.lock:
            for each in assignments:
                if each.queue in locked:
                    each.locked_at = now
                else:
                    self.suspend(each, now + _LOCK_AGAIN_MS)

    # ------------------------------------------------------------------ what users control

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of a queue; fetched, unfinished messages are dropped.

        Raises:
            KeyError: the member does not have the queue.
        """
        with self.lock:
            assignment = self.assignments[queue]
            self.port.drop(self.settings.member, queue)
            self._reset_to(assignment, offset)
            self._refill(assignment)
            self.wake()

    def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere in those of the queues that the member has; see `seek`."""
        with self.lock:
            for queue in offsets.keys() & self.assignments.keys():
                self.seek(queue, offsets[queue])

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch nothing more of queues; fetched messages are still handed out."""
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

    def is_save_due(self, now: int) -> bool:
        """Whether `work` is going to commit how far the member is."""
        with self.lock:
            return self.timers.is_due(SAVE, now)

    def work(self, now: int, *, saves: bool = False) -> int | None:
        """Do what is due; return when to be called again, ms, or None.

        Args:
            now: the time, ms.
            saves: whether others commit how far they are now, so that this member does so, too.
        """
        with self.lock:
            if self.is_closed:
                return None
            rebalances = self.timers.take(REBALANCE, now)
            saves = self.timers.is_armed(SAVE) if saves else self.timers.is_due(SAVE, now)
            if saves:
                self.timers.drop(SAVE)
            self._watch()
            if self.timers.take(RESUME, now):
                later = [each.suspended_until for each in self.assignments.values()]
                for at in later:
                    if at > now:
                        self.timers.arm(RESUME, at)
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
        """Save how far the member is, and leave the group; unfinished messages come again.

        Raises:
            ReputError: the offsets cannot be committed; the group is left all the same.
            OSError: likewise.
        """
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self.recall(self.assignments.values())
            self.saves_by = self.timers.due_of(SAVE)
            self.timers.disarm()
            self.wake_all()
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
