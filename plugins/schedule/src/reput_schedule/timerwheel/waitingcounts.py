"""`WaitingCounts`: how many messages wait for the timer, by slot.

A slot of the wheel counts its messages less its cancellations, as RocketMQ does. This is not how
many messages wait in it, if

* a cancellation is two records, as one of reput is, or names a message that is not in its slot;
* a broker put a message on its timer log twice, as it does after a kill.

The counts of such slots are made of the slots' records and of the messages that these name. What
was read is kept for the next call, as long as the slot waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_schedule.propertytext import java_long
from reput_schedule.timerwheel.deliverysteps import late_records
from reput_schedule.timerwheel.files.slotchain import read_chain, slot_ticks
from reput_schedule.timerwheel.files.timerfiles import deltas_of
from reput_schedule.timerwheel.layout import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    PROPERTY_OUT_MS,
    RECORD_DTYPE,
)
from reput_schedule.timerwheel.timerdelivery import Names, TimerDelivery, key_of, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from reput_schedule.timerwheel.deliveryprogress import DeliveryProgress
    from reput_schedule.timerwheel.files.timerlog import TimerLog
    from reput_schedule.timerwheel.files.wheel import Chain

    Records = npt.NDArray[np.void]
    Integers = npt.NDArray[np.int64]

_END: Final = 1 << 62  # a physical offset above every log


@attrs.define(eq=False, repr=False)
class WaitingCounts:
    """Counts of one store. Not thread-safe."""

    _delivery: TimerDelivery
    """Loads messages, and delivers none."""
    precision: int
    _first: int = 0
    """Number of the first record of the timer log that was looked at."""
    _seen: int = 0
    """Number of the first record that was not looked at."""
    _last: bytes = b""
    """The record before."""
    _newest: int = -1
    """The highest physical offset of a record."""
    _read_tick: int = 0
    """Where the timer was."""
    _special: Records = attrs.field(factory=lambda: np.zeros(0, RECORD_DTYPE))
    """Cancellations, and messages that roll, of slots that were not passed."""
    _repeated: Records = attrs.field(factory=lambda: np.zeros(0, RECORD_DTYPE))
    """Likewise records of messages that have a record before."""
    _chains: dict[int, tuple[list[Chain], int, Records]] = attrs.field(factory=dict)
    """By tick: the slot's chains, where they were cut, and their records."""
    _names: dict[int, Names | None] = attrs.field(factory=dict)
    """What each message is cancelled by, or what it cancels; by physical offset."""

    def of(self, agenda: DeliveryProgress, coming: Records) -> tuple[Integers, Integers]:
        """Return ticks, ascending, and how many messages wait in each; ``(n,)`` int64 each.

        Args:
            agenda: the progress of deliveries, and the timer's files.
            coming: ``(n,)`` records of messages that wait and that the timer log does not have.

        Raises:
            CorruptFileError: a chain of a slot leads astray.
        """
        precision, files = self.precision, agenda.files
        ticks, counts, firsts = files.wheel.pending()
        read_tick = agenda.reached.read_timestamp // precision
        late = late_records(agenda.late_records(), read_tick, precision)
        outside = np.concatenate([late, coming])
        every, which = np.unique(
            np.concatenate([ticks, slot_ticks(outside, precision)]), return_inverse=True
        )
        deltas = np.concatenate([counts, deltas_of(outside)])
        sums = np.bincount(which.reshape(-1), deltas, len(every)).astype(np.int64)
        first = files.log.number_of(int(firsts.min())) if len(firsts) else files.log.end
        self._follow(files.log, max(first, files.log.first), read_tick)
        self._forget_passed(every)
        special = np.concatenate([self._special, outside[_is_special(outside)]])
        special = special[np.isin(slot_ticks(special, precision), every)]
        cancelled = self._cancelled(special)
        doubtful = self._doubtful(special, every, agenda) | {tick for tick, _ in cancelled}
        slots = {
            tick: self._records(agenda, tick, ticks, outside)
            for tick in np.intersect1d(sorted(doubtful), every).astype(np.int64).tolist()
        }
        if slots:
            self._count(every, sums, slots, special, cancelled)
        self._chains = {tick: self._chains[tick] for tick in slots if tick in self._chains}
        used = np.concatenate([special, *slots.values()])["physical_offset"].tolist()
        self._names = {each: self._names[each] for each in used if each in self._names}
        return every, sums

    # ------------------------------------------------------------------ which slots

    def _follow(self, log: TimerLog, first: int, read_tick: int) -> None:
        """Look at the records from ``first`` on that were not looked at."""
        is_same = self._first <= first and self._seen <= log.end and self._read_tick <= read_tick
        if is_same and first < self._seen:
            is_same = log.read(self._seen - 1, self._seen).tobytes() == self._last
        none = np.zeros(0, RECORD_DTYPE)
        if not is_same:  # the timer log began from its start, or the clock was set back
            self._seen, self._newest, self._special, self._repeated = 0, -1, none, none
        self._read_tick = read_tick
        if self._seen <= first:
            self._first = self._seen = first
        special, repeated = [self._special], [self._repeated]
        for _, records in log.chunks(self._seen, log.end):
            offsets = records["physical_offset"].astype(np.int64)
            newest = np.maximum.accumulate(np.concatenate([[self._newest], offsets]))
            special.append(records[_is_special(records)])
            repeated.append(records[offsets <= newest[:-1]])
            self._newest, self._last = int(newest[-1]), records[-1:].tobytes()
            self._seen += len(records)
        self._special, self._repeated = np.concatenate(special), np.concatenate(repeated)

    def _forget_passed(self, every: Integers) -> None:
        """Forget records of slots that were passed; a clock that is set back has all read again."""
        kept = []
        for records in self._special, self._repeated:
            ticks = slot_ticks(records, self.precision)
            kept.append((ticks >= self._read_tick) | np.isin(ticks, every))
        self._special = self._special[kept[0]]
        again = np.isin(self._repeated["physical_offset"], self._special["physical_offset"])
        self._repeated = self._repeated[kept[1] | again]

    def _doubtful(self, special: Records, every: Integers, agenda: DeliveryProgress) -> set[int]:
        """Return the ticks whose counts are made of their records."""
        repeated = self._repeated
        again = np.isin(special["physical_offset"], repeated["physical_offset"])
        wanted = special[again | (special["magic"] & MAGIC_DELETE != 0)]
        found = np.concatenate([wanted, repeated])
        doubtful = set(slot_ticks(found, self.precision).tolist())
        if agenda.reached.marks:  # the clock was set back: a part of some slots is delivered
            times = every * self.precision
            floors = [each for each in times.tolist() if agenda.reached.floor(each)]
            doubtful.update(each // self.precision for each in floors)
        return doubtful

    def _records(
        self, agenda: DeliveryProgress, tick: int, ticks: Integers, outside: Records
    ) -> Records:
        """Return the records that wait in a slot, the oldest message first."""
        own: Records = outside[slot_ticks(outside, self.precision) == tick]
        at = int(ticks.searchsorted(tick))
        if at == len(ticks) or ticks[at] != tick:
            return own
        chains = agenda.files.wheel.chains(tick)
        floor = agenda.reached.floor(tick * self.precision)
        known = self._chains.get(tick)
        if known is None or known[:2] != (chains, floor):
            log = agenda.files.log
            parts = [read_chain(log, each, tick, self.precision, floor, _END) for each in chains]
            read = np.concatenate([np.zeros(0, RECORD_DTYPE), *parts])
            known = self._chains[tick] = chains, floor, read
        records: Records = np.concatenate([known[2], own])
        return records

    # ------------------------------------------------------------------ counting

    def _cancelled(self, special: Records) -> Names:
        """Return what the cancellations of the wheel name."""
        records = special[special["magic"] & MAGIC_DELETE != 0]
        if not len(records):
            return frozenset()
        self._load(records)
        offsets = records["physical_offset"].tolist()
        return frozenset().union(*[self._names[offset] or () for offset in offsets])

    def _count(
        self,
        every: Integers,
        sums: Integers,
        slots: dict[int, Records],
        special: Records,
        cancelled: Names,
    ) -> None:
        """Set the counts of some slots, and lower those of slots from which messages roll."""
        special_ticks = slot_ticks(special, self.precision)
        rolls = np.isin(special_ticks, list(slots), invert=True)
        if cancelled:
            self._load(np.concatenate([special, *slots.values()]))
        counted: set[int] = set()
        for tick, records in slots.items():
            waiting = self._waiting(records, cancelled) - counted
            counted |= waiting
            sums[every.searchsorted(tick)] = len(waiting)
        waiting = self._waiting(special[rolls], cancelled)
        for tick, offset in zip(
            special_ticks[rolls].tolist(), special["physical_offset"][rolls].tolist(), strict=True
        ):
            if offset not in waiting:
                sums[every.searchsorted(tick)] -= 1

    def _waiting(self, records: Records, cancelled: Names) -> set[int]:
        """Return the physical offsets of messages that nothing cancels."""
        normal = records["physical_offset"][records["magic"] & MAGIC_DELETE == 0].tolist()
        if not cancelled:
            return set(normal)
        found = {offset: self._names[offset] for offset in normal}
        return {
            offset
            for offset, names in found.items()
            if names is not None and cancelled.isdisjoint(names)
        }

    def _load(self, records: Records) -> None:
        """Read the names of those messages that are not known."""
        offsets, rows = np.unique(records["physical_offset"].astype(np.int64), return_index=True)
        missing = [
            row
            for offset, row in zip(offsets.tolist(), rows.tolist(), strict=True)
            if offset not in self._names
        ]
        self._names.update(self._read_names(records[missing]))

    def _read_names(self, records: Records) -> Iterable[tuple[int, Names | None]]:
        ticks = slot_ticks(records, self.precision)
        views = self._delivery.load(records)
        for row, view in enumerate(views):
            names: Names | None = None
            if view is not None:
                properties, tick = view.properties, int(ticks[row])
                if records["magic"][row] & MAGIC_ROLL:  # its own slot is a later one
                    out = java_long(properties.get(PROPERTY_OUT_MS, ""))
                    tick = tick if out is None else out // self.precision
                is_delete = records["magic"][row] & MAGIC_DELETE
                names = (
                    frozenset({(tick, key_of(properties))})
                    if is_delete
                    else names_of(properties, tick)
                )
            yield int(records["physical_offset"][row]), names


def _is_special(records: Records) -> npt.NDArray[np.bool_]:
    """Return which records are of cancellations, or of messages that roll."""
    found: npt.NDArray[np.bool_] = records["magic"] & (MAGIC_DELETE | MAGIC_ROLL) != 0
    return found
