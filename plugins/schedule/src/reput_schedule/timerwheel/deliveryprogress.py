"""`DeliveryProgress`: the rules of time: the delivered messages, and the next ones.

Two numbers, those of `TimerCheckpoint`, say what was delivered. They move like this:

* A slot T is due when the clock shows T plus one precision. Before the slot is read, all records of
  the timer log are *examined*: records of slots that were read before are late, and go first.
* The slot is read as far as was examined. Then the read time passes the slot. Records that came
  into the slot meanwhile stand after the examined ones: they are late now, and not lost.
* When the clock was set back, the read time is set back, too.

Not thread-safe: the timer's lock is held around every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_schedule.timerwheel.deliverysteps import LateStep, SlotStep, Step
from reput_schedule.timerwheel.files.slotchain import read_chain, slot_ticks
from reput_schedule.timerwheel.files.timercheckpoint import Recent, TimerCheckpoint
from reput_schedule.timerwheel.files.timerfiles import TimerFiles, deltas_of
from reput_schedule.timerwheel.layout import RECORD_DTYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_schedule.timerwheel.files.wheel import Chain

    Records = npt.NDArray[np.void]


class DeliveryProgress:
    """What the timer delivers, in which order and when.

    Attributes:
        reached: how far messages were delivered.
        recent: earlier values of `reached`, of a short while.
        step: the step that is being delivered; None between steps.
        has_late: whether records that were not examined may be late.
    """

    def __init__(self, files: TimerFiles, precision: int) -> None:
        self.files = files
        self.precision = precision
        self.reached = TimerCheckpoint(read_timestamp=0, examined_to=0)
        self.recent = Recent()
        self.step: Step | None = None
        self.has_late = False
        self._examined = 0  # number of the first record of the timer log that was not examined
        self._next: int | None = None  # the earliest tick to be read, if `_is_next_known`
        self._is_next_known = False

    def start(self, reached: TimerCheckpoint) -> None:
        """Go on from ``reached``; the files are in order already."""
        log = self.files.log
        self.reached = reached
        self.files.wheel.advance(self._read_tick)
        self._examined = log.find(reached.examined_to)
        self.has_late = self._examined < log.end
        self._is_next_known = False

    @property
    def _read_tick(self) -> int:
        return self.reached.read_timestamp // self.precision

    # ------------------------------------------------------------------ records come

    def take(self, records: Records) -> bool:
        """Note appended records, and return whether they change what is next."""
        # A lost timer log is rebuilt from before `reached`: those records were examined already.
        known = int(np.searchsorted(records["physical_offset"], self.reached.examined_to))
        if known and self._examined == self.files.log.end - len(records):
            self._examined += known
        ticks = slot_ticks(records, self.precision)
        is_late = bool((ticks[known:] < self._read_tick).any())
        self.has_late |= is_late
        coming = ticks[ticks >= self._read_tick]
        if not self._is_next_known:
            return True
        if not len(coming):
            return is_late
        first = int(coming.min())
        if self._next is not None and self._next <= first:
            return is_late
        self._next = first
        return True

    # ------------------------------------------------------------------ what comes next

    def set_clock(self, now: int) -> bool:
        """Follow a clock that was set back; False if it was set back too often to be followed."""
        horizon = now // self.precision * self.precision
        before = self.reached
        if horizon >= before.read_timestamp or self.step is not None:
            return True
        back = before.turned_back(horizon)
        if back is None:
            return False  # wait until the clock shows the old time again
        log, wheel = self.files.log, self.files.wheel
        self.reached = back
        wheel.turn_back(horizon // self.precision)
        read_tick = before.read_timestamp // self.precision
        for first, records in log.chunks(self._examined, log.end):
            ticks = slot_ticks(records, self.precision)
            again = ticks < read_tick
            positions = log.positions_of(first, len(records))
            wheel.rejoin(ticks[again], positions[again], deltas_of(records[again]))
        self._is_next_known = False
        return True

    def next_step(self, now: int) -> Step | tuple[int, list[Chain]] | None:
        """Return what to deliver at ``now``: a step, or the tick and the chains of a slot to read.

        None when nothing is due.
        """
        log = self.files.log
        if self.has_late:
            self.has_late = False
            return LateStep(log, self._examined, log.end, self._read_tick, self.precision)
        self._examine_to(log.end)
        tick, horizon = self.next_tick(), now // self.precision
        if tick is None or tick >= horizon:
            self._read_to(max(horizon, self._read_tick))
            return None
        self._read_to(tick)
        return tick, self.files.wheel.chains(tick)

    def read_slot(self, tick: int, chains: list[Chain]) -> SlotStep:
        """Return the step that delivers a slot. Needs no lock."""
        floor = self.reached.floor(tick * self.precision)
        end = self.reached.examined_to
        log = self.files.log
        parts = [read_chain(log, chain, tick, self.precision, floor, end) for chain in chains]
        records = np.concatenate([np.zeros(0, RECORD_DTYPE), *parts])
        order = np.argsort(records["physical_offset"], kind="stable")
        return SlotStep(tick, records[order])

    def next_tick(self) -> int | None:
        """Return the earliest slot that has records to deliver; None without one."""
        if not self._is_next_known:
            self._next = self.files.wheel.next_tick(self._read_tick)
            self._is_next_known = True
        return self._next

    def due(self) -> int | None:
        """Return when the next step is due, ms; None when nothing waits."""
        tick = self.next_tick()
        return None if tick is None else (tick + 1) * self.precision

    # ------------------------------------------------------------------ it was done

    def settle(self, step: Step, copies_end: int) -> None:
        """Count what ``step`` has delivered so far, if `TimerCheckpoint` can express it."""
        if not step.is_even:
            return  # after a crash the copies in the log tell what was delivered
        self.reached = attrs.evolve(self.reached, copies_end=copies_end)
        if isinstance(step, LateStep):
            self._examine_to(step.at)
        elif isinstance(step, SlotStep):
            # Records that came since then stand after the examined ones.
            edge = self.files.log.position_of(self._examined)
            chains = self.files.wheel.chains(step.tick)
            self.has_late |= any(chain.last >= edge for chain in chains)
            self._is_next_known = False
            self._read_to(step.tick + 1)
        self.recent.add(self.reached)

    def _examine_to(self, number: int) -> None:
        if number <= self._examined:
            return
        self._examined = number
        log = self.files.log
        found = log.read(number - 1, number)
        if len(found):
            end = int(found["physical_offset"][0]) + int(found["message_size"][0])
            self.reached = attrs.evolve(self.reached, examined_to=end)
            self.recent.add(self.reached)

    def _read_to(self, tick: int) -> None:
        self.reached = self.reached.advanced(tick * self.precision)
        self.files.wheel.advance(tick)

    # ------------------------------------------------------------------ for people, and retention

    def late_records(self) -> Records:
        """Return the records that were not examined; some of them may be late."""
        log = self.files.log
        parts = [records for _, records in log.chunks(self._examined, log.end)]
        return np.concatenate([np.zeros(0, RECORD_DTYPE), *parts])

    def hold(self) -> int | None:
        """Return the physical offset of the oldest message that may have to be delivered."""
        log = self.files.log
        _, _, firsts = self.files.wheel.pending()
        firsts = firsts[firsts >= log.min_position]
        numbers = [log.number_of(int(firsts.min()))] if len(firsts) else []
        if self.step is not None or self._examined < log.end:
            numbers.append(max(self._examined, log.first))
        found = [log.read(number, number + 1) for number in numbers if number < log.end]
        offsets = [int(record["physical_offset"][0]) for record in found if len(record)]
        return min(offsets, default=None)
