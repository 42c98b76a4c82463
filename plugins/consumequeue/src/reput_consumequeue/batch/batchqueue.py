"""One batch queue: its extent in units and in queue offsets, and how units are added.

Source: RocketMQ 5 ``BatchConsumeQueue#putBatchMessagePositionInfo``,
``CommitLog#setBatchSizeIfNeeded``: a unit whose record is not after the newest one is there
already; every other one is added, whatever queue offset it states. A record with ``INNER_BASE`` and
``INNER_NUM`` states its queue offset and its count there; any other has its own queue offset, and
counts as one message. Different on purpose: a record whose count or queue offset no queue can have
is not listed, where RocketMQ writes a unit at which its recovery stops.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from reput.record.layout import PROPERTY_INNER_BASE, PROPERTY_INNER_NUM, RECORD_MIN_SIZE
from reput_consumequeue.batch.layout import COUNT_MAX, UNIT_DTYPE
from reput_consumequeue.layout import UNIT_DTYPE as PLAIN_DTYPE
from reput_consumequeue.queue.consumequeue import ConsumeQueue

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_consumequeue.queuefiles import Units
    from reput_consumequeue.unitruns import UnitRun

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_CHUNK: Final = 4_096  # units of one read


class BatchQueue(ConsumeQueue):
    """As `ConsumeQueue`, whose offsets are places of units here; `extent` has queue offsets."""

    __slots__ = ("_extent", "_extent_of")

    is_batch: ClassVar[bool] = True
    unit_dtype: ClassVar[np.dtype[np.void]] = UNIT_DTYPE

    _extent: tuple[int, int]
    _extent_of: tuple[int, int, int]

    @property
    def extent(self) -> tuple[int, int]:
        """The first queue offset that may be read, and the one after the last; both 0 when empty.

        Without a message to read, both are the queue offset of the next message.
        """
        low, high = self.min_offset, self.max_offset
        state = low, high, self.max_physical_offset
        if getattr(self, "_extent_of", None) != state:
            last = self.files.read(high - 1, 1)  # none of an empty queue
            end = int(last[0]["queue_offset"]) + int(last[0]["count"]) if len(last) else 0
            begin = self.base_of(low) if low < high else end
            self._extent, self._extent_of = (begin, end), state
        return self._extent

    def base_of(self, unit: int) -> int:
        """Return the queue offset of the first message of a unit; -1 if it cannot be read."""
        units = self.files.read(unit, 1)
        return int(units[0]["queue_offset"]) if len(units) else -1

    def unit_of(self, queue_offset: int) -> int:
        """Return the last unit that does not begin after ``queue_offset``, or the first one."""
        low, high = self.min_offset, self.max_offset
        found = bisect.bisect_right(range(high), queue_offset, low, high, key=self.base_of)
        return max(found - 1, low)

    def offset_of(self, unit: int) -> int:
        """See `ConsumeQueue.offset_of`."""
        return self.base_of(unit) if unit < self.max_offset else self.extent[1]

    def units(self, unit: int) -> Iterator[Units]:
        """Yield the units from ``unit`` on, in parts."""
        while unit < self.max_offset:
            units = self.files.read(unit, min(_CHUNK, self.max_offset - unit))
            if not len(units):
                return
            yield units
            unit += len(units)

    def append_batches(self, run: UnitRun, batch: DispatchBatch) -> None:
        """Add the units of a run.

        Args:
            run: as for a plain queue.
            batch: what the run was made of.
        """
        plain = np.frombuffer(run.data, PLAIN_DTYPE)
        new = run.ends > self.max_physical_offset
        rows = np.searchsorted(
            batch.physical_offset, plain["physical_offset"][new].astype(np.int64)
        )
        units = np.zeros(len(rows), UNIT_DTYPE)
        for name in PLAIN_DTYPE.names or ():
            units[name] = plain[name][new]
        bases, counts = _stated(batch, rows, run.queue_offsets[new])
        units["store_timestamp"] = batch.store_timestamp[rows]
        units["queue_offset"], units["compacted_offset"] = bases, -1
        listed = (bases >= 0) & (counts > 0) & (counts <= COUNT_MAX)
        units["count"] = np.where(listed, counts, 0)
        if listed.any():
            self._write(memoryview(units[listed].tobytes()), int(run.ends[new][listed][-1]))

    def go_on_at(self, queue_offset: int, min_physical_offset: int) -> None:
        """See `ConsumeQueue.go_on_at`: the unit of a lost message holds the place."""
        self.files.clear()
        unit = np.zeros(1, UNIT_DTYPE)
        unit["size"], unit["compacted_offset"] = RECORD_MIN_SIZE, -1
        unit["queue_offset"], unit["count"] = queue_offset - 1, 1
        self.files.make(0)
        self.files.write(0, memoryview(unit.tobytes()))
        self.min_offset = self.max_offset = 1
        self.max_physical_offset = RECORD_MIN_SIZE


def _stated(
    batch: DispatchBatch, rows: npt.NDArray[np.intp], queue_offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return ``(n,)`` queue offsets of first messages and numbers of messages; -1 if illegible."""
    bases, counts = queue_offsets.astype(np.int64), np.ones(len(rows), np.int64)
    nums, firsts = batch.text(PROPERTY_INNER_NUM), batch.text(PROPERTY_INNER_BASE)
    for at in np.flatnonzero(nums.present[rows] & firsts.present[rows]).tolist():
        texts = firsts[int(rows[at])] or "", nums[int(rows[at])] or ""
        bases[at], counts[at] = (int(text) if _NUMBER.fullmatch(text) else -1 for text in texts)
    return bases, counts
