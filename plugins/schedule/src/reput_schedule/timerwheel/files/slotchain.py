"""Read the chain of a slot from the timer log, window by window.

A chain is followed from its newest record backwards. Its records lie close together when many
messages are parked for one time, and far apart when few are: windows grow while a quarter or more
of their records belong to the chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput_schedule.timerwheel.layout import RECORD_DTYPE, RECORD_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_schedule.timerwheel.files.timerlog import TimerLog
    from reput_schedule.timerwheel.files.wheel import Chain

    Records = npt.NDArray[np.void]

_WINDOW_MIN = 16
_WINDOW_MAX = 1 << 14


def slot_ticks(records: Records, precision: int) -> npt.NDArray[np.int64]:
    """Return ``(n,)`` int64: the slot's time of each record, in units of the precision."""
    times = records["enqueued"].astype(np.int64) + records["delay"]
    ticks: npt.NDArray[np.int64] = times // precision
    return ticks


def read_chain(
    log: TimerLog, chain: Chain, tick: int, precision: int, floor: int, end: int
) -> Records:
    """Return a chain's records of messages in ``[floor, end)`` of the commit log, oldest first.

    Raises:
        CorruptFileError: the chain leaves the timer log, turns back, or leads to another slot.
    """
    parts: list[Records] = []
    position, width = chain.last, _WINDOW_MIN
    oldest = max(chain.first, log.min_position)
    while position >= oldest:  # the oldest record of a chain states -1
        number = _number(log, position)
        window = _window(log, number, width)
        found, position = _follow(log, window, number, oldest)
        part = window[found]
        parts.append(part)
        _check(log, part, number, tick, precision)
        if part["physical_offset"][-1] < floor:
            break
        grows = len(found) * 4 >= len(window)
        width = min(width * 4, _WINDOW_MAX) if grows else _WINDOW_MIN
    if not parts:
        return np.zeros(0, RECORD_DTYPE)
    records = np.concatenate(parts)[::-1]
    offsets = records["physical_offset"]
    return records[(offsets >= floor) & (offsets < end)]


def _number(log: TimerLog, position: int) -> int:
    number = log.number_of(position)
    if not log.first <= number < log.end:
        reason = f"a chain leads to {position}, where no record begins"
        raise CorruptFileError(log.path_of(max(log.end - 1, 0)), position, reason)
    return number


def _window(log: TimerLog, number: int, width: int) -> Records:
    """Return records of one file, the last of which is ``number``."""
    file_start = log.number_of(log.position_of(number) // log.file_size * log.file_size)
    first = max(number + 1 - width, file_start)
    window = log.read(first, number + 1)
    if len(window) != number + 1 - first:
        path, position = log.path_of(number), log.position_of(number)
        raise CorruptFileError(path, position, "the file ends before this record")
    return window


def _follow(log: TimerLog, window: Records, number: int, oldest: int) -> tuple[list[int], int]:
    """Return the chain's rows in the window, newest first, and the position that follows them."""
    previous = window["previous"].tolist()
    base = log.position_of(number) - (len(window) - 1) * RECORD_SIZE
    found, row = [], len(window) - 1
    while True:
        found.append(row)
        position: int = previous[row]
        here = base + row * RECORD_SIZE
        if position >= here:
            reason = f"a chain leads from {here} forward to {position}"
            raise CorruptFileError(log.path_of(number), here, reason)
        if position < base or position < oldest:
            return found, position
        row, rest = divmod(position - base, RECORD_SIZE)
        if rest:
            reason = f"a chain leads from {here} to {position}, where no record begins"
            raise CorruptFileError(log.path_of(number), here, reason)


def _check(log: TimerLog, part: Records, number: int, tick: int, precision: int) -> None:
    good = (part["size"] == RECORD_SIZE) & (slot_ticks(part, precision) == tick)
    if not good.all():
        reason = f"a chain of slot {tick * precision} leads to records of other slots or to none"
        raise CorruptFileError(log.path_of(number), log.position_of(number), reason)
