"""What reads and searches answer, and descriptions of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput.status import ReadStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.record.view import MessageView

__all__ = ["MissingMessage", "QueryResult", "QueueInfo", "ReadResult"]


@attrs.frozen
class MissingMessage:
    """A place in a queue whose message cannot be read any more."""

    queue_offset: int
    physical_offset: int
    """Where its record stood; the beginning of what was lost, where the record itself is gone."""
    size: int
    """Bytes of it, or of what was lost there; 0 where that is not known."""
    reason: str
    """What is known of it, for people."""


@attrs.frozen
class ReadResult:
    """Answer to one read of one queue; iterates over its messages."""

    status: ReadStatus
    next_queue_offset: int
    """Where the next read should begin; follows RocketMQ's ``nextBeginOffset``."""
    min_queue_offset: int
    max_queue_offset: int
    """First queue offset that is not there yet."""
    messages: tuple[MessageView, ...] = ()
    queue_offsets: tuple[int, ...] = ()
    """Place of each message in the queue read (a light queue's are not those in the records)."""
    holes: tuple[MissingMessage, ...] = ()
    """Places between the one asked for and ``next_queue_offset`` that hold no message any more."""

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[MessageView]:
        return iter(self.messages)

    def __bool__(self) -> bool:
        return self.status is ReadStatus.FOUND


@attrs.frozen
class QueryResult:
    """Answer to one search by key; iterates over its messages."""

    messages: tuple[MessageView, ...]
    """In the order that was asked for."""
    is_complete: bool
    """Whether there are no more messages than these, in that direction."""
    after: int | None = None
    """What to give to the next search, so that it goes on behind these; None where all are here."""
    indexed_to: int = 0
    """Physical offset below which all messages were looked at; those behind come later."""

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[MessageView]:
        return iter(self.messages)


@attrs.frozen
class QueueInfo:
    """One queue of one topic, as ``mqadmin topicStatus`` shows it."""

    topic: str
    queue_id: int
    min_queue_offset: int
    max_queue_offset: int
    last_update_timestamp: int | None = None
    """Store time of the newest message, ms; None when there is none to read."""

    @property
    def message_count(self) -> int:
        """Messages between the two offsets."""
        return self.max_queue_offset - self.min_queue_offset
