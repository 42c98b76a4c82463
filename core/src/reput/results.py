"""What the store answers: receipts of puts, results of reads, descriptions of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import attrs
import numpy as np

from reput.ids import offset_message_id
from reput.status import Durability, PutStatus, ReadStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from reput.view import MessageView

__all__ = [
    "BatchReceipt",
    "FlushProgress",
    "Hole",
    "QueryResult",
    "QueueInfo",
    "ReadResult",
    "Receipt",
]


class FlushProgress(Protocol):
    """What a receipt asks about the log; the commit log is one."""

    store_host: bytes

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        ...

    def wait_flushed(self, physical_offset: int, timeout: float | None) -> bool:
        """Return whether everything below ``physical_offset`` is on disk, waiting for it."""
        ...


# A tuple and no attrs class: one is made for every put, and this takes a third of the time.
class Receipt(NamedTuple):
    """Proof that one message was stored, and where."""

    progress: FlushProgress
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    """Bytes of the whole record."""
    store_timestamp: int
    """ms."""

    @property
    def status(self) -> PutStatus:
        """Always ``PUT_OK``: what was not stored is an exception."""
        return PutStatus.PUT_OK

    @property
    def msg_id(self) -> str:
        """Offset message id."""
        return offset_message_id(self.progress.store_host, self.physical_offset)

    @property
    def end_offset(self) -> int:
        """Physical offset behind the record."""
        return self.physical_offset + self.size

    @property
    def durability(self) -> Durability:
        """The level that the record has reached by now."""
        durable = self.progress.flushed_offset >= self.end_offset
        return Durability.DURABLE if durable else Durability.APPENDED

    def wait(self, timeout: float | None = None) -> Durability:
        """Wait until the record is on disk, at most ``timeout`` seconds; the level reached.

        Asks for a flush, so it takes about as long as one.

        Raises:
            ServiceNotAvailableError: flushing failed; the record may never become durable.
        """
        self.progress.wait_flushed(self.end_offset, timeout)
        return self.durability


@attrs.define(eq=False)
class BatchReceipt:
    """Proof that ``n`` messages were stored, in their order; a sequence of `Receipt`."""

    progress: FlushProgress
    topics: Sequence[str]
    """``(n,)``."""
    queue_ids: npt.NDArray[np.int64]
    queue_offsets: npt.NDArray[np.int64]
    physical_offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    store_timestamps: npt.NDArray[np.int64]
    """``(n,)``, ms."""

    @classmethod
    def of(cls, progress: FlushProgress, receipts: Sequence[Receipt]) -> Self:
        """The receipts of single messages as one."""
        columns = list(zip(*receipts, strict=True)) or [()] * len(Receipt._fields)
        _, topics, queue_ids, queue_offsets, physical_offsets, sizes, timestamps = columns
        numbers = (queue_ids, queue_offsets, physical_offsets, sizes, timestamps)
        return cls(progress, topics, *(np.array(column, np.int64) for column in numbers))

    def __len__(self) -> int:
        return len(self.physical_offsets)

    def __getitem__(self, row: int) -> Receipt:
        return Receipt(
            self.progress,
            self.topics[row],
            int(self.queue_ids[row]),
            int(self.queue_offsets[row]),
            int(self.physical_offsets[row]),
            int(self.sizes[row]),
            int(self.store_timestamps[row]),
        )

    def __iter__(self) -> Iterator[Receipt]:
        return (self[row] for row in range(len(self)))

    @property
    def status(self) -> PutStatus:
        """Always ``PUT_OK``."""
        return PutStatus.PUT_OK

    @property
    def msg_id(self) -> str:
        """Ids of all messages, comma-joined, as RocketMQ answers a batch."""
        return ",".join(receipt.msg_id for receipt in self)

    @property
    def end_offset(self) -> int:
        """Physical offset behind the last record; 0 when there is none."""
        return int(self.physical_offsets[-1] + self.sizes[-1]) if len(self) else 0

    @property
    def durability(self) -> Durability:
        """The level that all of them have reached by now."""
        durable = self.progress.flushed_offset >= self.end_offset
        return Durability.DURABLE if durable else Durability.APPENDED

    def wait(self, timeout: float | None = None) -> Durability:
        """Like `Receipt.wait`, for all of them."""
        self.progress.wait_flushed(self.end_offset, timeout)
        return self.durability


@attrs.frozen
class Hole:
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
    holes: tuple[Hole, ...] = ()
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
