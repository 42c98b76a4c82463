"""`LogEnd`, and `ExternalLogEnd`: where a log ends that this process does not write.

The end is looked for after the last known record each time that it is asked for, as another process
may have written more.
"""

from __future__ import annotations

import enum
import zlib
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from reput.log.losses import Damage
from reput.log.reader.batchreader import border_of
from reput.log.reader.logwalk import LogWalk, NextRecord
from reput.record.checksum import looks_torn
from reput.record.messageview import message_at
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.files.system.disk import Disk
    from reput.log.reader.batchreader import BatchReader
    from reput.log.reader.resync import NextRecordFinder
    from reput.record.batch import Corruption

_DAMAGE_SIZE: Final = 65_536
_WINDOW_SIZE: Final = 256 << 10
"""Bytes that are read at a time: a reader that is up to date finds few new ones, and zeros."""
_QUIET_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02


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


class _Log(Protocol):
    """The part of the log that is needed; a `LogReader` is one."""

    files: MappedFileQueue
    keeps_records_after_damage: bool

    def window_reader(
        self, *, check_crc: bool = False, window_size: int | None = None
    ) -> BatchReader: ...

    def finder(self) -> NextRecordFinder: ...

    def size_at(self, offset: int) -> int: ...


class ExternalLogEnd:
    """Looks for the end of a log beside the process that writes it. Thread-safe."""

    def __init__(self, log: _Log, tail: Tail | None, damages: Sequence[Damage]) -> None:
        """Look for the end of ``log``; the other arguments are those of `LogReader`."""
        self.end_offset = 0
        """Physical offset after the last whole record."""
        self.damages = tuple(damages)
        """Damage before the end, in the log's order."""
        self.last_store_timestamp = 0
        """Store time of the last record before the end, ms; 0 if not known."""
        self._log = log
        self._tail = tail
        self._damage = b""
        """Bytes at the end when it was set, if damaged: no record as long as they stay the same."""
        self._damage_at = 0
        self._found_end = 0
        """The end, with a last record that is not known to be whole."""
        self._lock = new_lock()

    def set(self, end: LogEnd) -> None:
        """Begin to look at ``end``."""
        self.end_offset = self._found_end = self._damage_at = end.offset
        self.last_store_timestamp = end.last_store_timestamp
        self._damage = self._log.files.read(end.offset, _DAMAGE_SIZE) if end.is_damaged else b""

    def look(self) -> None:
        """Look for records that another process wrote after the known end."""
        end = self.end_offset
        if not self._anything_at(end) or (end == self._damage_at and self._is_damage()):
            return
        with self._lock:
            reader = self._log.window_reader(check_crc=True, window_size=_WINDOW_SIZE)
            stop = self._log.files.visible_end
            walk = LogWalk(reader, self.end_offset, self, stop, follows=True)
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
                self.end_offset = walk.position if last < 0 else border_of(self._log.files, last)
            end = self._found_end = walk.position
            if last >= 0 and (self._tail is None or self._tail.is_whole(last, end)):
                self.end_offset = end

    def holds_back(self, physical_offset: int) -> bool:
        """Whether the log has a record there that is not known to be whole yet."""
        return self.end_offset <= physical_offset < self._found_end

    def settle(self, last_record_offset: int = -1) -> None:
        """Wait until the record that is the last one now is known to be whole, or for a second.

        Args:
            last_record_offset: where the last record before the end begins, to hold it back until
                then; -1 to hold back no more than now.
        """
        if 0 <= last_record_offset < self.end_offset:
            self.end_offset = border_of(self._log.files, last_record_offset)
        self.look()
        found_end = self._found_end
        if self._tail is None or self.end_offset >= found_end:
            return
        for _ in self._tail.moments():
            self.look()
            if self.end_offset >= found_end:
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
        if position < self._damage_at and self._is_damage():
            return self._damage_at
        return self._log.files.visible_end

    def past(self, at: int, finding: Corruption | None) -> NextRecord | None:
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
            return NextRecord(at)  # the record was just being written
        return NextRecord(damages[-1].end_offset, damages)


# --------------------------------------------------------------------------- its last record


class Writer(enum.Enum):
    """Which program has a store open to write."""

    NONE = "none"
    REPUT = "reput"
    OTHER = "other"
    """Another program, RocketMQ for example, or one that is not known."""


class Tail:
    """Judges whether the last record of a log is whole, which another program may be writing.

    RocketMQ copies a record into the file from its first byte, the size, to its last byte. So a
    reader in another process finds size and magic while the rest is still on its way, and no
    checksum covers topic and properties. reput writes the size last, so its records are whole as
    soon as they are seen.

    Beside another program a record is whole

    * if another record, or the blank that closes the file, follows it, and it is read after that;
    * else if it did not change for a second, and neither topic nor properties end in zeros.

    A program that was killed may have left a part of a record, so the zeros count then, too. For
    one thread at a time.
    """

    def __init__(self, files: MappedFileQueue, writer: Callable[[], Writer], clock: Disk) -> None:
        """Judge the log in ``files``.

        Args:
            files: the log's files.
            writer: tells who has the store open to write.
            clock: measures how long a record did not change.
        """
        self._files = files
        self._writer = writer
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._since = 0.0

    def is_whole(self, start: int, end: int) -> bool:
        """Whether the record at ``[start, end)``, which nothing follows, is known to be whole."""
        # Asked after the record was seen: if its writer is gone by now, its bytes are final.
        writer = self._writer()
        if writer is Writer.REPUT:
            return True
        data = self._files.read(start, end - start)
        if writer is Writer.OTHER:
            seen, now = (start, end, zlib.crc32(data)), self._clock.monotonic()
            if seen != self._seen:
                self._seen, self._since = seen, now
            if now - self._since < _QUIET_SECONDS:
                return False
        message = message_at(data, start)
        if message is None:
            return False
        return not (message.topic.endswith("\0") or looks_torn(message.properties_text))

    def moments(self) -> Iterator[None]:
        """Yield now and then, until a record that did not change meanwhile would be whole."""
        end = self._clock.monotonic() + _QUIET_SECONDS + _PAUSE_SECONDS
        while self._writer() is Writer.OTHER and self._clock.monotonic() < end:
            self._clock.sleep(_PAUSE_SECONDS)
            yield
