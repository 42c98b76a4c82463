"""How far the log, and the files of each plugin, are on disk: entries of the state file.

A progress is the value of an entry (`StateFile`), 25 bytes, integers big-endian:

    0       1                 9               17            21       25
    +-------+-----------------+---------------+-------------+--------+
    | flags | physical offset | record offset | fingerprint | closed |
    +-------+-----------------+---------------+-------------+--------+

The flag 1 marks a closed log (`LogStateFile`); ``closed`` is then the CRC-32 of the file
``checkpoint``. The fingerprint is the CRC-32 of the last record below the offset. If the log's
record there now has another CRC, the log was cut and written again since, and the progress is void.
"""

from __future__ import annotations

import functools
import logging
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

import attrs

from reput.record.layout import SIZE_AND_MAGIC

if TYPE_CHECKING:
    from reput.log.reader.logview import LogView
    from reput.log.statefile import StateFile

logger = logging.getLogger(__name__)

_PROGRESS: Final = struct.Struct(">BqqII")
_CLOSED: Final = 1
_FIRST_READ_SIZE: Final = 4096  # bytes: most records are shorter


@attrs.frozen
class Progress:
    """Everything below `physical_offset` is in the plugin's files, and on disk."""

    physical_offset: int
    record_offset: int = -1
    """Where the last record below it begins; -1 if there is none."""
    fingerprint: int = 0
    """CRC-32 of that record."""
    closed: int | None = None
    """Of the log's own progress, if the log ends there as it was closed: CRC-32 of the file
    ``checkpoint``; else None."""

    @classmethod
    @functools.lru_cache(64)
    def of(cls, value: bytes) -> Self | None:
        """Return the progress in an entry; None if the value is not a progress."""
        if len(value) != _PROGRESS.size:
            return None
        flags, offset, record, fingerprint, closed = _PROGRESS.unpack(value)
        if offset < 0 or not -1 <= record <= offset:
            return None
        return cls(offset, record, fingerprint, closed if flags & _CLOSED else None)

    def packed(self) -> bytes:
        """Return the value of the entry."""
        flags = 0 if self.closed is None else _CLOSED
        place = self.physical_offset, self.record_offset, self.fingerprint
        return _PROGRESS.pack(flags, *place, self.closed or 0)


@attrs.frozen
class Recorded:
    """Progress as read at one moment."""

    sequence: int
    """Increases with each change."""
    physical_offset: int
    """Everything below it is in the plugin's files, and on disk."""


@attrs.frozen(eq=False)
class ProgressEntry:
    """The progress of one plugin, or of the log, in a state file."""

    file: StateFile
    name: str

    @property
    def path(self) -> str:
        """The state file."""
        return self.file.path

    def load(self) -> Progress | None:
        """Return the progress in the newest whole slot that has it; None if none has."""
        return next(iter(self.load_all()), None)

    def load_all(self) -> list[Progress]:
        """Return the progress in the whole slots, newest first."""
        self.file.load()
        return self.known()

    def known(self) -> list[Progress]:
        """Return the same, read once only: for a store's writer, as nobody else writes the file."""
        found = []
        for slot in self.file.known:
            progress = Progress.of(slot[self.name].value) if self.name in slot else None
            if progress is not None:
                found.append(progress)
        return found

    def believable(self, log: LogView) -> int | None:
        """Return the newest recorded offset whose last record is still the same in ``log``.

        None if nothing is recorded, or if the log was cut and written again below both slots.
        """
        return self.believable_of(self.load_all(), log)

    def believable_of(
        self, newest_first: Sequence[Progress], log: LogView, known: Progress | None = None
    ) -> int | None:
        """Return the same for slots that were loaded; the log has the last record of ``known``."""
        low, high = log.min_physical_offset, log.max_physical_offset
        for progress in newest_first:
            record = progress.record_offset
            if progress.physical_offset > high:
                continue
            if record >= low:
                if known is not None and record == known.record_offset:
                    found = known.fingerprint
                else:
                    found = fingerprint_of(log, record)
                if found != progress.fingerprint:
                    continue
            if progress is not newest_first[0]:
                text = "the log was rewritten below a plugin's progress plugin=%s goes_back_to=%d"
                logger.warning(text, self.name, progress.physical_offset)
            return max(progress.physical_offset, low)
        if newest_first:
            logger.warning("the log was rewritten below a plugin's progress plugin=%s", self.name)
        return None

    def recorded(self) -> Recorded | None:
        """Read what is on disk now, perhaps written by another process; None if nothing is."""
        slots = self.file.load()
        entry = slots[0].get(self.name) if slots else None
        progress = None if entry is None else Progress.of(entry.value)
        if entry is None or progress is None:
            return None
        return Recorded(entry.changed, progress.physical_offset)

    def save(self, progress: Progress) -> None:
        """Change this entry only; on disk when this returns."""
        self.file.save({self.name: progress.packed()})

    def reset(self) -> None:
        """Set the progress to 0, in both slots: everything is derived again."""
        self.file.save_in_both({self.name: Progress(0).packed()})


def fingerprint_of(log: LogView, record_offset: int) -> int:
    """Return the CRC-32 of the record at ``record_offset``; 0 without one."""
    return zlib.crc32(record_at(log, record_offset))


def record_at(log: LogView, record_offset: int) -> bytes:
    """Return the bytes of the record at ``record_offset``; none if there is no record."""
    data = log.read(record_offset, _FIRST_READ_SIZE)
    if record_offset < 0 or len(data) < SIZE_AND_MAGIC.size:
        return b""
    size, _ = SIZE_AND_MAGIC.unpack_from(data)
    if not 0 <= size <= len(data):
        data = log.read(record_offset, size)
    return data[:size]
