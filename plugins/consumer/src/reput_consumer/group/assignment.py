"""`Assignment`: one queue that a member has, and how far it is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput_consumer.processqueue import ProcessQueue

if TYPE_CHECKING:
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.selectors import Selector


@attrs.define(eq=False, repr=False)
class Assignment:
    """A queue of a member. Guarded by the member's lock."""

    queue: MessageQueue
    selector: Selector
    next_offset: int
    """Where the next fetch begins."""
    offset: int
    """What is committed with the next save: the oldest message that is not finished."""
    processing: ProcessQueue[Any] = attrs.field(factory=ProcessQueue)
    """Replaced, and the former marked as dropped, where the queue is read from another offset."""
    is_changed: bool = False
    """Whether `offset` is not committed yet."""
    is_lost: bool = False
    """Whether the member does not have the queue any more."""
    is_leaving: bool = False
    """Whether the member has to give the queue up once a message of it is finished."""
    is_fetching: bool = False
    is_ready: bool = False
    """Whether it is in the list of queues to fetch from."""
    is_paused: bool = False
    is_in_line: bool = False
    """Whether it is in the list of queues to deliver from; of queues read in order."""
    locked_at: int = 0
    """When the queue was locked last, ms; of queues that are read in order."""
    suspended_until: int = 0
    """Until when no message is handed out, ms; of queues that are read in order."""
    times: dict[int, int] = attrs.field(factory=dict)
    """How often an unfinished message has failed here, by queue offset."""

    def move(self, offset: int | None, *, only_forward: bool) -> bool:
        """Note how far the queue is finished; return whether this is a change."""
        if offset is None or offset == self.offset or (only_forward and offset < self.offset):
            return False
        self.offset = offset
        self.is_changed = True
        return True

    def reset_to(self, offset: int) -> None:
        """Forget everything that was fetched, and go on at another offset."""
        self.processing.is_dropped = True
        self.processing = ProcessQueue()
        self.next_offset = offset
        self.times.clear()
        self.suspended_until = 0


def shown(assignments: Mapping[MessageQueue, Assignment]) -> str:
    """Return the queues as one text for the log."""
    return " ".join(f"{queue.topic}/{queue.queue_id}" for queue in sorted(assignments))
