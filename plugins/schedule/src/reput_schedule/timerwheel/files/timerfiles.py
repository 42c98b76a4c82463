"""`TimerFiles`: timer log and wheel together, and how they are opened and repaired.

Both are derived from the commit log: doubtful records are cut, and their messages dispatched again.

* After a proper close, the wheel's file is taken as it is, unless it contradicts something.
* Otherwise every record of the timer log is read and checked, and the wheel is rebuilt from them.
  Checked is all that is relied on later: sizes, order, and the link to the previous record of the
  slot.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput.errors import CorruptFileError
from reput.files import OWN_DIRECTORY
from reput.record.layout import RECORD_MIN_SIZE
from reput_schedule.timerwheel.files.placement import Parked, place
from reput_schedule.timerwheel.files.slotchain import slot_ticks
from reput_schedule.timerwheel.files.timerlog import TimerLog
from reput_schedule.timerwheel.files.wheel import Wheel
from reput_schedule.timerwheel.layout import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_MAX,
    NO_POSITION,
    RECORD_DTYPE,
    RECORD_SIZE,
    WHEEL_FILE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput_schedule.timerwheel.files.timercheckpoint import CheckpointRecord

    Records = npt.NDArray[np.void]
    Integers = npt.NDArray[np.int64]

logger = logging.getLogger(__name__)

_NO_LIMIT: Final = 1 << 62  # a physical offset above every log
_RECORDS_LOOKED_FOR: Final = 4096  # of the end of the timer log, on the wheel of a closed store


class _Sound(NamedTuple):
    """How many records at the start of a chunk are valid and wanted."""

    size: int
    is_limit: bool
    """Whether the records after them are sound, too, but above the limit."""


class TimerFiles:
    """Timer log and wheel of one store.

    Attributes:
        log: the timer log.
        wheel: the slots.
        covered_to: physical offset after the last message that has a record.
        is_rebuilt: whether the wheel was rebuilt from the timer log, or will be.
        is_whole: of a reader: whether the timer log has all records that its checkpoint states.
        wheel_path: the wheel's file.
        wheel_scratch: where a new wheel is made, before it is renamed.
    """

    def __init__(
        self,
        context: StoreContext,
        precision: int,
        window: int,
        file_size: int,
        distrust_wheel: Callable[[bool], None],
    ) -> None:
        self._context = context
        self._precision = precision
        self._window = window
        self._distrust_wheel = distrust_wheel
        self.log = TimerLog(context, file_size)
        self.wheel = Wheel()
        self.wheel_path = context.directory(WHEEL_FILE)
        self.wheel_scratch = context.directory(OWN_DIRECTORY, "timerwheel-file")
        self.covered_to = 0
        self.is_rebuilt = False
        self.is_whole = True
        self._snapshots: list[str] = []
        """Names of a broker's snapshots of the wheel, in a store that is written."""

    # ------------------------------------------------------------------ opening

    def load(self) -> None:
        """Find the files of the timer log."""
        self._snapshots = self._find_snapshots()
        try:
            self.log.load()
        except CorruptFileError as error:
            if not self._context.writable:
                raise
            logger.warning("timer log is rebuilt from the commit log: %s", error)
            self._forget_wheel(is_log_empty=True)
            self.log.remove_all()

    def recreate(self) -> None:
        """Remove both, and start with an empty log and wheel."""
        if not self.log.is_empty:
            self._forget_wheel(is_log_empty=True)
        self.log.remove_all()
        self.wheel.clear()
        self.covered_to, self.is_rebuilt = 0, True

    def recover(self, check: CheckpointRecord, limit: int) -> bool:
        """Bring timer log and wheel in line with a commit log that is trusted up to ``limit``.

        Returns:
            Whether they hold all that ``check`` promises below ``limit``; if not, messages are
            missing from `covered_to` on.
        """
        if self.log.min_position > check.log_min:
            logger.warning("head of the timer log is missing; it is rebuilt")
            self.recreate()
            return check.log_end == 0
        if self._take_wheel(check, limit):
            self.log.truncate(self.log.end)  # records that a crash left after the end
            return True
        # A killed process may have left unflushed records: the next flush covers every file.
        self.log.note_unflushed()
        self.is_rebuilt = True
        self.wheel.clear()
        self.wheel.advance(check.reached.read_timestamp // self._precision)
        end, is_limit = self._scan(limit)
        position = self.log.position_of(end)
        if any(self.log.read(end, end + 1).tobytes()):
            self._forget_wheel(is_log_empty=end == self.log.first)
        self.log.truncate(end)
        logger.info("timer wheel made from its log record_count=%d", end - self.log.first)
        return is_limit or position >= check.log_end

    def _take_wheel(self, check: CheckpointRecord, limit: int) -> bool:
        log, disk = self.log, self._context.disk
        if not check.is_closed or self._snapshots:
            return False
        end = self._end_stated(check)
        if end is None:
            return False
        last = log.read(end - 1, end) if end > log.first else np.zeros(0, RECORD_DTYPE)
        covered = _end_of(last)
        if covered > limit:
            return False
        if end and not self.wheel.load(disk, self.wheel_path):
            return False
        self.wheel.advance(check.reached.read_timestamp // self._precision)
        if not self._is_wheel_right(check, end):
            logger.warning("timer wheel is rebuilt: its slots and the timer log differ")
            return False
        log.end, self.covered_to = end, covered
        return True

    def _is_wheel_right(self, check: CheckpointRecord, end: int) -> bool:
        """Return whether the slots agree with the timer log; if it was closed, with its end.

        A wheel of zeros, or of another moment, agrees with every log. Its messages would wait for
        ever, so the last records have to be on it.
        """
        if not self.wheel.is_sound(check.log_end):
            return False
        first = max(end - _RECORDS_LOOKED_FOR, self.log.first)
        return not check.is_closed or next(self._unlisted(self.wheel, first, end), None) is None

    def _unlisted(self, wheel: Wheel, first: int, end: int) -> Iterator[int]:
        """Yield the numbers of pending records in ``[first, end)`` to which no slot leads."""
        for start, records in self.log.chunks(first, end):
            positions = self.log.positions_of(start, len(records))
            rows = wheel.unlisted(slot_ticks(records, self._precision), positions)
            yield from (rows + start).tolist()

    def wrong_wheel(self, check: CheckpointRecord) -> Iterator[CorruptFileError]:
        """Yield what is wrong with the wheel's file, and the end of the log, of a closed store."""
        self.log.load()
        if self.log.is_empty or check.is_wheel_stale or self._find_snapshots():
            return
        end = self._end_stated(check)
        if end is None:
            reason = f"no record of the timer log ends at {check.log_end}, as the checkpoint states"
            yield CorruptFileError(self.log.path_of(self.log.first), 0, reason)
            return
        wheel = Wheel()
        if not wheel.load(self._context.disk, self.wheel_path):
            return  # it is made of the timer log
        wheel.advance(check.reached.read_timestamp // self._precision)
        if not wheel.is_sound(check.log_end):
            yield CorruptFileError(self.wheel_path, 0, "slots that no record of the timer log fits")
            return
        number = next(self._unlisted(wheel, self.log.first, end), None)
        if number is not None:
            position = self.log.position_of(number)
            reason = f"no slot leads to the record of the timer log at {position}"
            yield CorruptFileError(self.wheel_path, 0, reason)

    def _end_stated(self, check: CheckpointRecord) -> int | None:
        """Return the number after the last record by the checkpoint; None if that is impossible."""
        log = self.log
        if log.is_empty:
            return 0 if check.log_end == 0 else None
        if check.log_end == 0:
            return None
        before = log.number_of(check.log_end - RECORD_SIZE)  # a file's last record precedes a blank
        if not log.first <= before < log.end:
            return None
        found = log.read(before, before + 1)
        return before + 1 if len(found) and _is_record(found)[0] else None

    def _scan(self, limit: int) -> tuple[int, bool]:
        """Put all sound records on the wheel.

        Returns:
            The number after the last of them; whether the records end there because of ``limit``.
        """
        log, number = self.log, self.log.first
        for first, records in log.chunks(log.first, log.end):
            sound = self._sound(records, limit)
            kept = records[: sound.size]
            if len(kept):
                previous = self._add_to_wheel(first, kept)
                stated = kept["previous"].astype(np.int64)
                # After the head was trimmed, a chain may lead back into it.
                is_trimmed = (previous == NO_POSITION) & (stated < log.min_position)
                wrong = np.flatnonzero((previous != stated) & ~is_trimmed)
                if len(wrong):
                    logger.warning(
                        "timer log is cut at a record that leads astray file=%s position=%d",
                        log.path_of(first + int(wrong[0])),
                        log.position_of(first + int(wrong[0])),
                    )
                    return self._scan_again(first + int(wrong[0]), limit), False
                self.covered_to = _end_of(kept[-1:])
            number = first + len(kept)
            if len(kept) < len(records):
                return number, sound.is_limit
        return number, False

    def _scan_again(self, end: int, limit: int) -> int:
        """Clear the wheel and put the records below ``end`` on it, which are valid."""
        read_tick = self.wheel.read_tick
        self.wheel.clear()
        self.wheel.advance(read_tick)
        self.covered_to = 0
        for first, records in self.log.chunks(self.log.first, end):
            self._add_to_wheel(first, records)
            self.covered_to = _end_of(records[-1:])
        return end

    def _sound(self, records: Records, limit: int) -> _Sound:
        offsets = records["physical_offset"].astype(np.int64)
        good = _is_record(records)
        good[:1] &= offsets[:1] >= self.covered_to
        good[1:] &= offsets[1:] >= offsets[:-1] + records["message_size"][:-1]
        count = len(records) if good.all() else int(np.argmin(good))
        ends = offsets[:count] + records["message_size"][:count]
        wanted = int(np.searchsorted(ends, limit, side="right"))
        return _Sound(wanted, wanted < count)

    def _add_to_wheel(self, first: int, records: Records) -> Integers:
        positions = self.log.positions_of(first, len(records))
        ticks = slot_ticks(records, self._precision)
        return self.wheel.add(ticks, positions, deltas_of(records))

    def look(self, check: CheckpointRecord) -> bool:
        """Read both as they are on disk now, without changing them.

        Returns:
            Whether there is a wheel that agrees with the timer log.
        """
        self.log.load()
        self.is_whole = True
        disk = self._context.disk
        # A writer removes both, and cuts the timer log, between any two steps.
        is_stale = check.is_wheel_stale or self._find_snapshots()
        if is_stale or not self.wheel.load(disk, self.wheel_path):
            return self.look_at_log(check)
        self.log.end = min(self._end_stated(check) or 0, self.log.end)
        self.covered_to = _end_of(
            self.log.read(max(self.log.end - 1, self.log.first), self.log.end)
        )
        self.wheel.advance(check.reached.read_timestamp // self._precision)
        return self._is_wheel_right(check, self.log.end)

    def _find_snapshots(self) -> list[str]:
        """Return the names of files of their own that have the wheel, ``timerwheel.POSITION``.

        A broker with ``timerWheelSnapshotFlush`` writes them, and what the wheel's file has is
        older, or is newer after a start without that option. So the wheel is made of all records
        of the timer log.
        """
        directory, name = os.path.split(self.wheel_path)
        beginning = f"{name}."
        return [
            each.name
            for each in self._context.disk.list(directory)
            if each.name.startswith(beginning) and each.name.removeprefix(beginning).isdigit()
            if each.is_file(follow_symlinks=False)
        ]

    def remove_snapshots(self) -> None:
        """Remove a broker's snapshots, once the wheel and its log are on disk.

        A broker with that option reads the newest snapshot, and the wheel's file without one.
        """
        if not self._snapshots:
            return
        directory, disk = os.path.dirname(self.wheel_path), self._context.disk
        for name in self._snapshots:
            disk.remove(os.path.join(directory, name))
        disk.flush_directory(directory)
        logger.info("snapshots of the timer wheel removed count=%d", len(self._snapshots))
        self._snapshots = []

    def _forget_wheel(self, *, is_log_empty: bool) -> None:
        """Have a broker make its wheel of the timer log, before records are cut.

        The checkpoint first: without the wheel a broker would read only the last files of the log.
        """
        self._distrust_wheel(is_log_empty)
        disk = self._context.disk
        if disk.exists(self.wheel_path):
            disk.remove(self.wheel_path)
            disk.flush_directory(os.path.dirname(self.wheel_path))
        self.remove_snapshots()

    def look_at_log(self, check: CheckpointRecord) -> bool:
        """Make a wheel in memory from the records of the timer log; likewise."""
        self.covered_to = 0
        self.wheel.clear()
        self.wheel.advance(check.reached.read_timestamp // self._precision)
        self.log.end, _ = self._scan(_NO_LIMIT)
        self.is_whole = self.log.position_of(self.log.end) >= check.log_end
        return self.log.end > self.log.first

    # ------------------------------------------------------------------ appending

    def append(self, parked: Parked) -> Records:
        """Append records for ``parked`` to the timer log, put them on the wheel, and return them.

        Raises:
            OSError: the timer log cannot be written; nothing has changed.
        """
        records = records_of(parked, self._precision, self._window)
        positions = self.log.positions_of(self.log.end, len(records))
        ticks = slot_ticks(records, self._precision)
        undo = self.wheel.remember(ticks)
        records["previous"] = self.wheel.add(ticks, positions, deltas_of(records))
        try:
            self.log.append(records)
        except BaseException:
            self.wheel.restore(undo)
            raise
        self.covered_to = _end_of(records[-1:])
        return records

    def close(self) -> None:
        """Close the files."""
        self.log.close()


def records_of(parked: Parked, precision: int, window: int) -> Records:
    """Return ``(n,)`` records for ``parked``, which lead to no other record yet."""
    enqueued, slot_time, rolls = place(parked.out, parked.stored, precision, window)
    records = np.zeros(len(parked), RECORD_DTYPE)
    records["size"] = RECORD_SIZE
    records["magic"] = parked.magic(rolls)
    records["enqueued"], records["delay"] = enqueued, slot_time - enqueued
    records["physical_offset"] = parked.physical_offset
    records["message_size"] = parked.size
    records["topic_hash"] = parked.topic_hash
    return records


def deltas_of(records: Records) -> Integers:
    """Return ``(n,)`` int64: what each record adds to the count of its slot."""
    return np.where(records["magic"] & MAGIC_DELETE, -1, 1)


def _end_of(records: Records) -> int:
    """Return the physical offset after the message of the last record; 0 without records."""
    if not len(records):
        return 0
    return int(records["physical_offset"][-1]) + int(records["message_size"][-1])


def _is_record(records: Records) -> npt.NDArray[np.bool_]:
    magic = records["magic"]
    good: npt.NDArray[np.bool_] = (records["size"] == RECORD_SIZE) & (records["reserved"] == 0)
    good &= (magic >= MAGIC_DEFAULT) & (magic <= MAGIC_MAX) & (records["enqueued"] >= 0)
    good &= records["physical_offset"].astype(np.int64) >= 0
    # A time above every slot would make the slot look empty.
    good &= records["enqueued"].astype(np.int64) < 1 << 62
    good &= records["enqueued"].astype(np.int64) + records["delay"] > 0
    return good & (records["message_size"] >= RECORD_MIN_SIZE)
