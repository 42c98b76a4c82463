"""`DeliveryOrder`: the order in which fetched messages are handed out; a class for each mode.

`Host` is what a line needs of the engine that it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from reput_consumer.consumption.delivery import Owner

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Sequence

    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.consumption.timers import Timers
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.messagequeue import MessageQueue


class Host(Owner, Protocol):
    """The engine, as its line sees it."""

    port: ConsumerBackend
    settings: MemberSettings
    assignments: dict[MessageQueue, Assignment]
    in_flight: set[Delivery]
    """Deliveries with messages that are not settled. Guarded by `lock`."""
    lock: threading.Condition
    timers: Timers

    def goal_of(self, queue: MessageQueue) -> int | None:
        """Return the queue offset up to which messages are wanted; None for no end."""
        ...

    def locked(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues, or keep them locked; return the queues that the member has."""
        ...

    def suspend(self, assignment: Assignment, until: int) -> None:
        """Hand out nothing of a queue until a time, ms."""
        ...

    def give_up_soon(self) -> None:
        """Give queues up that were held when other members wanted them."""
        ...

    def wake(self) -> None:
        """Wake one thread that waits for messages; under the lock."""
        ...


class DeliveryOrder(Protocol):
    """Called under the engine's lock, but for `retry` and `work`."""

    def add(
        self, assignment: Assignment, queue_offsets: Sequence[int], messages: Sequence[object]
    ) -> None:
        """Put fetched messages at the end."""
        ...

    @property
    def may_have_more(self) -> bool:
        """Whether another thread should look for messages, too."""
        ...

    def take(self, max_count: int, now: int) -> Delivery | None:
        """Hand out messages of one queue; None if none can be handed out now."""
        ...

    def open(self, max_count: int | None, now: int) -> Delivery | None:
        """Begin to hand out messages of one queue, row by row; None if no message waits."""
        ...

    def recall(self, delivery: Delivery) -> None:
        """Take back what nobody was handed of a delivery, to hand it out later."""
        ...

    def settle(self, delivery: Delivery) -> int | None:
        """Finish messages that are marked; return the queue offset to commit, None if none is."""
        ...

    def retry(self, delivery: Delivery, level: int, rows: range) -> str:
        """See to it that failed messages come again; called without the lock.

        Returns:
            What becomes of the first one, for a log.
        """
        ...

    def is_held(self, assignment: Assignment) -> bool:
        """Whether a queue cannot be given to another member yet."""
        ...

    def unlocked(self, now: int) -> list[Assignment]:
        """Return queues with messages whose locks must be taken or extended first."""
        ...

    def work(self, now: int) -> None:
        """Do what is due; called without the lock."""
        ...
