"""Receipts of puts: offsets of the stored messages, and whether these are on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import attrs
import numpy as np

from reput.record.messageids import offset_message_id
from reput.status import Durability, PutStatus

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import numpy.typing as npt

    from reput.errors import PutError
    from reput.log.writer.flushleader import RequestedFlusher


class FlushProgress(Protocol):
    """What receipts need of the commit log."""

    store_host: bytes

    @property
    def flusher(self) -> RequestedFlusher:
        """Flushes that an event loop asks for."""
        ...

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        ...

    def wait_flushed(self, physical_offset: int, timeout: float | None) -> bool:
        """Wait until the log is on disk below ``physical_offset``; False after ``timeout``."""
        ...


# A tuple instead of an attrs class, in a third of the time: one is made for every put.
class Receipt(NamedTuple):
    """Where one put message was stored."""

    progress: FlushProgress
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    """Bytes of the whole record."""
    store_timestamp: int
    """ms."""

    def __repr__(self) -> str:
        return (
            f"<Receipt {self.topic}/{self.queue_id} queue_offset={self.queue_offset} "
            f"physical_offset={self.physical_offset} size={self.size} msg_id={self.msg_id} "
            f"{self.durability.name}>"
        )

    @property
    def status(self) -> PutStatus:
        """Always ``PUT_OK``: a failed put raises an exception."""
        return PutStatus.PUT_OK

    @property
    def msg_id(self) -> str:
        """Offset message id."""
        return offset_message_id(self.progress.store_host, self.physical_offset)

    @property
    def end_offset(self) -> int:
        """Physical offset after the record."""
        return self.physical_offset + self.size

    @property
    def durability(self) -> Durability:
        """Whether the record is on disk by now."""
        durable = self.progress.flushed_offset >= self.end_offset
        return Durability.DURABLE if durable else Durability.APPENDED

    def wait(self, timeout: float | None = None) -> Durability:
        """Wait until the record is on disk, at most ``timeout`` seconds; return its durability.

        Flushes if necessary, so it takes about as long as a flush.

        Raises:
            ServiceNotAvailableError: flushing failed; the record may never become durable.
        """
        self.progress.wait_flushed(self.end_offset, timeout)
        return self.durability

    def __await__(self) -> Generator[Any, None, Durability]:
        """Wait as `wait` does, without blocking the event loop; needs ``reput-aio``."""
        return _awaited(self)


@attrs.define(eq=False)
class BatchReceipt:
    """Where ``n`` put messages were stored, in their order; a sequence of `Receipt`."""

    progress: FlushProgress
    topics: Sequence[str]
    """``(n,)``."""
    queue_ids: npt.NDArray[np.int64]
    queue_offsets: npt.NDArray[np.int64]
    physical_offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    store_timestamps: npt.NDArray[np.int64]
    """``(n,)``, ms."""

    def __repr__(self) -> str:
        if not len(self):
            return "<BatchReceipt 0 messages>"
        return (
            f"<BatchReceipt {len(self)} messages physical_offset={self.physical_offsets[0]} "
            f"end_offset={self.end_offset} {self.durability.name}>"
        )

    @classmethod
    def of(cls, progress: FlushProgress, receipts: Sequence[Receipt]) -> Self:
        """Return the receipts of single messages as one."""
        columns = list(zip(*receipts, strict=True)) or [()] * len(Receipt._fields)
        _, topics, queue_ids, queue_offsets, physical_offsets, sizes, timestamps = columns
        numbers = (queue_ids, queue_offsets, physical_offsets, sizes, timestamps)
        return cls(progress, topics, *(np.array(column, np.int64) for column in numbers))

    def first(self, count: int) -> Self:
        """Return the receipt of the first ``count`` messages."""
        return attrs.evolve(
            self,
            topics=self.topics[:count],
            queue_ids=self.queue_ids[:count],
            queue_offsets=self.queue_offsets[:count],
            physical_offsets=self.physical_offsets[:count],
            sizes=self.sizes[:count],
            store_timestamps=self.store_timestamps[:count],
        )

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
        """Offset message ids of all messages, joined by commas, as RocketMQ answers a batch."""
        return ",".join(receipt.msg_id for receipt in self)

    @property
    def end_offset(self) -> int:
        """Physical offset after the last record; 0 without records."""
        return int(self.physical_offsets[-1] + self.sizes[-1]) if len(self) else 0

    def note_in(self, error: PutError) -> None:
        """Have an error say that these messages are stored."""
        error.stored_count = len(self)
        error.stored = self if len(self) else None

    @property
    def durability(self) -> Durability:
        """Whether all of the records are on disk by now."""
        durable = self.progress.flushed_offset >= self.end_offset
        return Durability.DURABLE if durable else Durability.APPENDED

    def wait(self, timeout: float | None = None) -> Durability:
        """Wait as `Receipt.wait` does, for all of the records."""
        self.progress.wait_flushed(self.end_offset, timeout)
        return self.durability

    def __await__(self) -> Generator[Any, None, Durability]:
        """Wait as `Receipt.__await__` does, for all of the records."""
        return _awaited(self)


def _awaited(receipt: Receipt | BatchReceipt) -> Generator[Any, None, Durability]:
    package: Any = sys.modules["reput"]  # an import would close a circle
    found: Generator[Any, None, Durability] = package.aio.durability(receipt).__await__()
    return found
