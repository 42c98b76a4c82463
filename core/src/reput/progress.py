"""Durable progress of one plugin: how far its files are complete and flushed.

A file of two slots, written in turn, so that a torn write leaves the other one. Integers
big-endian:

    0       4         6        8          16               24             32        36   40
    +-------+---------+--------+----------+----------------+--------------+---------+----+
    | magic | version | unused | sequence | physical offset| record offset| finger- |crc |
    |       |         |        |          | (complete below| (last record | print   |    |
    |       |         |        |          |  this)         |  below it)   |         |    |
    +-------+---------+--------+----------+----------------+--------------+---------+----+

The fingerprint is the CRC-32 of the last record below the offset. When the record that stands there
now has another one, somebody cut the log and wrote on, and the progress means nothing.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput.disk import Disk

__all__ = ["Progress", "ProgressFile"]

_SLOT: Final = struct.Struct(">4sHHqqqII")
_MAGIC: Final = b"RPUT"
_VERSION: Final = 1
_SLOT_STRIDE: Final = 4096  # a slot to a page: one torn page never takes both


@attrs.frozen
class Progress:
    """Everything below `physical_offset` is in the plugin's files and on disk."""

    physical_offset: int
    record_offset: int = -1
    """Where the last record below it begins; -1 when there is none."""
    fingerprint: int = 0
    """CRC-32 of that record."""


@attrs.define(eq=False)
class ProgressFile:
    """Reads and writes the progress of one plugin."""

    path: str
    disk: Disk
    _sequence: int = 0
    _saved: Progress | None = None

    def load(self) -> Progress | None:
        """The newest whole slot; None where there is none."""
        if not self.disk.exists(self.path):
            return None
        data = self.disk.read_file(self.path, 2 * _SLOT_STRIDE)
        for position in (0, _SLOT_STRIDE):
            slot = data[position : position + _SLOT.size]
            if len(slot) < _SLOT.size:
                continue
            magic, version, _, sequence, offset, record, fingerprint, crc = _SLOT.unpack(slot)
            if magic != _MAGIC or version != _VERSION or zlib.crc32(slot[:-4]) != crc:
                continue
            if sequence > self._sequence:
                self._sequence = sequence
                self._saved = Progress(offset, record, fingerprint)
        return self._saved

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
        is_new = not self.disk.exists(self.path)
        descriptor = self.disk.open(self.path, create=True)
        try:
            self.disk.write(descriptor, slot, sequence % 2 * _SLOT_STRIDE)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)
        if is_new:
            self.disk.flush_directory(self.path.rpartition("/")[0] or ".")
        self._sequence, self._saved = sequence, progress
