"""`LogEnd`, and `EndBeside`: where a log ends that this process does not write.

The end is looked for after the last known record each time that it is asked for, as another process
may have written more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from reput.locks import new_lock
from reput.log.damage import Damage
from reput.log.reading.walk import Onward, Walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.files.mapping.mapped import MappedFileQueue
    from reput.log.reading.finder import SoundRecordFinder
    from reput.log.reading.tail import Tail
    from reput.log.reading.windows import BatchReader
    from reput.record.batch import Corruption

__all__ = ["EndBeside", "Extent", "LogEnd"]

_DAMAGE_SIZE = 65_536


@attrs.frozen
class LogEnd:
    """Where a log ends, as far as known."""

    offset: int = 0
    """Physical offset after the last whole record."""
    last_record_offset: int = -1
    """Where that record begins; -1 if not known."""
    last_store_timestamp: int = 0
    """Its store time, ms; 0 if not known. Older records after the end are remainders of a log that
    was cut."""
    is_damaged: bool = False
    """Whether bytes at the end must not be taken for a record."""


class Extent(Protocol):
    """What knows where the log ends; the appender in a log that this process writes."""

    end_offset: int
    """Physical offset after the last whole record."""

    def move_end(self, end_offset: int) -> None:
        """Make ``end_offset`` the log's end."""
        ...


class OwnExtent:
    """The end of a log that this process only reads."""

    def __init__(self) -> None:
        self.end_offset = 0

    def move_end(self, end_offset: int) -> None:
        """Make ``end_offset`` the log's end."""
        self.end_offset = end_offset


class _Log(Protocol):
    """What is asked of the log; a `LogReader` is one."""

    files: MappedFileQueue
    keeps_records_after_damage: bool

    def window_reader(self, *, check_crc: bool = False) -> BatchReader: ...

    def finder(self) -> SoundRecordFinder: ...

    def size_at(self, offset: int) -> int: ...


class EndBeside:
    """Looks for the end of a log beside the process that writes it. Thread-safe."""

    def __init__(
        self, log: _Log, extent: Extent, tail: Tail | None, damages: Sequence[Damage]
    ) -> None:
        """Look for the end of ``log``.

        Args:
            log: the log.
            extent: owns the end.
            damages: damage before the end.
            tail: judges the last record; None if every record is whole as soon as its size is
                there.
        """
        self.damages = tuple(damages)
        """Damage before the end, in the log's order."""
        self.last_store_timestamp = 0
        """Store time of the last record before the end, ms; 0 if not known."""
        self._log = log
        self._extent = extent
        self._tail = tail
        self._damage = b""
        """Bytes at the end when it was set, if damaged: no record as long as they stay the same."""
        self._damage_at = 0
        self._found_end = 0
        """The end, with a last record that is not known to be whole."""
        self._lock = new_lock()

    def set(self, end: LogEnd) -> None:
        """Begin to look at ``end``."""
        self._extent.move_end(end.offset)
        self._found_end = self._damage_at = end.offset
        self.last_store_timestamp = end.last_store_timestamp
        self._damage = self._log.files.read(end.offset, _DAMAGE_SIZE) if end.is_damaged else b""

    def look(self) -> None:
        """Look for records that another process wrote after the known end."""
        end = self._extent.end_offset
        if not self._anything_at(end) or (end == self._damage_at and self._is_damage()):
            return
        with self._lock:
            reader = self._log.window_reader(check_crc=True)
            walk = Walk(reader, self._extent.end_offset, self, follows=True)
            last = -1  # where the last record begins, unless something that follows proves it whole
            for found in walk:
                if isinstance(found, Damage):
                    self.damages += (found,)
                    last = -1
                elif len(found):
                    self.last_store_timestamp = int(found.store_timestamp[-1])
                    last = int(found.physical_offset[-1])
                    if last + int(found.size[-1]) < found.end_offset:
                        last = -1  # a blank follows
                self._extent.move_end(walk.position if last < 0 else last)
            end = self._found_end = walk.position
            if last >= 0 and (self._tail is None or self._tail.is_whole(last, end)):
                self._extent.move_end(end)

    def holds_back(self, physical_offset: int) -> bool:
        """Whether the log has a record there that is not known to be whole yet."""
        return self._extent.end_offset <= physical_offset < self._found_end

    def settle(self, last_record_offset: int = -1) -> None:
        """Wait until the record that is the last one now is known to be whole, or for a second.

        Args:
            last_record_offset: where the last record before the end begins, to hold it back until
                then; -1 to hold back no more than now.
        """
        if 0 <= last_record_offset < self._extent.end_offset:
            self._extent.move_end(last_record_offset)
        self.look()
        found_end = self._found_end
        if self._tail is None or self._extent.end_offset >= found_end:
            return
        for _ in self._tail.moments():
            self.look()
            if self._extent.end_offset >= found_end:
                return

    def _is_damage(self) -> bool:
        """Whether the log still has the damage that was at its end."""
        if not self._damage:
            return False
        return self._log.files.read(self._damage_at, _DAMAGE_SIZE) == self._damage

    def _anything_at(self, offset: int) -> bool:
        files = self._log.files
        if files.base_of(offset) is None:
            files.refresh()
            if offset < files.min_offset:
                return True
        head = files.read(offset, 4)
        return len(head) == 4 and head != b"\0\0\0\0"

    # ------------------------------------------------------------------ the walk's policy

    def limit(self, position: int) -> int | None:
        """Read up to the damage that was at the end."""
        return self._damage_at if position < self._damage_at and self._is_damage() else None

    def past(self, at: int, finding: Corruption | None) -> Onward | None:
        """Skip damage only if something follows it that was certainly written later."""
        log = self._log
        if finding is None or (at == self._damage_at and self._is_damage()):
            return None
        if not log.keeps_records_after_damage or not log.size_at(at):
            return None  # a writer writes a record's size last
        timestamp = self.last_store_timestamp
        damages = log.finder().damages_at(at, finding, after=timestamp)
        if not damages:
            return None
        if len(log.window_reader(check_crc=True).read(at).batch):
            return Onward(at)  # the record was just being written
        return Onward(damages[-1].end_offset, damages)
