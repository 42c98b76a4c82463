"""`Reached`: what was delivered, and the file ``config/timercheck`` that says so.

The timer log and the wheel come out of the commit log. What was delivered does not: this is kept
here, in two numbers. A parked message is delivered when the time of its slot lies below
``read_timestamp`` and its physical offset below ``examined_to``; what comes too late for its slot
lies behind the second one and is delivered when that moves.

When the clock is set back, ``read_timestamp`` follows it, or what is parked from then on would
be taken for overdue and come too early. A *mark* then remembers the two numbers of before: what
they cover stays delivered.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_schedule.timer.layout import (
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
    from collections.abc import Sequence

__all__ = ["Check", "Mark", "Reached", "Recent", "decode_check", "encode_check"]

Mark = tuple[int, int]
"""Read time in ms and physical offset: what lies below both is delivered."""
_RECENT_MAX = 256
_SAVE_AFTER = 16 << 20  # bytes of log to be read again after a crash, though nothing was delivered


@attrs.frozen(kw_only=True)
class Reached:
    """What is delivered, at one moment."""

    read_timestamp: int
    """ms, a multiple of the precision."""
    examined_to: int
    """Physical offset."""
    marks: tuple[Mark, ...] = ()
    """Of before the clock was set back; read times descending, physical offsets ascending."""
    copies_end: int = 0
    """Physical offset behind the newest message whose delivery is counted here."""

    def floor(self, slot_time: int) -> int:
        """Physical offset below which everything of a slot to come is delivered already."""
        return max((end for read, end in self.marks if slot_time < read), default=0)

    def is_covered(self, flushed_offset: int) -> bool:
        """Whether all that it vouches for is on disk where the log is up to ``flushed_offset``."""
        return max(self.copies_end, self.examined_to) <= flushed_offset

    def turned_back(self, horizon: int) -> Reached | None:
        """After the clock was set back to ``horizon``; None where it was set back too often."""
        mark = self.read_timestamp, self.examined_to
        marks = [each for each in self.marks if each[0] > mark[0]] + [mark]
        if len(marks) > MARKS_MAX:
            return None
        return attrs.evolve(self, read_timestamp=horizon, marks=tuple(marks))

    def advanced(self, read_timestamp: int) -> Reached:
        """After all slots below ``read_timestamp`` were delivered."""
        marks = tuple(each for each in self.marks if each[0] > read_timestamp)
        return attrs.evolve(self, read_timestamp=read_timestamp, marks=marks)


class Recent:
    """What was reached lately, so that what is on disk by now can be told."""

    def __init__(self) -> None:
        self._every: deque[Reached] = deque()

    def add(self, reached: Reached) -> None:
        """Note a moment, later than those before."""
        self._every.append(reached)
        if len(self._every) > _RECENT_MAX:  # every other one is enough
            self._every = deque(list(self._every)[1::2])

    def covered(self, flushed_offset: int) -> Reached | None:
        """The last moment whose messages are all on disk; those before it are forgotten."""
        found = None
        while self._every and self._every[0].is_covered(flushed_offset):
            found = self._every.popleft()
        return found


@attrs.frozen(kw_only=True)
class Check:
    """Everything that the file says."""

    reached: Reached
    copies_to: int
    """Physical offset: what was delivered and is not counted in `reached` lies behind it."""
    precision_ms: int
    log_min: int
    """Timer-log position of its first file."""
    log_end: int
    """Timer-log position behind its last record."""
    queue_offset: int
    """Next message of the timer's queue."""
    is_closed: bool
    """Whether the wheel's file holds what the timer log does."""
    late_timestamp: int | None = None
    """ms, the earliest slot that is overdue and not delivered; RocketMQ has to begin there."""
    version: tuple[int, int, int] = (0, 0, 0)
    """State version, ms, counter."""

    def is_news(self, saved: Check | None) -> bool:
        """Whether it is worth a write beside what was saved.

        Time that goes by is not, nor a log that grows a little: a crash then finds the same.
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


def encode_check(check: Check) -> bytes:
    """Bytes of the file."""
    reached = check.reached
    head = np.zeros(1, CHECK_DTYPE)
    late = check.late_timestamp
    read = reached.read_timestamp
    head["read_timestamp"] = read if late is None else min(read, late)
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


def is_damaged(data: bytes) -> bool:
    """Whether the bytes of a file in which `decode_check` finds nothing are nobody's.

    RocketMQ writes the file without a note of ours.
    """
    if len(data) < CHECK_DTYPE.itemsize:
        return True
    note = data[NOTE_POSITION:][: NOTE_DTYPE.itemsize]
    if len(note) < NOTE_DTYPE.itemsize:
        return False
    return bool(np.frombuffer(note, NOTE_DTYPE, 1)[0]["magic"] == NOTE_MAGIC)


def decode_check(data: bytes) -> Check | None:
    """What the bytes of a file say; None where they have no note of ours, or a damaged one.

    What RocketMQ alone wrote is not believed: it says nothing of what was delivered since.
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
    reached = Reached(
        read_timestamp=int(note["read_timestamp"]),
        examined_to=int(note["examined_to"]),
        marks=_pairs(marks.tolist()),
        copies_end=int(note["copies_to"]),
    )
    return Check(
        reached=reached,
        copies_to=int(note["copies_to"]),
        precision_ms=int(note["precision_ms"]),
        log_min=int(note["log_min"]),
        log_end=int(note["log_end"]),
        queue_offset=int(fields["queue_offset"]),
        # Who wrote the first part since also wrote the wheel.
        is_closed=bool(note["closed"]) and zlib.crc32(head) == int(note["head_crc"]),
        version=(
            int(fields["state_version"]),
            int(fields["version_timestamp"]),
            int(fields["version_counter"]),
        ),
    )


def _pairs(rows: Sequence[tuple[int, int]]) -> tuple[Mark, ...]:
    return tuple((read, end) for read, end in rows)
