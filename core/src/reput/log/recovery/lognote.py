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
from reput.log.progress import Progress, ProgressFile, fingerprint_of
from reput.log.recovery.abort import AbortFile

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reading.view import LogView

__all__ = ["LogNote"]

_NAME = "flushed"


@attrs.define(eq=False)
class LogNote:
    """The note of one store."""

    root: str
    disk: Disk
    file: ProgressFile

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
        self.file.save_end_of(log, record_offset)

    def close(self, log: LogView, record_offset: int) -> None:
        """Note that a log is closed.

        Args:
            log: the log, which is flushed and takes no more puts.
            record_offset: where its last record begins; -1 in an empty log.
        """
        fingerprint = fingerprint_of(log, record_offset)
        end = log.max_physical_offset
        self.file.save(Progress(end, record_offset, fingerprint, self._checkpoint_crc()))

    def _checkpoint_crc(self) -> int:
        data = self.disk.read_if_exists(os.path.join(self.root, "checkpoint"), 4096)
        return 0 if data is None else zlib.crc32(data)
