"""`TimerCheckpoint`: how far messages were delivered, and its file ``config/timercheck``.

The timer log and the wheel are derived from the commit log. How far messages were delivered is not:
this file keeps it, in two numbers. A parked message is delivered when the time of its slot lies
below ``read_timestamp`` and its physical offset below ``examined_to``. A message that came too late
for its slot lies above ``examined_to``, and is delivered when that moves on.

When the clock is set back, ``read_timestamp`` is set back, too: otherwise messages parked from then
on would be taken for overdue and come too early. A *mark* then remembers the two numbers of before:
what they cover stays delivered.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_schedule.timerwheel.layout import (
    CHECK_DTYPE,
    CHECK_FILE_SIZE,
    MARK_DTYPE,
    MARKS_MAX,
    NOTE_DTYPE,
    NOTE_MAGIC,
    NOTE_POSITION,
    NOTE_VERSION,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

Mark = tuple[int, int]
"""Read time in ms and physical offset: messages below both are delivered."""
_RECENT_MAX = 256
_ANY_QUEUE_OFFSET = 1 << 62  # above those of every queue
_SAVE_AFTER = 16 << 20  # bytes of log to read again after a crash, though nothing was delivered


@attrs.frozen(kw_only=True)
class TimerCheckpoint:
    """How far messages were delivered at one moment."""

    read_timestamp: int
    """ms, a multiple of the precision."""
    examined_to: int
    """Physical offset."""
    marks: tuple[Mark, ...] = ()
    """From before the clock was set back; read times descending, physical offsets ascending."""
    copies_end: int = 0
    """Physical offset after the newest message whose delivery is counted here."""

    def floor(self, slot_time: int) -> int:
        """Return the physical offset below which all messages of a future slot are delivered."""
        return max((end for read, end in self.marks if slot_time < read), default=0)

    def delivered(self, times: Integers, physical_offsets: Integers) -> npt.NDArray[np.bool_]:
        """Return which parked messages are delivered.

        Args:
            times: ``(n,)`` int64, of the messages' slots, ms.
            physical_offsets: ``(n,)`` int64, of the messages.
        """
        found = np.zeros(len(times), np.bool_)
        for read, end in [(self.read_timestamp, self.examined_to), *self.marks]:
            found |= (times < read) & (physical_offsets < end)
        return found

    def is_covered(self, flushed_offset: int) -> bool:
        """Return whether all counted messages are on disk, if the log is to ``flushed_offset``."""
        return max(self.copies_end, self.examined_to) <= flushed_offset

    def turned_back(self, horizon: int) -> TimerCheckpoint | None:
        """Return the state with the clock set back to ``horizon``; None if set back too often."""
        mark = self.read_timestamp, self.examined_to
        marks = [each for each in self.marks if each[0] > mark[0]] + [mark]
        if len(marks) > MARKS_MAX:
            return None
        return attrs.evolve(self, read_timestamp=horizon, marks=tuple(marks))

    def advanced(self, read_timestamp: int) -> TimerCheckpoint:
        """Return the state after all slots below ``read_timestamp`` were delivered."""
        marks = tuple(each for each in self.marks if each[0] > read_timestamp)
        return attrs.evolve(self, read_timestamp=read_timestamp, marks=marks)


class Recent:
    """Recent values of `TimerCheckpoint`, to find the newest with its messages on disk."""

    def __init__(self) -> None:
        self._every: deque[TimerCheckpoint] = deque()

    def add(self, reached: TimerCheckpoint) -> None:
        """Note a moment, later than all noted before."""
        self._every.append(reached)
        if len(self._every) > _RECENT_MAX:  # keeping every second one is enough
            self._every = deque(list(self._every)[1::2])

    def covered(self, flushed_offset: int) -> TimerCheckpoint | None:
        """Return the last moment whose messages are all on disk, and forget all before it."""
        found = None
        while self._every and self._every[0].is_covered(flushed_offset):
            found = self._every.popleft()
        return found


@attrs.frozen(kw_only=True)
class CheckpointRecord:
    """The contents of the checkpoint file."""

    reached: TimerCheckpoint
    copies_to: int
    """Physical offset: messages delivered but not counted in `reached` lie above it."""
    precision_ms: int
    log_min: int
    """Timer-log position of the first file."""
    log_end: int
    """Timer-log position after the last record."""
    queue_offset: int
    """Next message of the timer's queue to put on the wheel."""
    is_closed: bool
    """Whether the wheel's file holds all that the timer log does."""
    is_superseded: bool = False
    """Whether a broker has written its part since: it knows better what waits."""
    is_wheel_stale: bool = False
    """Whether a writer has begun to cut the timer log: wheel and `log_end` are of before."""
    late_timestamp: int | None = None
    """ms, the earliest slot that is overdue and not delivered; RocketMQ has to start there."""
    broker_read: int | None = None
    """ms, where RocketMQ has to start in a store that delivers nothing."""
    version: tuple[int, int, int] = (0, 0, 0)
    """State version, ms, counter."""

    def is_news(self, saved: CheckpointRecord | None) -> bool:
        """Return whether this differs enough from ``saved`` to be written.

        Passing time alone does not, nor a log that grew a little: a crash then finds the same.
        """
        if saved is None or self.is_closed != saved.is_closed:
            return True
        reached, before = self.reached, saved.reached
        if (reached.examined_to, reached.marks) != (before.examined_to, before.marks):
            return True
        if (self.log_min, self.log_end, self.queue_offset, self.precision_ms) != (
            saved.log_min,
            saved.log_end,
            saved.queue_offset,
            saved.precision_ms,
        ):
            return True
        if reached.read_timestamp < before.read_timestamp or reached.copies_end > saved.copies_to:
            return True
        return self.copies_to - saved.copies_to >= _SAVE_AFTER


def encode_check(check: CheckpointRecord) -> bytes:
    """Return the bytes of the file."""
    reached = check.reached
    head = np.zeros(1, CHECK_DTYPE)
    read, late = reached.read_timestamp, check.late_timestamp
    if check.broker_read is not None:
        read = check.broker_read
    elif late is not None:
        read = min(read, late)
    head["read_timestamp"] = read
    head["flushed_position"] = check.log_end
    head["queue_offset"] = head["master_queue_offset"] = check.queue_offset
    names = ("state_version", "version_timestamp", "version_counter")
    for name, value in zip(names, check.version, strict=True):
        head[name] = value
    note = np.zeros(1, NOTE_DTYPE)
    note["magic"], note["version"] = NOTE_MAGIC, NOTE_VERSION
    note["closed"] = check.is_closed
    note["precision_ms"] = check.precision_ms
    note["read_timestamp"] = reached.read_timestamp
    note["examined_to"], note["copies_to"] = reached.examined_to, check.copies_to
    note["log_min"], note["log_end"] = check.log_min, check.log_end
    note["head_crc"] = zlib.crc32(head.tobytes())
    note["mark_count"] = len(reached.marks)
    marks = np.array(list(reached.marks), MARK_DTYPE)
    covered = note.tobytes()[4:] + marks.tobytes()
    note["crc"] = zlib.crc32(covered)
    data = head.tobytes().ljust(NOTE_POSITION, b"\0") + note.tobytes() + marks.tobytes()
    return data.ljust(CHECK_FILE_SIZE, b"\0")


def with_whole_log(data: bytes, *, is_log_empty: bool) -> bytes:
    """Return the bytes of a file with which a broker makes its wheel of all of the timer log.

    The time to which it has delivered stays. It takes the queue offset from the last record of the
    timer log, and from the file if the timer log is empty.

    Source: RocketMQ ``TimerMessageStore.recover``, which reads the timer log from one file before
    the flushed position, and takes the master's queue offset as an upper limit.
    """
    head = np.zeros(1, CHECK_DTYPE)
    if len(data) >= CHECK_DTYPE.itemsize:
        head[:] = np.frombuffer(data, CHECK_DTYPE, 1)
    head["flushed_position"] = 0
    head["master_queue_offset"] = _ANY_QUEUE_OFFSET
    if is_log_empty:
        head["queue_offset"] = 0
    return (head.tobytes() + data[CHECK_DTYPE.itemsize :]).ljust(CHECK_FILE_SIZE, b"\0")


def is_damaged(data: bytes) -> bool:
    """Return whether bytes in which `decode_check` finds nothing are not RocketMQ's either.

    RocketMQ writes the file without our part.
    """
    if len(data) < CHECK_DTYPE.itemsize:
        return True
    note = data[NOTE_POSITION:][: NOTE_DTYPE.itemsize]
    if len(note) < NOTE_DTYPE.itemsize:
        return False
    return bool(np.frombuffer(note, NOTE_DTYPE, 1)[0]["magic"] == NOTE_MAGIC)


def decode_check(data: bytes) -> CheckpointRecord | None:
    """Return what the bytes of a file say; None if our part is missing or damaged.

    RocketMQ's part alone is not used: it does not tell what was delivered since.
    """
    if len(data) < NOTE_POSITION + NOTE_DTYPE.itemsize:
        return None
    head = data[: CHECK_DTYPE.itemsize]
    note = np.frombuffer(data, NOTE_DTYPE, 1, NOTE_POSITION)[0]
    count = int(note["mark_count"])
    if note["magic"] != NOTE_MAGIC or note["version"] != NOTE_VERSION:
        return None
    if not 0 <= count <= MARKS_MAX:
        return None
    end = NOTE_POSITION + NOTE_DTYPE.itemsize + count * MARK_DTYPE.itemsize
    if len(data) < end or zlib.crc32(data[NOTE_POSITION + 4 : end]) != note["crc"]:
        return None
    marks = np.frombuffer(data, MARK_DTYPE, count, NOTE_POSITION + NOTE_DTYPE.itemsize)
    fields = np.frombuffer(head, CHECK_DTYPE, 1)[0]
    is_own = zlib.crc32(head) == int(note["head_crc"])
    is_whole_log = not is_own and bool(fields["master_queue_offset"] == _ANY_QUEUE_OFFSET)
    reached = TimerCheckpoint(
        read_timestamp=int(note["read_timestamp"]),
        examined_to=int(note["examined_to"]),
        marks=_pairs(marks),
        copies_end=int(note["copies_to"]),
    )
    return CheckpointRecord(
        reached=reached,
        copies_to=int(note["copies_to"]),
        precision_ms=int(note["precision_ms"]),
        log_min=int(note["log_min"]),
        log_end=int(note["log_end"]),
        queue_offset=int(fields["queue_offset"]),
        # Whichever program wrote RocketMQ's part last also wrote the wheel.
        is_closed=bool(note["closed"]) and is_own,
        is_superseded=not is_own and not is_whole_log,
        is_wheel_stale=is_whole_log,
        version=(
            int(fields["state_version"]),
            int(fields["version_timestamp"]),
            int(fields["version_counter"]),
        ),
    )


def decode_broker_check(data: bytes, precision: int) -> CheckpointRecord | None:
    """Return what RocketMQ's part of the file says, for readers of a store without our part.

    The caller sets ``examined_to``, which follows from the timer log.
    """
    if len(data) < CHECK_DTYPE.itemsize:
        return None
    head = np.frombuffer(data, CHECK_DTYPE, 1)[0]
    return CheckpointRecord(
        reached=TimerCheckpoint(read_timestamp=int(head["read_timestamp"]), examined_to=0),
        copies_to=0,
        precision_ms=precision,
        log_min=0,
        log_end=int(head["flushed_position"]),
        queue_offset=int(head["queue_offset"]),
        is_closed=False,
    )


def _pairs(rows: npt.NDArray[np.void]) -> tuple[Mark, ...]:
    return tuple((read, end) for read, end in rows.tolist())
