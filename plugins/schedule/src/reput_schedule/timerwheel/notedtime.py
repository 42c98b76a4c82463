"""Finds the record of the timer log that leads to a parked message, and files that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.errors import CorruptFileError
from reput_schedule.timerwheel.files.placement import place
from reput_schedule.timerwheel.files.slotchain import read_chain
from reput_schedule.timerwheel.layout import PROPERTY_OUT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from reput.record import MessageView
    from reput_schedule.timerwheel.files.timercheckpoint import CheckpointRecord
    from reput_schedule.timerwheel.files.timerfiles import TimerFiles
    from reput_schedule.timerwheel.files.timerlog import TimerLog

__all__ = ["noted_time", "wrong_entries"]

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


def wrong_entries(
    files: TimerFiles,
    check: CheckpointRecord | None,
    ticks: npt.NDArray[np.int64],
    precision: int,
    log_begin: int,
) -> list[CorruptFileError]:
    """Return what is wrong with files and chains of a store that was closed.

    Args:
        files: wheel and timer log.
        check: the saved checkpoint.
        ticks: ``(n,)`` slots of what waits, in units of the precision.
        precision: ms of one slot.
        log_begin: physical offset at which the commit log begins.
    """
    # A broker notes nowhere which files it has removed, and removes none of an untrimmed log.
    begin = files.log.min_position if log_begin else 0
    if check is not None and check.is_closed:
        begin = check.log_min
    return [*_wrong_files(files.log, begin)] or _wrong_chains(files, ticks, precision)


def _wrong_chains(
    files: TimerFiles, ticks: npt.NDArray[np.int64], precision: int
) -> list[CorruptFileError]:
    """Return why chains cannot be read, at most one reason for each slot."""
    found = []
    for tick in ticks.tolist():
        try:
            for chain in files.wheel.chains(tick):
                read_chain(files.log, chain, tick, precision, 0, _END)
        except CorruptFileError as error:
            found.append(error)
    return found


def _wrong_files(log: TimerLog, begin: int) -> Iterator[CorruptFileError]:
    """Yield what is wrong with the order of the timer log's files, and of its records."""
    if log.first < log.end and log.min_position > begin:
        reason = f"the timer log begins here, and not at {begin}"
        yield CorruptFileError(log.path_of(log.first), 0, reason)
    covered = 0
    for first, records in log.chunks(log.first, log.end):
        offsets = records["physical_offset"].astype(np.int64)
        ends = np.maximum.accumulate(offsets + records["message_size"])
        wrong = offsets < np.concatenate([[covered], ends[:-1]])
        if wrong.any():
            number = first + int(np.argmax(wrong))
            position = log.position_of(number) % log.file_size
            reason = "the record is of a message that is not after the message of the record before"
            yield CorruptFileError(log.path_of(number), position, reason)
            return
        covered = int(ends[-1])
    for path in log.paths_after(log.end):
        yield CorruptFileError(path, 0, "the timer log ends before this file")
