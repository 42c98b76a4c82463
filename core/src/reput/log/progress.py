"""Durable progress of one plugin: how far its files are complete and flushed.

The file has two slots, written in turn, so that a torn write leaves the other slot. Integers are
big-endian:

    0       4         6        8          16               24             32        36   40
    +-------+---------+--------+----------+----------------+--------------+---------+----+
    | magic | version | unused | sequence | physical offset| record offset| finger- |crc |
    |       |         |        |          | (complete below| (last record | print   |    |
    |       |         |        |          |  this)         |  below it)   |         |    |
    +-------+---------+--------+----------+----------------+--------------+---------+----+

The fingerprint is the CRC-32 of the last record below the offset. If the log's record there now has
another CRC, the log was cut and written again since, and the progress is void.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.record.layout import SIZE_AND_MAGIC

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reading.view import LogView

__all__ = ["FLUSHED", "Progress", "ProgressFile", "Recorded", "fingerprint_of"]

logger = logging.getLogger(__name__)

FLUSHED: Final = "flushed"
"""Name, in `OWN_DIRECTORY`, of the file that records how far the log itself is flushed."""
_SLOT: Final = struct.Struct(">4sHHqqqII")
_MAGIC: Final = b"RPUT"
_VERSION: Final = 1
_SLOT_STRIDE: Final = 4096  # one page for each slot: a torn page never destroys both


@attrs.frozen
class Progress:
    """Everything below `physical_offset` is in the plugin's files, and on disk."""

    physical_offset: int
    record_offset: int = -1
    """Where the last record below it begins; -1 if there is none."""
    fingerprint: int = 0
    """CRC-32 of that record."""


@attrs.frozen
class Recorded:
    """Progress as read at one moment."""

    sequence: int
    """Increases with each write."""
    physical_offset: int
    """Everything below it is in the plugin's files, and on disk."""


@attrs.define(eq=False)
class ProgressFile:
    """Reads and writes the progress of one plugin."""

    path: str
    disk: Disk
    unreadable: Callable[[OSError], None] | None = None
    """Called if the file cannot be read, which then counts as missing; if None, it raises."""
    _sequence: int = 0
    _saved: Progress | None = None

    def load(self) -> Progress | None:
        """Return the newest whole slot; None if there is none."""
        return next(iter(self.load_all()), None)

    def load_all(self) -> list[Progress]:
        """Return the whole slots, newest first."""
        found: dict[int, Progress] = {}
        try:
            data = self.disk.read_if_exists(self.path, 2 * _SLOT_STRIDE) or b""
        except OSError as error:
            if self.unreadable is None:
                raise
            self.unreadable(error)
            return []
        for position in (0, _SLOT_STRIDE):
            slot = data[position : position + _SLOT.size]
            if len(slot) < _SLOT.size:
                continue
            magic, version, _, sequence, offset, record, fingerprint, crc = _SLOT.unpack(slot)
            if magic != _MAGIC or version != _VERSION or zlib.crc32(slot[:-4]) != crc:
                continue
            found[sequence] = Progress(offset, record, fingerprint)
        if found:
            self._sequence = max(found)
            self._saved = found[self._sequence]
        return [found[sequence] for sequence in sorted(found, reverse=True)]

    def believable(self, log: LogView) -> int | None:
        """Return the newest recorded offset whose last record is still the same in ``log``.

        None if nothing is recorded, or if the log was cut and written again below both slots.
        """
        return self.believable_of(self.load_all(), log)

    def believable_of(self, newest_first: Sequence[Progress], log: LogView) -> int | None:
        """Return the same for slots that were loaded."""
        low, high = log.min_physical_offset, log.max_physical_offset
        for progress in newest_first:
            record = progress.record_offset
            if progress.physical_offset > high:
                continue
            if record >= low and fingerprint_of(log, record) != progress.fingerprint:
                continue
            if progress is not newest_first[0]:
                text = "the log was rewritten below a plugin's progress file=%s goes_back_to=%d"
                logger.warning(text, self.path, progress.physical_offset)
            return max(progress.physical_offset, low)
        if newest_first:
            logger.warning("the log was rewritten below a plugin's progress file=%s", self.path)
        return None

    def recorded(self) -> Recorded | None:
        """Read what is on disk now, perhaps written by another process; None if nothing is."""
        progress = self.load()
        return None if progress is None else Recorded(self._sequence, progress.physical_offset)

    def save(self, progress: Progress) -> None:
        """Write ``progress`` to the older slot; on disk when this returns."""
        if progress == self._saved:
            return
        sequence = self._sequence + 1
        slot = _SLOT.pack(
            _MAGIC,
            _VERSION,
            0,
            sequence,
            progress.physical_offset,
            progress.record_offset,
            progress.fingerprint,
            0,
        )[:-4]
        slot += zlib.crc32(slot).to_bytes(4, "big")
        position = sequence % 2 * _SLOT_STRIDE
        if not self.disk.exists(self.path):
            # Complete from the first moment: a reader would take an empty file for damaged.
            self.disk.replace(self.path, bytes(position) + slot)
        else:
            self._write(slot, position)
        self._sequence, self._saved = sequence, progress

    def _write(self, slot: bytes, position: int) -> None:
        descriptor = self.disk.open(self.path, write=True)
        try:
            self.disk.write(descriptor, slot, position)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)

    def save_end_of(self, log: LogView, record_offset: int) -> None:
        """Save, as progress, the end of the record at ``record_offset``, if there is a record."""
        head = log.read(record_offset, SIZE_AND_MAGIC.size) if record_offset >= 0 else b""
        if len(head) == SIZE_AND_MAGIC.size:
            end = record_offset + SIZE_AND_MAGIC.unpack(head)[0]
            if self._saved is None or self._saved.physical_offset != end:
                self.save(Progress(end, record_offset, fingerprint_of(log, record_offset)))


def fingerprint_of(log: LogView, record_offset: int) -> int:
    """Return the CRC-32 of the record at ``record_offset``; 0 if there is none."""
    head = log.read(record_offset, SIZE_AND_MAGIC.size)
    if record_offset < 0 or len(head) < SIZE_AND_MAGIC.size:
        return 0
    size, _ = SIZE_AND_MAGIC.unpack(head)
    return zlib.crc32(log.read(record_offset, size))
