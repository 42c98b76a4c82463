"""`CopySurvey`: finds the delivered copies in a part of the log, to learn what was delivered.

A delivered message carries the property text that it was parked with, ``DELAY`` and ``REAL_TOPIC``
included, and stands under its real topic. No other message does, as a message that is put with
``DELAY`` is parked. The copies of a level, compared with its parked messages, tell which parked
messages were delivered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.record.layout import TRANSACTION_COMMIT
from reput_schedule.config import LEVEL_MAX
from reput_schedule.delaylevels.layout import PROPERTY_LEVEL, SCHEDULE_TOPIC, parse_level
from reput_schedule.delaylevels.parkedmessages import parked_rows
from reput_schedule.delaylevels.restoredmessage import fingerprint, restored

if TYPE_CHECKING:
    from reput.log import LogView
    from reput.record import DispatchBatch

_COPIES_MAX: Final = 200_000  # of one level; the newest are kept


@attrs.define(eq=False, repr=False)
class FoundCopies:
    """The delivered messages of one level."""

    fingerprints: deque[bytes] = attrs.field(factory=lambda: deque(maxlen=_COPIES_MAX))
    last_offset: int = -1
    """Physical offset of the newest copy."""

    @property
    def is_full(self) -> bool:
        """Whether older copies may have been left out."""
        return len(self.fingerprints) == self.fingerprints.maxlen

    def counted(self, *, each_once: bool) -> Counter[bytes]:
        """Return how many copies there are of each fingerprint; at most 1 with ``each_once``."""
        found = Counter(self.fingerprints)
        return Counter(dict.fromkeys(found, 1)) if each_once else found


class CopySurvey:
    """Looks at ``[start, end)`` of a log, window by window.

    Attributes:
        copies: by level.
        next_offsets: queue offset after the last parked message, by level; only levels with one.
    """

    def __init__(self, log: LogView, start: int, end: int) -> None:
        self.start, self.end = max(start, log.min_physical_offset), end
        self.copies: dict[int, FoundCopies] = {}
        self.next_offsets: dict[int, int] = {}
        self._batches: Iterator[DispatchBatch] = iter(())
        if self.start < end:
            self._batches = log.scan(self.start, end)

    def advance(self, window_count: int) -> bool:
        """Read ``window_count`` windows more, and return whether the part is finished."""
        for _ in range(window_count):
            batch = next(self._batches, None)
            if batch is None:
                return True
            if len(batch):
                self._look_at(batch)
        return False

    def _look_at(self, batch: DispatchBatch) -> None:
        parked = parked_rows(batch)
        levels, queue_offsets = batch.queue_id[parked] + 1, batch.queue_offset[parked]
        for level in np.unique(levels[(levels >= 1) & (levels <= LEVEL_MAX)]).tolist():
            following = int(queue_offsets[levels == level].max()) + 1
            self.next_offsets[level] = max(self.next_offsets.get(level, 0), following)
        transaction = batch.transaction
        delivered = batch.text(PROPERTY_LEVEL).present
        delivered &= (transaction == 0) | (transaction == TRANSACTION_COMMIT)
        delivered[parked] = False
        for row in np.flatnonzero(delivered).tolist():
            self._add(batch, row)

    def _add(self, batch: DispatchBatch, row: int) -> None:
        view = batch.message(row)
        level = parse_level(view.properties.get(PROPERTY_LEVEL, "")) or 0
        try:
            message = restored(view)
        except CorruptFileError:
            return
        if message is None or not 1 <= level <= LEVEL_MAX or view.topic == SCHEDULE_TOPIC:
            return
        if (message.topic, message.queue_id) != (view.topic, view.queue_id):
            return
        copies = self.copies.setdefault(level, FoundCopies())
        copies.fingerprints.append(fingerprint(view))
        copies.last_offset = view.physical_offset
