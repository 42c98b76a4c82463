"""One queue that is derived from the log: each unit stands where its record says.

RocketMQ keeps a queue in RocksDB as a table from queue offsets to messages, and removes all of them
with their topic. So a record takes the queue offset that it states, and queue offset 0 begins the
queue again: its topic was deleted and created once more. Messages that are missing in between
become hole units; see `reput_consumequeue.queue.consumequeue`.

No checksum covers a queue offset. One that is lower than the next one, or higher than the log can
explain, counts only if the next record goes on from there; the queue then begins there.

Source: RocketMQ ``RocksDBConsumeQueueTable#buildAndPutCQByteBuffer``, ``#destroyCQ``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record.layout import RECORD_MIN_SIZE
from reput_consumequeue.derived.derivedunits import DerivedUnits
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.queue.consumequeue import ConsumeQueue

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_consumequeue.derived.unitspace import UnitSpace
    from reput_consumequeue.queue.unitwrites import UnitWrites
    from reput_consumequeue.recordfiles import FileSet

_QUEUE_OFFSET_MAX: Final = 1 << 62


class DerivedQueue(ConsumeQueue):
    """A queue without files. One thread appends, any thread may read."""

    __slots__ = ("_stray", "units")

    def __init__(self, topic: str, queue_id: int, shared: FileSet, space: UnitSpace) -> None:
        super().__init__(topic, queue_id, "", shared)
        self.files = self.units = DerivedUnits(shared, space)
        self._stray: tuple[int, bytes] | None = None

    def append_run(
        self,
        data: memoryview,
        queue_offsets: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        *,
        consecutive: bool,
        writes: UnitWrites | None = None,
    ) -> None:
        """See `ConsumeQueue.append_run`; the rules are those of this module."""
        first = int(ends.searchsorted(self.max_physical_offset, "right"))
        if first == len(ends):
            return
        borders = [first, len(ends)]
        if not consecutive:
            breaks = np.flatnonzero(queue_offsets[first + 1 :] != queue_offsets[first:-1] + 1)
            borders[1:1] = (breaks + first + 1).tolist()
        for start, stop in pairwise(borders):
            units = data[start * UNIT_SIZE : stop * UNIT_SIZE]
            self._take(int(queue_offsets[start]), units, int(ends[stop - 1]))

    def _take(self, queue_offset: int, units: memoryview, end: int) -> None:
        """Put consecutive units at ``queue_offset``; the last one's record ends at ``end``."""
        stray, self._stray = self._stray, None
        if not 0 <= queue_offset < _QUEUE_OFFSET_MAX:
            return
        begins = self.max_physical_offset < 0 or queue_offset == 0
        missing = queue_offset - self.max_offset
        if not begins and not 0 <= missing <= end // RECORD_MIN_SIZE:
            if stray is not None and stray[0] + 1 == queue_offset:
                queue_offset, units = stray[0], memoryview(stray[1] + units)
            elif len(units) == UNIT_SIZE:
                self._stray = queue_offset, bytes(units)
                return
            begins = True
        self.units.write(queue_offset, units, begins=begins)
        # Readers look at the extent first, so it must grow after the units are written.
        self.max_physical_offset = end
        self.max_offset = queue_offset + len(units) // UNIT_SIZE
        if begins:
            self.min_offset, self.min_physical_offset = queue_offset, -1
