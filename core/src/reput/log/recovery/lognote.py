"""The log's own note, ``<store>/reput/flushed``: how far the log is on disk, and if it was closed.

The file has the format of progress (`reput.log.progress`). Every round of flushing writes it, and
closing writes it last, with the mark that the log ends there. So the next opening need not read the
last file to its end, and notices if the last record was changed.

The mark counts until another writer opens the store. A writer of reput makes the file ``abort``
first; every other writer changes the file ``checkpoint``, whose checksum the mark has.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import attrs

from reput.files.names import OWN_DIRECTORY
from reput.log.progress import Progress, ProgressFile, record_at
from reput.log.reading.reader import store_timestamp_of
from reput.log.recovery.abort import AbortFile

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reading.view import LogView

__all__ = ["LogNote"]

_NAME = "flushed"


@attrs.frozen
class LastRecord:
    """The last record of a log that is on disk, as a note has it."""

    offset: int = -1
    """Where the record begins; -1 if there is none."""
    end_offset: int = 0
    fingerprint: int = 0
    """Its CRC-32."""
    store_timestamp: int = 0
    """Its store time, ms."""


@attrs.define(eq=False)
class LogNote:
    """The note of one store."""

    root: str
    disk: Disk
    file: ProgressFile
    last: LastRecord = LastRecord()
    """What `flush` has noted last."""

    @classmethod
    def of(cls, root: str, disk: Disk, unreadable: Callable[[OSError], None] | None = None) -> Self:
        """Return the note of the store at ``root``; see `ProgressFile` for ``unreadable``."""
        path = os.path.join(root, OWN_DIRECTORY, _NAME)
        return cls(root, disk, ProgressFile(path, disk, unreadable))

    def closed(self) -> Progress | None:
        """Return where the log ended as it was closed; None if it was not, or was written since."""
        place = self.file.load()
        if place is None or place.closed is None:
            return None
        abort = AbortFile(os.path.join(self.root, "abort"), self.disk)
        if abort.present and not abort.left_on_purpose:
            return None
        return place if place.closed == self._checkpoint_crc() else None

    def flush(self, log: LogView, record_offset: int) -> None:
        """Note that a log is on disk up to the end of the record at an offset; -1 for none."""
        self._read(log, record_offset)
        if self.last.offset >= 0:
            last = self.last
            self.file.save(Progress(last.end_offset, last.offset, last.fingerprint))

    def close(self, log: LogView, record_offset: int) -> None:
        """Note that a log is closed.

        Args:
            log: the log, which is flushed and takes no more puts.
            record_offset: where its last record begins; -1 in an empty log.
        """
        self._read(log, record_offset)
        end, fingerprint = log.max_physical_offset, self.last.fingerprint
        self.file.save(Progress(end, record_offset, fingerprint, self._checkpoint_crc()))

    def _read(self, log: LogView, record_offset: int) -> None:
        """Read the record at an offset, which is the log's last one, unless that was done."""
        if record_offset == self.last.offset:
            return
        self.last, record = LastRecord(), record_at(log, record_offset)
        if record:
            end, timestamp = record_offset + len(record), max(store_timestamp_of(record), 0)
            self.last = LastRecord(record_offset, end, zlib.crc32(record), timestamp)

    def _checkpoint_crc(self) -> int:
        data = self.disk.read_if_exists(os.path.join(self.root, "checkpoint"), 4096)
        return 0 if data is None else zlib.crc32(data)
