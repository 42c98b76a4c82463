"""Durable progress of one plugin, or of the log: how far its files are complete and flushed.

The file has two slots, written in turn, so that a torn write leaves the other slot. Integers are
big-endian:

    0       4         6        8          16               24             32        36   40
    +-------+---------+--------+----------+----------------+--------------+---------+----+
    | magic | version | unused | sequence | physical offset| record offset| finger- |crc |
    |       |         |        |          | (complete below| (last record | print   |    |
    |       |         |        |          |  this)         |  below it)   |         |    |
    +-------+---------+--------+----------+----------------+--------------+---------+----+

The log's own file also marks a closed log (`LogStateFile`): such a slot has version 2, and before
its checksum four more bytes, the CRC-32 of the file ``checkpoint``.

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
    from reput.log.reader.logview import LogView

__all__ = ["Progress", "ProgressFile", "Recorded", "fingerprint_of", "record_at"]

logger = logging.getLogger(__name__)

_SLOT: Final = struct.Struct(">4sHHqqqI")  # without the checksum
_MAGIC: Final = b"RPUT"
_VERSION: Final = 1
_CLOSED_VERSION: Final = 2
_FIRST_READ_SIZE: Final = 4096  # bytes: most records are shorter
_SLOT_STRIDE: Final = 4096  # one page for each slot: a torn page never destroys both
_SIZE: Final = _SLOT_STRIDE + _SLOT.size + 4  # of a file both slots of which are there


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
    _slots: list[Progress] | None = None
    """The whole slots, newest first, as they were read or written last; None before that."""

    @property
    def is_short(self) -> bool:
        """Whether the file ends before the end of its second slot."""
        return len(self.disk.read_if_exists(self.path, _SIZE) or b"") < _SIZE

    def load(self) -> Progress | None:
        """Return the newest whole slot; None if no slot is whole."""
        return next(iter(self.load_all()), None)

    def load_all(self) -> list[Progress]:
        """Return the whole slots, newest first."""
        try:
            data = self.disk.read_if_exists(self.path, 2 * _SLOT_STRIDE) or b""
        except OSError as error:
            if self.unreadable is None:
                raise
            self.unreadable(error)
            return []
        slots = map(_read_slot, (data[:_SLOT_STRIDE], data[_SLOT_STRIDE:]))
        found = dict(filter(None, slots))
        self._sequence = max(found, default=self._sequence)
        self._slots = [found[sequence] for sequence in sorted(found, reverse=True)]
        return self._slots

    def known(self) -> list[Progress]:
        """Return the same, read once only: for a store's writer, as nobody else writes the file."""
        return self.load_all() if self._slots is None else self._slots

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
        slots = self.known()  # the older one is overwritten
        if slots[:1] == [progress]:
            return
        sequence = self._sequence + 1
        slot = _slot(sequence, progress)
        position = sequence % 2 * _SLOT_STRIDE
        if slots and not self.disk.overwrite(self.path, slot, position):
            slots = []  # somebody has removed it
        if not slots:
            # Complete from the first moment: a reader would take an empty file for damaged.
            self.disk.replace(self.path, bytes(position) + slot)
        self._sequence, self._slots = sequence, [progress, *slots[:1]]


def _slot(sequence: int, progress: Progress) -> bytes:
    version = _VERSION if progress.closed is None else _CLOSED_VERSION
    place = progress.physical_offset, progress.record_offset, progress.fingerprint
    slot = _SLOT.pack(_MAGIC, version, 0, sequence, *place)
    if progress.closed is not None:
        slot += progress.closed.to_bytes(4, "big")
    return slot + zlib.crc32(slot).to_bytes(4, "big")


def _read_slot(data: bytes) -> tuple[int, Progress] | None:
    """Return sequence and progress of the slot at the start of ``data``; None if not whole."""
    if len(data) < _SLOT.size:
        return None
    magic, version, _, sequence, *place = _SLOT.unpack_from(data)
    if magic != _MAGIC or version not in (_VERSION, _CLOSED_VERSION):
        return None
    size = _SLOT.size + (4 if version == _CLOSED_VERSION else 0)
    if zlib.crc32(data[:size]).to_bytes(4, "big") != data[size : size + 4]:
        return None
    closed = None if version == _VERSION else int.from_bytes(data[_SLOT.size : size], "big")
    offset, record, fingerprint = place
    return sequence, Progress(offset, record, fingerprint, closed)


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
