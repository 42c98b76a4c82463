"""Goes ahead of a filtered read: which units are worth reading the log for.

Three looks, each cheaper than the next: what the units state (tags code, bit map), then the records
of many units at once, as columns; and in the end the message itself, which `wants` is asked for.
Only a sound message of the queue that is not wanted is left out: what is damaged, and the unit of a
message that is gone, is looked at by the read, and becomes the hole that it is without a filter.

Source: RocketMQ ``MessageFilter#isMatchedByConsumeQueue``, ``#isMatchedByCommitLog``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.checksum import crc32
from reput_consumequeue._extending import extended

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput.context import StoreContext
    from reput.filters import MessageFilter
    from reput.view import MessageView
    from reput_consumequeue._queue import ConsumeQueue

__all__ = ["Scout"]

_FEW = 24  # records that are sooner read one by one
_SPREAD = 12  # the log between them may be this many times as long as they are


@attrs.define(eq=False)
class Scout:
    """The filter of one read."""

    queue: ConsumeQueue
    context: StoreContext
    extend_file_size: int
    filter: MessageFilter

    def wants(self, message: MessageView) -> bool:
        """Whether the filter selects a message."""
        return self.filter.matches(message)

    def rows(
        self, queue_offset: int, units: npt.NDArray[np.void], following: tuple[int, int]
    ) -> list[int]:
        """Which of consecutive units the read has to look at, ascending.

        Args:
            queue_offset: place of the first.
            units: ``(n,)`` of `UNIT_DTYPE`.
            following: physical offset and size that the unit behind them states; -1 and anything
                where it is not known.
        """
        offsets = units["physical_offset"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        found = extended(self.queue, self.context, self.extend_file_size, units)
        look = ~found.is_known
        look |= self.filter.may_match(found.tags_codes, found.bit_maps, found.store_timestamps)
        # The unit of a message that is gone repeats the one behind it, and no filter is asked; nor
        # of the last one, where it is not known what stands behind it.
        is_gone = np.zeros(len(units), np.bool_)
        is_gone[:-1] = (offsets[1:] == offsets[:-1]) & (sizes[1:] == sizes[:-1])
        if len(units):
            is_gone[-1] = following[0] < 0 or following == (int(offsets[-1]), int(sizes[-1]))
        rows = np.flatnonzero(look & ~is_gone)
        if len(rows) > _FEW:
            rows = self._selected(queue_offset, rows, offsets, sizes)
        found_rows: list[int] = np.union1d(rows, np.flatnonzero(is_gone)).tolist()
        return found_rows

    def _selected(
        self,
        queue_offset: int,
        rows: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """``rows`` without those whose messages were read as columns, and are not wanted."""
        starts, ends = offsets[rows], offsets[rows] + sizes[rows]
        log = self.context.log
        span = int(ends[-1] - starts[0])
        if not 0 < span <= _SPREAD * int(sizes[rows].sum()):
            return rows
        if (starts[1:] < ends[:-1]).any() or (sizes[rows] <= 0).any():
            return rows  # no queue that was written in order
        if int(starts[0]) < log.min_physical_offset:
            return rows
        unwanted = np.zeros(len(rows), np.bool_)
        for batch in log.scan(int(starts[0]), int(ends[-1])):
            self._note_unwanted(batch, queue_offset + rows, starts, sizes[rows], unwanted)
        return rows[~unwanted]

    def _note_unwanted(
        self,
        batch: DispatchBatch,
        places: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        unwanted: npt.NDArray[np.bool_],
    ) -> None:
        if len(batch) == 0:
            return
        at = np.searchsorted(batch.physical_offset, starts)
        at[at == len(batch)] = 0
        # A message of this queue, whole, at its place; everything else is the read's to judge.
        is_one = (batch.physical_offset[at] == starts) & (batch.size[at] == sizes)
        is_one &= (batch.queue_id[at] == self.queue.queue_id) & (batch.queue_offset[at] == places)
        is_topic = np.array([name == self.queue.topic for name in batch.topics], np.bool_)
        is_one &= is_topic[batch.topic_code[at]]
        rows = np.flatnonzero(is_one & ~self.filter.matches_batch(batch)[at])
        unwanted[rows[_sound(batch, at[rows])]] = True


def _sound(batch: DispatchBatch, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of some rows have the body that their checksum says; those of other queues may not."""
    bodies, data = batch.body, batch.window.data
    starts = bodies.starts[rows].tolist()
    sizes = bodies.sizes[rows].tolist()
    crcs = (
        crc32(data[start : start + size]) & 0x7FFFFFFF
        for start, size in zip(starts, sizes, strict=True)
    )
    stated = batch.column("body_crc")[rows].astype(np.int64)
    found = np.fromiter(crcs, np.int64, len(rows))
    is_sound: npt.NDArray[np.bool_] = (found == stated) | (bodies.sizes[rows] == 0)
    return is_sound
