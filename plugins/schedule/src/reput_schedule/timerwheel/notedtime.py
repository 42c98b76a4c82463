"""Finds the record of the timer log that leads to a parked message, and files that are wrong."""

from __future__ import annotations

import itertools
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
    from reput_schedule.timerwheel.files.timerlog import Records, TimerLog

_DIGITS_MAX: Final = 18
_END: Final = 1 << 62  # a physical offset above every log


def noted_time(files: TimerFiles, message: MessageView, precision: int, window: int) -> int | None:
    """Return the time of the slot whose chain leads to a message, ms; None without one.

    Args:
        files: wheel and timer log.
        message: a message of the timer's topic.
        precision: ms of one slot.
        window: slots ahead above which a message rolls.

    Raises:
        CorruptFileError: a chain of the slot leads astray.
        OSError: the timer log cannot be read.
    """
    text = message.properties.get(PROPERTY_OUT_MS, "")
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    _, times, _ = place(
        np.array([int(text)]), np.array([message.store_timestamp]), precision, window
    )
    tick = int(times[0]) // precision
    offset = message.physical_offset
    for chain in files.wheel.chains(tick):
        if len(read_chain(files.log, chain, tick, precision, offset, offset + 1)):
            return tick * precision
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
        check: the saved checkpoint, or that of the broker that wrote last.
        ticks: ``(n,)`` slots of what waits, in units of the precision.
        precision: ms of one slot.
        log_begin: physical offset at which the commit log begins.
    """
    # A broker notes nowhere which files it has removed, and removes none of an untrimmed log.
    begin = files.log.min_position if log_begin else 0
    is_closed = check is not None and check.is_closed
    if check is not None and is_closed:
        begin = check.log_min
    wrong = [*_wrong_files(files.log, begin, is_end_known=is_closed)]
    if check is not None and not wrong:
        wrong += files.wrong_wheel(check)
    return wrong or _wrong_chains(files, ticks, precision)


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


def _wrong_files(log: TimerLog, begin: int, *, is_end_known: bool) -> Iterator[CorruptFileError]:
    """Yield what is wrong with the order of the timer log's files, and of its records."""
    if not log.is_empty and log.min_position > begin:
        reason = f"the timer log begins here, and not at {begin}"
        yield CorruptFileError(log.path_of(log.first), 0, reason)
    covered = 0
    for first, records in log.chunks(log.first, log.end):
        offsets = records["physical_offset"].astype(np.int64)
        ends = np.maximum.accumulate(offsets + records["message_size"])
        late = np.flatnonzero(offsets < np.concatenate([[covered], ends[:-1]]))
        wrong = _first_wrong(log, first, records, late) if len(late) else None
        if wrong is not None:
            position = log.position_of(first + wrong) % log.file_size
            reason = "the record is of a message that is not after the message of the record before"
            yield CorruptFileError(log.path_of(first + wrong), position, reason)
            return
        covered = max(covered, int(ends[-1]))
    for path in log.paths_after(log.end) if is_end_known else ():
        yield CorruptFileError(path, 0, "the timer log ends before this file")


def _first_wrong(
    log: TimerLog, first: int, records: Records, late: npt.NDArray[np.intp]
) -> int | None:
    """Return the row of the first record of ``late`` that belongs elsewhere.

    After a kill, a broker adds messages that the timer log has already: with a later write time.
    A record of another message, or the same record again, is of a file with a wrong name.

    Args:
        log: the timer log.
        first: number of the first of ``records``.
        records: a part of the log.
        late: ``(n,)`` ascending rows of messages before that of an earlier record.
    """
    wanted = records["physical_offset"][late]
    messages: set[int] = set()
    contents: set[bytes] = set()
    earlier = itertools.chain(log.chunks(log.first, first), [(first, np.delete(records, late))])
    for _, part in earlier:
        found = part[np.isin(part["physical_offset"], wanted)]
        messages.update(found["physical_offset"].tolist())
        contents.update(each.tobytes() for each in found)
    for row in late.tolist():
        record = records[row]
        if int(record["physical_offset"]) not in messages or record.tobytes() in contents:
            return int(row)
    return None
