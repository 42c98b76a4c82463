"""`Line`: the order in which a member's fetched messages are handed out; a class for each mode.

`Host` is what a line needs of the engine that it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Sequence

    from reput_consumer.consuming.delivery import Delivery
    from reput_consumer.consuming.timers import Timers
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.group.settings import MemberSettings
    from reput_consumer.port.port import ConsumerPort
    from reput_consumer.queues import MessageQueue

__all__ = ["Host", "Line"]


class Host(Protocol):
    """The engine, as its line sees it."""

    port: ConsumerPort
    settings: MemberSettings
    assignments: dict[MessageQueue, Assignment]
    lock: threading.Condition
    timers: Timers

    def finish(self, delivery: Delivery) -> None:
        """Count messages as consumed."""
        ...

    def suspend(self, assignment: Assignment, until: int) -> None:
        """Hand out nothing of a queue until a time, ms."""
        ...

    def give_up_soon(self) -> None:
        """Give queues up that were held when other members wanted them."""
        ...

    def wake(self) -> None:
        """Wake those who wait for messages; under the lock."""
        ...


class Line(Protocol):
    """Called under the engine's lock, but for `settle`."""

    def add(
        self, assignment: Assignment, queue_offsets: Sequence[int], messages: Sequence[object]
    ) -> None:
        """Put fetched messages at the end."""
        ...

    def next(self, max_count: int, now: int) -> Delivery | None:
        """Hand out messages of one queue; None if none can be handed out now."""
        ...

    def finish(self, delivery: Delivery) -> int | None:
        """Count messages as consumed; return the queue offset to commit, None if none."""
        ...

    def settle_failed(self, delivery: Delivery, level: int) -> None:
        """See to it that failed messages come again; called without the lock."""
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

    def gone(self, assignments: Iterable[Assignment]) -> None:
        """Forget queues that the member has lost."""
        ...
