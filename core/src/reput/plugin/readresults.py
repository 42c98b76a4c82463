"""Answers of reads and searches, and descriptions of queues."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs

from reput.status import ReadStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from reput.record.batch import DispatchBatch
    from reput.record.messageview import MessageView


@attrs.frozen
class MissingMessage:
    """A place in a queue whose message cannot be read any more."""

    queue_offset: int
    physical_offset: int
    """Where the message's record stood, or where the lost range that contained it begins."""
    size: int
    """Bytes of the record, or of the lost range; 0 if not known."""
    reason: str
    """Known facts of the loss, for people."""


@attrs.frozen(slots=False)  # which are made in less than half of the time
class ReadResult:
    """Answer to one read of one queue; iterates over its messages."""

    status: ReadStatus
    next_queue_offset: int
    """Where the next read should begin; follows RocketMQ's ``nextBeginOffset``."""
    min_queue_offset: int
    max_queue_offset: int
    """First queue offset that has no message yet."""
    messages: tuple[MessageView, ...] = ()
    _queue_offsets: Sequence[int] = attrs.field(default=(), eq=tuple, repr=False)
    holes: tuple[MissingMessage, ...] = ()
    """Lost messages between the queue offset asked for and ``next_queue_offset``."""

    @property
    def queue_offsets(self) -> tuple[int, ...]:
        """Queue offset of each message in this queue; in a light queue the record's differs."""
        return tuple(self._queue_offsets)  # most reads give a range, and few callers ask

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[MessageView]:
        return iter(self.messages)

    def __bool__(self) -> bool:
        return self.status is ReadStatus.FOUND


@attrs.frozen(eq=False, slots=False)
class ReadColumns:
    """Answer to one read of one queue, as columns; row ``i`` is one message in all of them."""

    status: ReadStatus
    next_queue_offset: int
    """As in `ReadResult`."""
    min_queue_offset: int
    max_queue_offset: int
    """First queue offset that has no message yet."""
    batch: DispatchBatch
    """The ``n`` messages, in memory of their own."""
    _queue_offsets: npt.NDArray[np.int64] | range
    holes: tuple[MissingMessage, ...] = ()
    """As in `ReadResult`."""

    @functools.cached_property
    def queue_offsets(self) -> npt.NDArray[np.int64]:
        """``(n,)`` int64: queue offset of each message in this queue.

        In a light queue it differs from ``batch.queue_offset``.
        """
        import numpy as np

        found = self._queue_offsets  # a range for most reads, few of which are asked for this
        if isinstance(found, range):
            return np.arange(found.start, found.stop, dtype=np.int64)
        return np.asarray(found, np.int64)

    @classmethod
    def of(cls, result: ReadResult) -> ReadColumns:
        """Return the same answer as columns.

        Raises:
            CorruptFileError: a message has lengths that contradict each other.
        """
        import numpy as np

        from reput.record.decode import Decoder

        messages = result.messages
        window = np.frombuffer(b"".join([message.record for message in messages]), np.uint8)
        batch = Decoder(check_offset=False).decode(window, 0).batch
        if len(batch) < len(messages):
            messages[len(batch)].places()  # raises, with the reason
        batch.stand_at(np.array([message.physical_offset for message in messages], np.int64))
        return cls(
            result.status,
            result.next_queue_offset,
            result.min_queue_offset,
            result.max_queue_offset,
            batch,
            np.array(result.queue_offsets, np.int64),
            result.holes,
        )

    def __len__(self) -> int:
        return len(self.batch.topic_code)

    def __bool__(self) -> bool:
        return self.status is ReadStatus.FOUND


@attrs.frozen
class QueryResult:
    """Answer to one search by key; iterates over its messages."""

    messages: tuple[MessageView, ...]
    """In the order that was asked for."""
    is_complete: bool
    """Whether no message follows these in the order asked for."""
    after: int | None = None
    """Give this to the next search to continue after these messages; None if there are no more."""
    indexed_to: int = 0
    """Physical offset below which the search covers all messages."""

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
    """Store time of the newest message, ms; None if the queue has no message to read."""

    @property
    def message_count(self) -> int:
        """Messages from ``min_queue_offset`` to ``max_queue_offset``."""
        return self.max_queue_offset - self.min_queue_offset
