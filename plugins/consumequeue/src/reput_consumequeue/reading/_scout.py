"""Goes ahead of a filtered read: which units are worth a look at their records, and which are not.

Three looks, each cheaper than the next: what the units state (tags code, bit map); then the records
of many units at once, as columns; and in the end single records, which `selects` is asked for. What
is left out is a message of the queue, at its place, that is not wanted. Everything else is looked
at by the read, and becomes the hole that it is without a filter.

Source: RocketMQ ``MessageFilter#isMatchedByConsumeQueue``, ``#isMatchedByCommitLog``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import RECORD_SIZE_MAX, Decoder, words_at
from reput.record.layout import HEADER_DTYPE, RECORD_MIN_SIZE
from reput_consumequeue.queue._extending import extended

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin import MessageFilter, StoreContext
    from reput.record import DispatchBatch, MessageView
    from reput_consumequeue.queue._queue import ConsumeQueue

    Rows = npt.NDArray[np.int64]

__all__ = ["Scout"]

_FEW = 24  # records that are sooner read one by one
_GAP_SIZE = 1 << 14  # bytes between two records that are sooner read than left out
_STRETCH_SIZE = 1 << 20  # bytes of the log that are read at a time
_SIZE_MAX = 1 << 23  # bytes of records that are looked at before the read has returned any
_TRIES = 4  # damaged records of a stretch behind which columns go on
_STATED: Final = HEADER_DTYPE.fields
assert _STATED is not None
_OFFSET_FIELD: Final = _STATED["physical_offset"]


@attrs.define(eq=False)
class Scout:
    """The filter of one read."""

    queue: ConsumeQueue
    context: StoreContext
    extend_file_size: int
    filter: MessageFilter
    selected: dict[int, bytes] = attrs.field(init=False, factory=dict)
    """Records that were found to be wanted, by their queue offsets."""

    def selects(self, place: int, message: MessageView) -> bool:
        """Whether the filter selects the message that was read at a place."""
        return place in self.selected or self.filter.matches(message)

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
        self.selected.clear()
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
            look[self._unwanted(queue_offset, rows, offsets[rows], sizes[rows])] = False
        kept: list[int] = np.flatnonzero(look | is_gone).tolist()
        return kept

    # ------------------------------------------------------------------ columns

    def _unwanted(self, queue_offset: int, rows: Rows, offsets: Rows, sizes: Rows) -> Rows:
        """Those of ``rows`` whose messages were looked at as columns, and are not wanted."""
        # Behind so many bytes one by one: the read may be full after a few large records.
        good = (sizes >= RECORD_MIN_SIZE) & (sizes <= RECORD_SIZE_MAX) & (offsets >= 0)
        rows, offsets, sizes = rows[good], offsets[good], sizes[good]
        count = int(np.searchsorted(np.cumsum(sizes), _SIZE_MAX, "right"))
        rows, offsets, sizes = rows[:count], offsets[:count], sizes[:count]
        is_unwanted = np.zeros(len(rows), np.bool_)
        decoder = Decoder(check_offset=False)  # they are moved together
        for first, stop in self._stretches(offsets, sizes):
            part = slice(first, stop)
            is_unwanted[part] = self._look_at(
                decoder, queue_offset + rows[part], offsets[part], sizes[part]
            )
        return rows[is_unwanted]

    def _stretches(self, offsets: Rows, sizes: Rows) -> list[tuple[int, int]]:
        """Runs of records that are worth one read; it ends where its commit-log file does."""
        if len(offsets) == 0:
            return []
        gaps = offsets[1:] - (offsets[:-1] + sizes[:-1])
        is_break = (gaps < 0) | (gaps > _GAP_SIZE)
        for size in (self.context.log.file_size, _STRETCH_SIZE):
            is_break |= np.diff(offsets // size) != 0
        borders = [0, *(np.flatnonzero(is_break) + 1).tolist(), len(offsets)]
        return list(pairwise(borders))

    def _look_at(
        self, decoder: Decoder, places: Rows, offsets: Rows, sizes: Rows
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which of neighbouring records are messages that are not wanted."""
        data, begins = self._together(offsets, sizes)
        window = np.frombuffer(data, np.uint8)
        unwanted = np.zeros(len(places), np.bool_)
        first = 0
        for _ in range(_TRIES):
            if first >= len(places) or int(begins[first]) >= len(window):
                break
            batch = decoder.decode(window[int(begins[first]) :], 0).batch
            batch = batch[: len(places) - first]
            if len(batch) == 0:
                first += 1
                continue
            part = slice(first, first + len(batch))
            is_one = self._are_messages(
                batch, begins[part] - begins[first], sizes[part], places[part], offsets[part]
            )
            is_wanted = self.filter.matches_batch(batch)
            unwanted[part] = is_one & ~is_wanted
            for row in np.flatnonzero(is_one & is_wanted).tolist():
                self.selected[int(places[first + row])] = batch.record(row)
            first += len(batch) + 1  # behind a record that is none
        return unwanted

    def _together(self, offsets: Rows, sizes: Rows) -> tuple[bytes, Rows]:
        """Neighbouring records without what stands between them, and where each begins."""
        start = int(offsets[0])
        data = self.context.log.read(start, int(offsets[-1] + sizes[-1]) - start)
        begins = np.cumsum(sizes) - sizes
        if int(begins[-1]) == int(offsets[-1]) - start:
            return data, begins  # nothing does
        starts = (offsets - start).tolist()
        ends = (offsets - start + sizes).tolist()
        parts = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        return b"".join(parts), begins

    def _are_messages(
        self, batch: DispatchBatch, starts: Rows, sizes: Rows, places: Rows, offsets: Rows
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which rows are messages of this queue, each whole and at its place."""
        dtype, position = _OFFSET_FIELD[:2]
        stated = words_at(batch.window, batch.start + position, dtype)
        is_one = (batch.start == starts) & (batch.size == sizes) & (stated == offsets)
        is_one &= (batch.queue_id == self.queue.queue_id) & (batch.queue_offset == places)
        is_topic = np.array([name == self.queue.topic for name in batch.topics], np.bool_)
        found: npt.NDArray[np.bool_] = is_one & is_topic[batch.topic_code]
        return found
