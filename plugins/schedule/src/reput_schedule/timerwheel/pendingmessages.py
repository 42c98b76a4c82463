"""`LogTail`: what the end of the log says of messages that wait for the timer.

A message waits as soon as it is in the log. It is on the wheel after its dispatch, and its delivery
is in the checkpoint after a flush; a kill may come before either. The answer to what waits follows
the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_schedule.timerwheel.files.placement import numbers_of, parked_rows, place
from reput_schedule.timerwheel.files.slotchain import slot_ticks
from reput_schedule.timerwheel.files.timerfiles import records_of
from reput_schedule.timerwheel.layout import (
    PROPERTY_DEQUEUE_MS,
    PROPERTY_ENQUEUE_MS,
    PROPERTY_OUT_MS,
    RECORD_DTYPE,
    TIMER_TOPIC,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput.record import DispatchBatch
    from reput_schedule.timerwheel.files.timercheckpoint import TimerCheckpoint

    Integers = npt.NDArray[np.int64]
    Records = npt.NDArray[np.void]

LONGEST: Final = 256 << 20  # bytes of log that are read to answer a question


@attrs.define(eq=False, repr=False)
class LogTail:
    """Parked and delivered messages of the log from a physical offset on. Not thread-safe."""

    log: LogView
    precision: int
    window: int
    """Slots ahead above which a message rolls."""
    start: int
    """Physical offset."""
    seen_to: int = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.start, takes_self=True)
    )
    """Physical offset."""
    _parked: list[Records] = attrs.field(factory=list)
    """The records that the timer log gets of them."""
    _delivered: list[Integers] = attrs.field(factory=list)
    """Columns: physical offset, tick of the slot that the message left."""

    def follow(self) -> None:
        """Read what was put since the last call, unless that is very much.

        A plugin that is so far behind, such as one newly added to the store, shows that by its lag.
        """
        start = max(self.seen_to, self.log.min_physical_offset)
        end = self.log.max_physical_offset
        if start < end <= start + LONGEST:
            for batch in self.log.scan(start, end):
                self._look_at(batch)
            self.seen_to = end

    def _look_at(self, batch: DispatchBatch) -> None:
        if len(batch) == 0:
            return
        parked = parked_rows(batch, 0)
        if parked is not None and len(parked):
            self._parked.append(records_of(parked, self.precision, self.window))
        _, is_given = numbers_of(batch.text(PROPERTY_DEQUEUE_MS))
        rows = np.flatnonzero(is_given)
        if len(rows):
            self._delivered.append(
                np.column_stack([batch.physical_offset[rows], self._ticks_left(batch, rows)])
            )

    def _ticks_left(self, batch: DispatchBatch, rows: Integers) -> Integers:
        """Return the ticks that the messages left whose delivered copies are ``rows``."""
        out, _ = numbers_of(batch.text(PROPERTY_OUT_MS))
        enqueued, _ = numbers_of(batch.text(PROPERTY_ENQUEUE_MS))
        _, times, _ = place(out[rows], enqueued[rows], self.precision, self.window)
        rolls = np.zeros(len(rows), np.bool_)
        if TIMER_TOPIC in batch.topics:
            rolls = batch.topic_code[rows] == batch.topics.index(TIMER_TOPIC)
        # The process that delivered them may have had a wheel of another size.
        ticks: Integers = np.where(rolls, times, out[rows]) // self.precision
        return ticks

    def coming(self, covered_to: int, reached: TimerCheckpoint) -> Records:
        """Return the records of messages that wait and are not on the wheel.

        Args:
            covered_to: physical offset below which every parked message is on the wheel.
            reached: how far messages were delivered according to the timer's files.
        """
        records = np.concatenate([np.zeros(0, RECORD_DTYPE), *self._parked])
        records = records[records["physical_offset"] >= covered_to]
        times = slot_ticks(records, self.precision) * self.precision
        return records[~reached.delivered(times, records["physical_offset"])]

    def take_copies(self, ticks: Integers, counts: Integers, copies: range) -> None:
        """Lower counts by the messages whose delivery only the log shows.

        Args:
            ticks: ``(n,)`` int64, ascending.
            counts: ``(n,)`` int64, what waits at `ticks`; changed in place.
            copies: range of physical offsets in which the timer's files count no delivered message
                as delivered.
        """
        delivered = np.concatenate([np.zeros((0, 2), np.int64), *self._delivered])
        for offset, tick in delivered.tolist():
            at = int(ticks.searchsorted(tick))
            # A copy whose slot is empty left it before, and is counted as delivered.
            if offset in copies and at < len(ticks) and ticks[at] == tick and counts[at] > 0:
                counts[at] -= 1
