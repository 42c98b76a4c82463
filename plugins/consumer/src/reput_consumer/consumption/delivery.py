"""`Delivery`: messages of one queue that were handed out together.

The outcome of each message is one byte. Threads that handle messages set outcomes without a lock;
the engine settles a delivery, which moves outcomes into the process queue, when they are needed:
at the end of a delivery, before offsets are saved, or when a thread waits for space.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.processqueue import ProcessQueue

OPEN: Final = 0
CONSUMED: Final = 1
"""It was consumed, which the process queue does not know yet."""
SETTLED: Final = 2
"""The process queue knows, or the message comes again as one of another delivery."""


class Owner(Protocol):
    """The engine, as handlers of its messages see it."""

    is_watching: bool
    """Whether an outcome is to be settled at once; may be read without the lock."""

    def settle(self, delivery: Delivery) -> None:
        """Count messages as consumed whose outcome is this."""
        ...

    def retry(
        self,
        delivery: Delivery,
        level: int = 0,
        rows: range | None = None,
        *,
        is_logged: bool = False,
    ) -> str:
        """Have messages come again; return what becomes of the first one, for a log."""
        ...


@attrs.define(eq=False, repr=False)
class Delivery:
    """Messages of one call; queue offsets, messages and outcomes are parallel."""

    engine: Owner
    assignment: Assignment
    processing: ProcessQueue[Any]
    """That of the assignment when the messages were fetched."""
    queue_offsets: Sequence[int]
    messages: MutableSequence[Any]
    """None where a message is settled alone, so that others do not keep it in memory."""
    rows: Iterator[int]
    """The rows that nobody has been handed yet. Threads may share it: to take the next of a range
    cannot be interrupted."""
    marks: bytearray = attrs.field(init=False)
    _seen: list[tuple[int, int]] = attrs.field(init=False, factory=list)
    """How many rows had been handed out at some times, ms; both ascending."""

    @marks.default
    def _marks(self) -> bytearray:
        return bytearray(len(self.queue_offsets))

    def __len__(self) -> int:
        return len(self.marks)

    @property
    def is_stale(self) -> bool:
        """Whether results mean nothing: the queue was lost, or is read again."""
        return self.processing.is_dropped

    @property
    def unhanded_count(self) -> int:
        """How many messages nobody has been handed yet."""
        return length_hint(self.rows)

    @property
    def is_any_open(self) -> bool:
        """Whether somebody was handed a message of which nothing is known yet."""
        return OPEN in self.marks[: len(self.marks) - self.unhanded_count]

    def recall(self) -> int:
        """Hand out nothing more; return how many messages were left."""
        return len(list(self.rows))

    def shrink(self, count: int) -> None:
        """Forget the last messages, which were not handed out."""
        end = len(self.marks) - count
        self.queue_offsets = self.queue_offsets[:end]
        del self.messages[end:], self.marks[end:]

    def failed_here(self, row: int) -> int:
        """Return how often a message has failed since it was fetched."""
        return self.assignment.times.get(self.queue_offsets[row], 0)

    # ------------------------------------------------------------------ when

    def look(self, now: int) -> None:
        """Note how many messages were handed out by now, ms."""
        count = len(self.marks) - self.unhanded_count
        if count and (not self._seen or count > self._seen[-1][0]):
            self._seen.append((count, now))

    def handed_at(self, row: int) -> int | None:
        """Return when a message was handed out at the latest, ms; None if it was not yet."""
        return next((now for count, now in self._seen if count > row), None)
