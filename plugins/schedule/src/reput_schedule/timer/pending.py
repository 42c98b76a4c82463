"""What waits for the timer, by the time at which it is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput_schedule.timer.files.chain import read_chain, slot_ticks
from reput_schedule.timer.files.pair import deltas_of
from reput_schedule.timer.steps import late_records

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_schedule.timer.agenda import Agenda

    Integers = npt.NDArray[np.int64]

__all__ = ["pending_of"]

_END = 1 << 62  # a physical offset that no log has


def pending_of(agenda: Agenda) -> tuple[Integers, Integers]:
    """When messages are delivered, ms, ascending, and how many of them; ``(n,)`` int64 each."""
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


def _count(agenda: Agenda, tick: int) -> int:
    """Messages of a slot that are not delivered, less cancellations."""
    files, precision = agenda.files, agenda.precision
    floor = agenda.reached.floor(tick * precision)
    return sum(
        int(deltas_of(read_chain(files.log, chain, tick, precision, floor, _END)).sum())
        for chain in files.wheel.chains(tick)
    )
