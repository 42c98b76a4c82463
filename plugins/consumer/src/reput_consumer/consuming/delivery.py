"""`Delivery`: messages of one queue that were handed out together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.processing.processqueue import ProcessQueue

__all__ = ["Delivery"]


@attrs.define(eq=False)
class Delivery:
    """One handing out; queue offsets and messages are parallel."""

    assignment: Assignment
    processing: ProcessQueue[Any]
    """That of the assignment when the messages were fetched."""
    queue_offsets: Sequence[int]
    messages: Sequence[Any]

    def __len__(self) -> int:
        return len(self.queue_offsets)

    @property
    def is_stale(self) -> bool:
        """Whether results mean nothing: the queue was lost, or is read anew."""
        return self.processing.is_dropped or self.assignment.is_lost

    def part(self, start: int, end: int | None = None) -> Delivery:
        """Return some of the messages as a delivery of their own."""
        return Delivery(
            self.assignment,
            self.processing,
            self.queue_offsets[start:end],
            self.messages[start:end],
        )

    def times_of(self, row: int) -> int:
        """Return how often a message has failed, here and before it was sent back."""
        here = self.assignment.times.get(self.queue_offsets[row], 0)
        return int(self.messages[row].reconsume_times) + here
