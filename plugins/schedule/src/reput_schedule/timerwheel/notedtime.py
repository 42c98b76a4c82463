"""Finds the record of the timer log that leads to a parked message, and chains that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.errors import CorruptFileError
from reput_schedule.timerwheel.files.placement import place
from reput_schedule.timerwheel.files.slotchain import read_chain
from reput_schedule.timerwheel.layout import PROPERTY_OUT_MS

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import MessageView
    from reput_schedule.timerwheel.files.timerfiles import TimerFiles

__all__ = ["noted_time", "wrong_chains"]

_DIGITS_MAX: Final = 18
_END: Final = 1 << 62  # a physical offset above every log


def noted_time(files: TimerFiles, message: MessageView, precision: int, window: int) -> int | None:
    """Return the time of the slot whose chain leads to a message, ms; None without one.

    Args:
        files: wheel and timer log.
        message: a message of the timer's topic.
        precision: ms of one slot.
        window: slots ahead above which a message rolls.
    """
    text = message.properties.get(PROPERTY_OUT_MS, "")
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    _, times, _ = place(
        np.array([int(text)]), np.array([message.store_timestamp]), precision, window
    )
    tick = int(times[0]) // precision
    offset = message.physical_offset
    try:
        for chain in files.wheel.chains(tick):
            if len(read_chain(files.log, chain, tick, precision, offset, offset + 1)):
                return tick * precision
    except (CorruptFileError, OSError):
        return None
    return None


def wrong_chains(
    files: TimerFiles, ticks: npt.NDArray[np.int64], precision: int
) -> list[CorruptFileError]:
    """Return why chains cannot be read, at most one reason for each slot.

    Args:
        files: wheel and timer log.
        ticks: ``(n,)`` slots, in units of the precision.
        precision: ms of one slot.
    """
    found = []
    for tick in ticks.tolist():
        try:
            for chain in files.wheel.chains(tick):
                read_chain(files.log, chain, tick, precision, 0, _END)
        except CorruptFileError as error:
            found.append(error)
    return found
