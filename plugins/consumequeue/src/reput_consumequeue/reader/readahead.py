"""Run ahead of a filtered read: find the units whose records have to be read.

Three steps, the cheapest first: what the units state (tags code, bit map); then the records of many
units at once, as columns; at last single records, for which the read calls `selects`. A message is
skipped if it belongs to the queue, is at its place and is not wanted. The read looks at all others,
and missing messages become holes as without a filter.

Source: RocketMQ ``MessageFilter#isMatchedByConsumeQueue``, ``#isMatchedByCommitLog``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import RECORD_SIZE_MAX, Decoder, words_at
from reput.record.layout import HEADER_DTYPE, RECORD_MIN_SIZE
from reput_consumequeue.queue.queueextend import extended

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin import MessageFilter, StoreContext
    from reput.record import DispatchBatch, MessageView
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

    Rows = npt.NDArray[np.int64]

_FEW = 24  # records that are faster read one by one
_GAP_SIZE = 1 << 14  # bytes between two records that are read rather than skipped
_STRETCH_SIZE = 1 << 20  # bytes of the log in one read
_SIZE_MAX = 1 << 23  # bytes of records that are read before the read has returned any
_TRIES = 4  # damaged records of a stretch after which columns are still used
_STATED: Final = HEADER_DTYPE.fields
assert _STATED is not None
_OFFSET_FIELD: Final = _STATED["physical_offset"]


@attrs.define(eq=False, repr=False)
class FilterReadAhead:
    """Applies the filter of one read."""

    queue: ConsumeQueue
    context: StoreContext
    extend_file_size: int
    filter: MessageFilter
    selected: dict[int, bytes] = attrs.field(init=False, factory=dict)
    """Records found to be wanted, by queue offset."""

    def selects(self, place: int, message: MessageView) -> bool:
        """Return whether the filter selects the message at queue offset ``place``."""
        return place in self.selected or self.filter.matches(message)

    def rows(
        self, queue_offset: int, units: npt.NDArray[np.void], following: tuple[int, int]
    ) -> list[int]:
        """Return which of consecutive units the read has to look at, ascending.

        Args:
            queue_offset: of the first unit.
            units: ``(n,)`` of `UNIT_DTYPE`.
            following: physical offset and size that the next unit states; -1 and any size if that
                is not known.
        """
        self.selected.clear()
        offsets = units["physical_offset"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        found = extended(self.queue, self.context, self.extend_file_size, units)
        look = ~found.is_known
        look |= self.filter.may_match(found.tags_codes, found.bit_maps, found.store_timestamps)
        # The unit of a missing message repeats the next unit, so the filter does not apply; nor
        # does it to the last unit if the next one is not known.
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
        """Return the elements of ``rows`` whose messages, read as columns, are not wanted."""
        # Above this many bytes one by one: a few large records may fill the read.
        good = (sizes >= RECORD_MIN_SIZE) & (sizes <= RECORD_SIZE_MAX) & (offsets >= 0)
        rows, offsets, sizes = rows[good], offsets[good], sizes[good]
        count = int(np.searchsorted(np.cumsum(sizes), _SIZE_MAX, "right"))
        rows, offsets, sizes = rows[:count], offsets[:count], sizes[:count]
        is_unwanted = np.zeros(len(rows), np.bool_)
        decoder = Decoder(check_offset=False)  # the records are moved together
        for first, stop in self._stretches(offsets, sizes):
            part = slice(first, stop)
            is_unwanted[part] = self._look_at(
                decoder, queue_offset + rows[part], offsets[part], sizes[part]
            )
        return rows[is_unwanted]

    def _stretches(self, offsets: Rows, sizes: Rows) -> list[tuple[int, int]]:
        """Return runs of records that are worth one read; a run ends with its commit-log file."""
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
        """Return ``(n,)``: which of neighbouring records are messages that are not wanted."""
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
            first += len(batch) + 1  # continue after an invalid record
        return unwanted

    def _together(self, offsets: Rows, sizes: Rows) -> tuple[bytes, Rows]:
        """Return neighbouring records without the gaps between, and where each begins."""
        start = int(offsets[0])
        data = self.context.log.read(start, int(offsets[-1] + sizes[-1]) - start)
        begins = np.cumsum(sizes) - sizes
        if int(begins[-1]) == int(offsets[-1]) - start:
            return data, begins  # there are no gaps
        starts = (offsets - start).tolist()
        ends = (offsets - start + sizes).tolist()
        parts = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        return b"".join(parts), begins

    def _are_messages(
        self, batch: DispatchBatch, starts: Rows, sizes: Rows, places: Rows, offsets: Rows
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which rows are whole messages of this queue at their place."""
        dtype, position = _OFFSET_FIELD[:2]
        stated = words_at(batch.window, batch.start + position, dtype)
        is_one = (batch.start == starts) & (batch.size == sizes) & (stated == offsets)
        is_one &= (batch.queue_id == self.queue.queue_id) & (batch.queue_offset == places)
        is_topic = np.array([name == self.queue.topic for name in batch.topics], np.bool_)
        found: npt.NDArray[np.bool_] = is_one & is_topic[batch.topic_code]
        return found
