"""One consume queue: its extent, and the rules by which units are added.

Source: RocketMQ ``ConsumeQueue#putMessagePositionInfo``: a unit whose record ends at or below the
end of the newest one is there already; a queue offset below the next one is a repeat; a queue
offset above it leaves no gap, but is written at the next place, with a warning; queue offset 0 is
written wherever the queue stands. Different on purpose: where the log is known to have lost records
in between, later units keep their place. The units of the lost messages are *hole units*, which
repeat the unit after them; a reader that does not know hole units gets that message more than once,
and no message at a wrong place. The same holds below the queue's floor
(`reput.log.writer.queueoffsets`): queue offsets missing there were given once, and the files were
rebuilt from a log that no longer has the messages.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reput.log import CUT
from reput.record.layout import LIGHT_QUEUE_PREFIX, RECORD_MIN_SIZE
from reput_consumequeue.layout import UNIT, UNIT_DTYPE, UNIT_SIZE, gone_units, pre_blank_units
from reput_consumequeue.queuefiles import QueueFiles
from reput_consumequeue.recordfiles import FileSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_consumequeue.extend.extendfiles import ExtendFiles
    from reput_consumequeue.queue.unitwrites import UnitWrites

logger = logging.getLogger(__name__)


class ConsumeQueue:
    """Extent and files of one queue. One thread appends; any thread may read.

    Attributes:
        min_offset: first unit that may be read.
        max_offset: first unit that does not exist; grows when the bytes of a unit are written.
        max_physical_offset: end of the newest record that a unit points to, -1 without one.
        min_physical_offset: beginning of the log for which `min_offset` is known to be right.
        extend: the extend files; None until they are needed.
        is_light: whether it lists messages of other topics.
    """

    __slots__ = (
        "extend",
        "files",
        "is_light",
        "max_offset",
        "max_physical_offset",
        "min_offset",
        "min_physical_offset",
        "queue_id",
        "topic",
        "topic_bytes",
    )

    is_batch: ClassVar[bool] = False
    """Whether units lead to records of several messages; see `BatchQueue`."""
    unit_dtype: ClassVar[np.dtype[np.void]] = UNIT_DTYPE

    def __init__(self, topic: str, queue_id: int, directory: str, shared: FileSet) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.is_light = topic.startswith(LIGHT_QUEUE_PREFIX)
        self.queue_id = queue_id
        self.files = QueueFiles(directory, shared, self.unit_dtype)
        self.extend: ExtendFiles | None = None
        self.min_offset = 0
        self.max_offset = 0
        self.max_physical_offset = -1
        self.min_physical_offset = -1

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} [{self.min_offset}, {self.max_offset})>"

    def offset_of(self, unit: int) -> int:
        """Return the queue offset of the first message of a unit, or of the next message."""
        return unit

    def append_run(
        self,
        data: memoryview,
        queue_offsets: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        *,
        consecutive: bool,
        writes: UnitWrites | None = None,
    ) -> None:
        """Add the units of one batch that belong to this queue.

        Args:
            data: the units, 20 bytes each.
            queue_offsets: ``(n,)`` queue offset that each record states.
            ends: ``(n,)`` physical offset after each record, ascending.
            consecutive: whether each queue offset is the one before it plus 1.
            writes: what writes them, and moves the extent then; here and now when left out.
        """
        first = 0
        if int(ends[0]) <= self.max_physical_offset:
            first = int(ends.searchsorted(self.max_physical_offset, "right"))
            if first == len(ends):
                return
        queue_offset = int(queue_offsets[first])
        if self.max_physical_offset < 0 and (
            not self.files.bases or queue_offset != self.max_offset
        ):
            begins = max(queue_offset, 0)  # no honest writer states a negative offset
            physical_offset = UNIT.unpack(_units(data, first, first + 1))[0]
            self._begin(begins - self._lost_before(begins, physical_offset))
        if consecutive and queue_offset == self.max_offset:
            self._write(data[first * UNIT_SIZE :], int(ends[-1]), writes)
        else:
            self._append_unlike(data, queue_offsets, ends, first, writes)

    def _begin(self, queue_offset: int) -> None:
        """Create the first file of an empty queue.

        An existing file was left by a crash without its units, or without all of its pre-blank
        units; it does not tell where the queue begins.
        """
        units_per_file = self.files.per_file
        base = queue_offset - queue_offset % units_per_file
        self._begin_file(base, pre_blank_units(queue_offset - base))
        self.min_offset = self.max_offset = queue_offset

    def _begin_file(self, base: int, units: bytes) -> None:
        self.files.clear()
        if self.extend is not None:
            self.extend.clear()
        self.files.make(base)
        if units:
            self.files.write(base, memoryview(units))

    def _append_unlike(
        self,
        data: memoryview,
        queue_offsets: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        first: int,
        writes: UnitWrites | None,
    ) -> None:
        """Apply the rules to a run that is not what should come next, stretch by stretch.

        In a stretch each queue offset is the one before it plus 1: if one unit is added, all later
        units of the stretch are.
        """
        stated = queue_offsets[first:]
        breaks = np.flatnonzero((stated[1:] != stated[:-1] + 1) | (stated[1:] == 0)) + 1
        next_offset, gap = self.max_offset, False
        last = -1  # row of the last added unit
        parts: list[memoryview] = []
        for start, stop in pairwise([0, *breaks.tolist(), len(stated)]):
            queue_offset = int(stated[start])
            if queue_offset == 0 and next_offset > 0:
                last = first + start
                parts.append(_units(data, last, last + 1))
                start, queue_offset, next_offset = start + 1, 1, next_offset + 1
            start += min(max(next_offset - queue_offset, 0), stop - start)
            if start == stop:
                continue  # repeats
            missing = max(queue_offset - next_offset, 0)
            unit = _units(data, first + start, first + start + 1)
            before = int(ends[last]) if last >= 0 else self.max_physical_offset
            if missing and (
                self._were_lost(missing, before, UNIT.unpack(unit)[0])
                or self._were_given(next_offset, queue_offset, UNIT.unpack(unit)[0])
            ):
                parts.append(memoryview(bytes(unit) * missing))
                next_offset = queue_offset
            elif missing and not gap:
                gap = True  # logged once: a log may be full of gaps
                logger.warning(
                    "gap in queue topic=%s queue_id=%d expected=%d found=%d",
                    self.topic,
                    self.queue_id,
                    next_offset,
                    queue_offset,
                )
            parts.append(_units(data, first + start, first + stop))
            last = first + stop - 1
            next_offset += stop - start
        if parts:
            whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
            self._write(whole, int(ends[last]), writes)

    def _were_lost(self, count: int, start: int, end: int) -> bool:
        """Return whether ``count`` records may have been lost between two physical offsets.

        Before a queue's first record anything may have been lost, of any queue: there the losses
        must name the messages.
        """
        if start < 0:
            return self._lost_before(self.max_offset + count, end) >= count
        lost = sum(
            min(loss.end_offset, end) - max(loss.start_offset, start)
            for loss in self.files.shared.losses(start, end)
            if loss.action != CUT
        )
        return count <= lost // RECORD_MIN_SIZE

    def _lost_before(self, queue_offset: int, physical_offset: int) -> int:
        """Return how many messages right below a queue offset are recorded as lost, by name.

        The queue begins with them: with pre-blank units in their place, which state no record,
        RocketMQ skips the rest of the log's file after the first of them.
        """
        if queue_offset == 0 or self.extend is not None:
            return 0
        named = {
            loss.queue_offset
            for loss in self.files.shared.losses(0, physical_offset)
            if (loss.topic, loss.queue_id) == (self.topic, self.queue_id) and loss.action != CUT
        }
        count = 0
        while queue_offset - count - 1 in named:
            count += 1
        return count

    def _were_given(self, first: int, stop: int, end: int) -> bool:
        """Return whether all queue offsets in ``[first, stop)`` are known to have been given.

        Whatever a floor says, a log cannot hold more messages before ``end`` than fit there.
        """
        is_given = first < stop <= self.files.shared.floor(self.topic, self.queue_id)
        return is_given and stop - first <= end // RECORD_MIN_SIZE

    def go_on_at(self, queue_offset: int, min_physical_offset: int) -> None:
        """Let a queue without messages to read continue at ``queue_offset``.

        Files that are rebuilt from the log must not begin at 0 again where consumers are ahead.

        Args:
            queue_offset: of the next message; not below `max_offset`.
            min_physical_offset: where the log begins.
        """
        units_per_file = self.files.per_file
        base = queue_offset - queue_offset % units_per_file
        self.max_physical_offset = -1
        self._begin_file(base, gone_units(queue_offset - base, min_physical_offset))
        self.min_offset = self.max_offset = queue_offset

    def _write(self, data: memoryview, end: int, writes: UnitWrites | None = None) -> None:
        count = len(data) // self.files.record_size
        if writes is not None and self.extend is None:
            place = self.files.place_in_active(self.max_offset, count)
            if place is not None:  # else a file is created, in the order of a single write
                writes.add(*place, data, partial(self._grow, count, end))
                return
        if self.extend is not None:
            data = self.extend.addressed(data)
        self.files.write(self.max_offset, data)
        if self.extend is not None:
            self.extend.keep()
        self._grow(count, end)

    def _grow(self, count: int, end: int) -> None:
        # Readers look at the extent first, so it must grow after the bytes are written.
        self.max_physical_offset = end
        self.max_offset += count


def _units(data: memoryview, first: int, stop: int) -> memoryview:
    return data[first * UNIT_SIZE : stop * UNIT_SIZE]
