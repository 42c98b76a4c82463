"""What waits for the timer: by the wheel (`pending_of`), and by the end of the log (`LogTail`).

A message waits as soon as it is in the log. It is on the wheel after its dispatch, and its delivery
is in the checkpoint after a flush; a kill may come before either. The answer to what waits follows
the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_schedule.timerwheel.deliverysteps import late_records
from reput_schedule.timerwheel.files.placement import numbers_of, parked_rows, place
from reput_schedule.timerwheel.files.slotchain import read_chain, slot_ticks
from reput_schedule.timerwheel.files.timerfiles import deltas_of
from reput_schedule.timerwheel.layout import (
    PROPERTY_DEQUEUE_MS,
    PROPERTY_ENQUEUE_MS,
    PROPERTY_OUT_MS,
    TIMER_TOPIC,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput.record import DispatchBatch
    from reput_schedule.timerwheel.deliveryprogress import DeliveryProgress
    from reput_schedule.timerwheel.files.timercheckpoint import TimerCheckpoint

    Integers = npt.NDArray[np.int64]

__all__ = ["LogTail", "pending_of"]

_END: Final = 1 << 62  # a physical offset above every log
_LONGEST: Final = 256 << 20  # bytes of log that are read to answer a question


@attrs.define(eq=False)
class LogTail:
    """Parked and delivered messages of the log from a physical offset on. Not thread-safe."""

    log: LogView
    precision: int
    window: int
    """Slots ahead above which a message rolls."""
    seen_to: int
    """Physical offset."""
    _parked: list[Integers] = attrs.field(factory=list)
    """Columns: physical offset, tick, change of the tick's count."""
    _delivered: list[Integers] = attrs.field(factory=list)
    """Columns: physical offset, tick of the slot that the message left."""

    def follow(self) -> None:
        """Read what was put since the last call, unless that is very much.

        A plugin that is so far behind, such as one newly added to the store, shows that by its lag.
        """
        start = max(self.seen_to, self.log.min_physical_offset)
        end = self.log.max_physical_offset
        if start < end <= start + _LONGEST:
            for batch in self.log.scan(start, end):
                self._look_at(batch)
            self.seen_to = end

    def _look_at(self, batch: DispatchBatch) -> None:
        if len(batch) == 0:
            return
        parked = parked_rows(batch, 0)
        if parked is not None and len(parked):
            _, times, _ = place(parked.out, parked.stored, self.precision, self.window)
            deltas = np.where(parked.is_delete, -1, 1)
            self._parked.append(
                np.column_stack([parked.physical_offset, times // self.precision, deltas])
            )
        times, is_given = numbers_of(batch.text(PROPERTY_DEQUEUE_MS))
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

    def change(
        self,
        ticks: Integers,
        counts: Integers,
        *,
        covered_to: int,
        copies: range,
        reached: TimerCheckpoint,
    ) -> tuple[Integers, Integers]:
        """Correct what the timer's files say waits, ``counts`` at ``ticks``, by the log.

        Args:
            ticks: ``(n,)`` int64.
            counts: ``(n,)`` int64, each above 0.
            covered_to: physical offset below which every parked message is on the wheel.
            copies: range of physical offsets in which the timer's files count no delivered message
                as delivered.
            reached: how far messages were delivered according to the timer's files.
        """
        parked = np.concatenate([np.zeros((0, 3), np.int64), *self._parked])
        parked = parked[parked[:, 0] >= covered_to]
        is_delivered = np.zeros(len(parked), np.bool_)
        for read, end in [(reached.read_timestamp, reached.examined_to), *reached.marks]:
            is_delivered |= (parked[:, 1] * self.precision < read) & (parked[:, 0] < end)
        parked = parked[~is_delivered]
        every, which = np.unique(np.concatenate([ticks, parked[:, 1]]), return_inverse=True)
        given = np.concatenate([counts, parked[:, 2]])
        sums = np.bincount(which.reshape(-1), given, len(every)).astype(np.int64)
        delivered = np.concatenate([np.zeros((0, 2), np.int64), *self._delivered])
        for offset, tick in delivered.tolist():
            at = int(every.searchsorted(tick))
            # A copy whose slot is empty left it before, and is counted in `reached`.
            if offset in copies and at < len(every) and every[at] == tick and sums[at] > 0:
                sums[at] -= 1
        wanted = sums > 0
        return every[wanted], sums[wanted]


def pending_of(agenda: DeliveryProgress) -> tuple[Integers, Integers]:
    """Return delivery times, ms, ascending, and message counts; ``(n,)`` int64 each."""
    precision, reached = agenda.precision, agenda.reached
    ticks, counts, _ = agenda.files.wheel.pending()
    for tick in np.unique(ticks).tolist() if reached.marks else []:
        if reached.floor(tick * precision):  # the clock was set back: a part is delivered
            rows = ticks == tick
            counts[rows] = 0
            counts[np.argmax(rows)] = _count(agenda, tick)
    late = late_records(agenda.late_records(), reached.read_timestamp // precision, precision)
    ticks = np.concatenate([ticks, slot_ticks(late, precision)])
    counts = np.concatenate([counts, deltas_of(late)])
    every, which = np.unique(ticks, return_inverse=True)
    sums = np.bincount(which.reshape(-1), counts, len(every)).astype(np.int64)
    wanted = sums > 0
    return (every[wanted] + 1) * precision, sums[wanted]


def _count(agenda: DeliveryProgress, tick: int) -> int:
    """Return the messages of a slot that are not delivered, less cancellations."""
    files, precision = agenda.files, agenda.precision
    floor = agenda.reached.floor(tick * precision)
    return sum(
        int(deltas_of(read_chain(files.log, chain, tick, precision, floor, _END)).sum())
        for chain in files.wheel.chains(tick)
    )
