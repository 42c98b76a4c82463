"""`Member`: the state of one member of a group, who waits for it, and what is due.

Each subclass adds one subject: `ConsumeResults`, `OwnedQueues`, `Fetcher`, and last `MemberEngine`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from reput_consumer.consumption.timers import Timers

if TYPE_CHECKING:
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.consumption.deliveryorder import DeliveryOrder
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.group.offsetstore import OffsetStore
    from reput_consumer.messagequeue import MessageQueue

REBALANCE: Final = "rebalance"
RESUME: Final = "resume"
SAVE: Final = "save"


class Member:
    """What one member has, and who waits for what. Thread-safe."""

    line: DeliveryOrder
    """The order in which messages are handed out; set by the engine."""

    def __init__(
        self,
        port: ConsumerBackend,
        settings: MemberSettings,
        offsets: OffsetStore,
        wake_at: Callable[[int], None],
    ) -> None:
        """Make a member without queues.

        Args:
            port: where messages are.
            settings: what the member does.
            offsets: where its offsets are kept.
            wake_at: called with a time, ms, at which timed work is to be done.
        """
        self.port = port
        self.settings = settings
        self.assignments: dict[MessageQueue, Assignment] = {}
        """The member's queues. Guarded by `lock`."""
        self.in_flight: set[Delivery] = set()
        """Deliveries with messages that are not settled. Guarded by `lock`."""
        self.mutex = threading.RLock()
        self.lock = threading.Condition(self.mutex)
        """Notified of messages to take; `mutex` is the same lock, taken faster."""
        self.timers = Timers(wake_at)
        self.is_watching = True
        """Whether outcomes are to be settled at once: a thread waits for them, or no save
        is due that would settle them. Read without the lock."""
        self.is_closed = False
        self.goals: Mapping[MessageQueue, int] | None = None
        """By queue, the queue offset up to which messages are wanted; None for no end."""
        self.is_share_known = False
        """Whether the member has all queues that fall to it. While not, it is not at its goals."""
        self._listener: Callable[[], None] | None = None
        self._sleeping = 0
        """How many threads wait for messages."""
        self._offsets = offsets
        self._ready: deque[Assignment] = deque()
        """Queues to fetch from, the one that waits longest first."""

    # ------------------------------------------------------------------ how far to go

    def goal_of(self, queue: MessageQueue) -> int | None:
        """Return the queue offset up to which messages are wanted; None for no end.

        Where there are goals, nothing is wanted of a queue that has come since they were set.
        """
        return None if self.goals is None else self.goals.get(queue, 0)

    def _is_at_goals(self) -> bool:
        """Whether the member's queues are finished up to their goals."""
        if self.goals is None or not self.is_share_known:
            return False
        assignments = self.assignments
        return all(
            queue not in assignments or assignments[queue].offset >= goal
            for queue, goal in self.goals.items()
        )

    # ------------------------------------------------------------------ what is to be done

    def _make_ready(self, assignment: Assignment) -> None:
        if (
            assignment.is_ready
            or assignment.is_fetching
            or assignment.is_lost
            or assignment.is_paused
        ):
            return
        goal = self.goal_of(assignment.queue)
        if goal is None or assignment.next_offset < goal:
            assignment.is_ready = True
            self._ready.append(assignment)

    def _save_later(self) -> None:
        if self.settings.auto_commit and not self.timers.is_armed(SAVE):
            self.timers.arm(SAVE, self.port.clock() + self.settings.save_interval_ms)
            self._watch()

    def suspend(self, assignment: Assignment, until: int) -> None:
        """Hand out nothing of a queue until a time, ms."""
        with self.lock:
            assignment.suspended_until = until
            self.timers.arm(RESUME, until)

    def give_up_soon(self) -> None:
        """Give queues up that were held when other members wanted them."""
        with self.lock:
            self.timers.arm(REBALANCE, self.port.clock())

    # ------------------------------------------------------------------ who waits

    def _watch(self) -> None:
        """Find out whether a thread waits for outcomes now."""
        self.is_watching = (
            self._sleeping > 0
            or self._listener is not None
            or (self.settings.auto_commit and not self.timers.is_armed(SAVE))
        )

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Have a function called when there may be messages to take; None to end that.

        It is called under the lock, from any thread, by callers that cannot wait.
        """
        with self.lock:
            self._listener = listener
            self._watch()

    def wake(self) -> None:
        """Wake one thread that waits for messages; under the lock.

        A thread that finds messages wakes the next one if more work is left.
        """
        if self._sleeping:
            self.lock.notify()
        if self._listener is not None:
            self._listener()

    def wake_all(self) -> None:
        """Wake all who wait, to see that it is over; under the lock."""
        self.lock.notify_all()
        if self._listener is not None:
            self._listener()
