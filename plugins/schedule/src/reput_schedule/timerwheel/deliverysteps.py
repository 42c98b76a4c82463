"""The steps in which the timer delivers: one slot, or messages too late for their slot.

A step is cut into slices by message count, so that other work never waits long for the working
thread. What a step delivered counts when the step is over: after a crash in between, the copies
are found in the log (`reput_schedule.timerwheel.deliveredcopies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_schedule.timerwheel.files.slotchain import slot_ticks
from reput_schedule.timerwheel.layout import RECORD_DTYPE, is_cancellation

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_schedule.timerwheel.files.timerlog import TimerLog
    from reput_schedule.timerwheel.timerdelivery import TimerDelivery

    Records = npt.NDArray[np.void]
    Cancelled = set[tuple[int, str]]

_PUT_COUNT = 500  # messages of one put


class Step(Protocol):
    """A set of records to deliver."""

    def run(self, delivery: TimerDelivery, budget: int, now: int) -> Records:
        """Deliver about ``budget`` messages more, and return the records that were dealt with."""
        ...

    @property
    def is_even(self) -> bool:
        """Whether the two numbers of `Reached` can express what was delivered so far."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        ...


@attrs.define(eq=False, repr=False)
class SlotStep:
    """All records of one slot, cancellations first."""

    tick: int
    records: Records
    """The records of the slot, oldest first."""
    _cancelled: Cancelled | None = None
    _at: int = 0

    def run(self, delivery: TimerDelivery, budget: int, now: int) -> Records:
        """See `Step.run`."""
        ticks = np.full(len(self.records), self.tick)
        if self._cancelled is None:
            self._cancelled = delivery.keys_to_cancel(self.records, ticks)
        end = min(self._at + min(budget, _PUT_COUNT), len(self.records))
        part = self.records[self._at : end]
        delivery.deliver(part, ticks[self._at : end], self._cancelled, now)
        self._at = end
        return part

    @property
    def is_even(self) -> bool:
        """See `Step.is_even`."""
        return self.is_done

    @property
    def is_done(self) -> bool:
        """See `Step.is_done`."""
        return self._at >= len(self.records)


@attrs.define(eq=False, repr=False)
class LateStep:
    """Records ``[at, end)`` of the timer log whose slots were over when they came."""

    log: TimerLog
    at: int
    """Number of the first record that was not looked at."""
    end: int
    read_tick: int
    """Ticks below this one are over."""
    precision: int
    _cancelled: Cancelled | None = None
    _chunk: Records | None = None
    _chunk_end: int = 0
    _row: int = 0

    def run(self, delivery: TimerDelivery, budget: int, now: int) -> Records:
        """See `Step.run`."""
        if self._cancelled is None:
            self._cancelled = self._all_cancelled(delivery)
        if self._chunk is None:
            first, records = self._next_records()
            self._chunk_end, self._row = first + len(records), 0
            self._chunk = late_records(records, self.read_tick, self.precision)
        part = self._chunk[self._row : self._row + min(budget, _PUT_COUNT)]
        delivery.deliver(part, slot_ticks(part, self.precision), self._cancelled, now)
        self._row += len(part)
        if self._row >= len(self._chunk):
            self.at, self._chunk = self._chunk_end, None
        return part

    def _next_records(self) -> tuple[int, Records]:
        found = next(self.log.chunks(self.at, self.end), None)
        if found is not None:
            return found
        if self.log.first < self.end:
            path, position = self.log.path_of(self.at), self.log.position_of(self.at)
            raise CorruptFileError(path, position, "the file ends before this record")
        return self.end, np.zeros(0, RECORD_DTYPE)  # trimmed in the meantime

    def _all_cancelled(self, delivery: TimerDelivery) -> Cancelled:
        # All cancellations before the first message: within a slot their order means nothing.
        found: Cancelled = set()
        for _, records in self.log.chunks(self.at, self.end):
            late = late_records(records, self.read_tick, self.precision)
            late = late[is_cancellation(late)]
            found |= delivery.keys_to_cancel(late, slot_ticks(late, self.precision))
        return found

    @property
    def is_even(self) -> bool:
        """See `Step.is_even`."""
        return self._chunk is None

    @property
    def is_done(self) -> bool:
        """See `Step.is_done`."""
        return self.at >= self.end


def late_records(records: Records, read_tick: int, precision: int) -> Records:
    """Return the records whose slot lies below ``read_tick``."""
    return records[slot_ticks(records, precision) < read_tick]
