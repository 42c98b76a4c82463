"""`DeliveredCopies`: delivered messages found in the log, so that none of them is delivered again.

Only the commit log shows the deliveries since the last checkpoint: a delivered message is the
parked message with another topic and queue, and both have the same fingerprint. Messages that are
equal in everything share a fingerprint; they are counted, and it makes no difference which of them
was delivered.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import parse_properties
from reput.record.layout import (
    BORN_HOST_V6,
    PROPERTY_CRC,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    STORE_HOST_V6,
)
from reput_schedule.timerwheel.layout import PROPERTY_DEQUEUE_MS, PROPERTY_ENQUEUE_MS

if TYPE_CHECKING:
    from reput.record import DispatchBatch, Message, MessageView

_SIZE: Final = 16
_PASSED_OVER: Final = frozenset(
    {PROPERTY_ENQUEUE_MS, PROPERTY_DEQUEUE_MS, PROPERTY_CRC, PROPERTY_LIGHT_QUEUE_OFFSETS}
)


def fingerprint(message: Message) -> bytes:
    """Return a hash of what a delivered message and the message about to be put have in common."""
    text = message.properties if isinstance(message.properties, bytes) else b""
    properties = sorted(
        (name, value) for name, value in parse_properties(text).items() if name not in _PASSED_OVER
    )
    facts = (
        message.topic,
        message.queue_id,
        message.flag,
        message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6),
        message.born_timestamp,
        message.born_host,
        message.reconsume_times,
        properties,
    )
    import hashlib  # loads OpenSSL, and few openings look for copies

    hashed = hashlib.blake2b(repr(facts).encode("utf-8", "surrogatepass"), digest_size=_SIZE)
    hashed.update(message.body)
    return hashed.digest()


class DeliveredCopies:
    """Delivered messages of a part of the log, by fingerprint.

    Attributes:
        end: physical offset after that part; messages parked after it were not delivered in it.
        newest: store time of the last copy, ms.
    """

    def __init__(self, start: int = 0, end: int = 0) -> None:
        self._seen_to = start
        self.end = end
        self.newest = 0
        self._counts: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def look_at(self, batch: DispatchBatch) -> None:
        """Note the delivered messages of ``batch``; a batch, or a part of it, may come again."""
        if batch.end_offset <= self._seen_to or self._seen_to >= self.end:
            return
        offsets = batch.physical_offset
        wanted = (offsets >= self._seen_to) & (offsets < self.end)
        wanted &= batch.text(PROPERTY_DEQUEUE_MS).present
        rows = np.flatnonzero(wanted)
        if len(rows):
            self.newest = max(self.newest, int(batch.store_timestamp[rows].max()))
            self._counts.update(_of(batch.message(row)) for row in rows.tolist())
        self._seen_to = min(batch.end_offset, self.end)

    def take(self, message: Message, physical_offset: int) -> bool:
        """Return whether ``message`` was delivered already; true once for each delivered copy.

        Args:
            message: as it would be put.
            physical_offset: of the parked message.
        """
        if not self._counts or physical_offset >= self.end:
            return False
        key = fingerprint(message)
        left = self._counts.get(key, 0)
        if left > 1:
            self._counts[key] = left - 1
        elif left:
            del self._counts[key]
        return left > 0


def _of(view: MessageView) -> bytes:
    return fingerprint(view.to_message())
