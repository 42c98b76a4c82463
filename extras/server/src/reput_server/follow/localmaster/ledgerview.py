"""`LedgerView`: a log of DLedger as the plain log that a replica of it has.

A replica's log is plain, so that it has no heads of entries. Each file of entries becomes a file
with the same name and the same records, one after another from its beginning, and a blank after
them:

    dledger-n0/data/<base>     head record head record … padding
    commitlog/<base>           record record …           blank

So where a record goes follows from the records before it in its file alone. A replica that is
stopped goes on with the same bytes, whatever files the node has removed meanwhile. For the same
reason, a committed transaction whose half message is in another file states 0 for its offset.

Entries count when the node notes them as committed. Files of a plain log from before DLedger stay
as they are.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput_tools.offline import committed_end, moved_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from reput.log import LedgerFiles, LogReader
    from reput.record import DispatchBatch

    Offsets = npt.NDArray[np.int64]

_PADDING_MAGIC: Final = -1
_REMOVED: Final = "its end cannot be read; the file was removed"
_STEP_SIZE: Final = 1 << 20
"""Bytes between two places that are remembered, at least."""


@attrs.define
class _File:
    """One file of entries, as far as it was read, from its beginning on."""

    base: int
    places: list[tuple[int, int]]
    """Ascending ends of records in the log of DLedger, and in the plain log."""
    end: tuple[int, int]
    """The last of them, up to which the file was read."""
    damage: CorruptFileError | None = None
    """Why it cannot be read further."""


class LedgerView:
    """Reads a log of DLedger as plain bytes. Thread-safe."""

    def __init__(self, log: LogReader, files: LedgerFiles) -> None:
        """Read nothing yet.

        Args:
            log: the log, open for reading.
            files: its files.
        """
        self._log, self._files = log, files
        self._lock = threading.Lock()
        self._known: dict[int, _File] = {}
        self._committed = 0

    @property
    def min_physical_offset(self) -> int:
        """Where the plain log begins."""
        return self._log.min_physical_offset

    @property
    def max_physical_offset(self) -> int:
        """Where the plain log ends: after the last committed record.

        With damaged entries, where it ends at most: `read` raises at them.
        """
        with self._lock:
            stop = self._stop()
            base = self._files.base_of(stop)
            if base is None or stop <= self._files.entries_from:
                return stop
            file = self._file(base, stop)
            return file.end[1] + (0 if file.damage is None else stop - file.end[0])

    def read(self, physical_offset: int, size: int) -> bytes:
        """Return bytes of the plain log, of one file, up to damage; none after its end.

        Raises:
            CorruptFileError: the entry at the offset is damaged.
        """
        with self._lock:
            base = self._files.base_of(physical_offset)
            if base is None or size <= 0:
                return b""
            if physical_offset < self._files.entries_from:
                size = min(size, self._files.entries_from - physical_offset)
                return self._log.read(physical_offset, size)
            stop, file_end = self._stop(), base + self._files.file_size
            file = self._file(base, min(stop, file_end))
            size = min(size, file_end - physical_offset)
            data = self._records(file, physical_offset, size)
            if file.damage is not None:
                if not data:
                    raise file.damage
            elif stop > file_end and physical_offset + len(data) >= file.end[1]:
                data += _blank(file.end[1], file_end, physical_offset + len(data), size - len(data))
            return data

    def _stop(self) -> int:
        """Return the end of what is committed and was found, in the log of DLedger.

        Raises:
            CorruptFileError: it is not known what is committed.
        """
        files, end = self._files, self._log.max_physical_offset  # looks for new files, too
        if files.entries_from > files.capacity_end:
            return end  # no entry yet
        begin = max(self._committed, files.min_offset, files.entries_from)
        if not self._committed and files.committed_index is None:
            path = os.path.join(os.path.dirname(files.directory), "checkpoint")
            raise CorruptFileError(path, 0, "it does not say which entries are committed")
        self._committed = max(begin, min(committed_end(self._log, files, begin), end))
        return self._committed

    def _file(self, base: int, stop: int) -> _File:
        """Return what is known of a file, after it was read up to ``stop``."""
        file = self._known.get(base)
        if file is None:
            for gone in [each for each in self._known if each < self._files.min_offset]:
                del self._known[gone]
            file = self._known[base] = _File(base, [(base, base)], (base, base))
        file.damage = None
        try:
            for batch, moved in self._batches(*file.end, stop, check_crc=False):
                file.end = batch.end_offset, int(moved[-1] + batch.size[-1])
                if file.end[0] - file.places[-1][0] >= _STEP_SIZE:
                    file.places.append(file.end)
            if stop == base + self._files.file_size:
                self._check_padding(file.end[0], stop)
        except CorruptFileError as error:
            file.damage = error
        return file

    def _check_padding(self, start: int, file_end: int) -> None:
        """Raise if a file was not read to its end: the node may have removed it meanwhile."""
        padding = SIZE_AND_MAGIC.pack(_PADDING_MAGIC, file_end - start)
        if start < file_end and self._files.read(start, len(padding)) != padding:
            raise CorruptFileError(*self._log.path_of(start), _REMOVED)

    def _batches(
        self, start: int, place: int, stop: int, check_crc: bool = True
    ) -> Iterator[tuple[DispatchBatch, Offsets]]:
        """Yield the records of one file from ``start`` on, and their places from ``place`` on."""
        if start >= stop:
            return
        for batch in self._log.scan(start, stop, check_crc=check_crc):
            if len(batch):
                moved = place + np.cumsum(batch.size) - batch.size
                place = int(moved[-1] + batch.size[-1])
                yield batch, moved
            if batch.finding is not None:
                at = batch.finding.physical_offset
                raise CorruptFileError(*self._log.path_of(at), batch.finding.detail)

    def _records(self, file: _File, place: int, size: int) -> bytes:
        """Return bytes of the plain log from ``place`` on, as far as records are valid."""
        found, stop = [], min(place + size, file.end[1])
        if place >= stop:
            return b""
        begin = max(each for each in file.places if each[1] <= place)
        try:
            for batch, moved in self._batches(*begin, file.end[0]):
                rows = (moved + batch.size > place) & (moved < stop)
                if rows.any():
                    first, last = int(rows.argmax()), int(len(rows) - rows[::-1].argmax())
                    part, at = batch[first:last], moved[first:last]
                    data = moved_records(part, at, lambda old: self._halves(file, old)).tobytes()
                    found.append(data[max(place - int(at[0]), 0) : stop - int(at[0])])
                if int(moved[-1] + batch.size[-1]) >= stop:
                    break
        except CorruptFileError:
            if not found:
                raise
        return b"".join(found)

    def _halves(self, file: _File, stated: Offsets) -> Offsets:
        """Return the places of half messages; 0 of messages in other files."""
        places = np.zeros_like(stated)
        wanted = stated[(stated >= file.base) & (stated < file.end[0])]
        if not len(wanted):
            return places
        begin = max(each for each in file.places if each[0] <= int(wanted.min()))
        for batch, moved in self._batches(*begin, file.end[0]):
            row = np.searchsorted(batch.physical_offset, stated).clip(max=len(batch) - 1)
            is_here = batch.physical_offset[row] == stated
            places[is_here] = moved[row[is_here]]
            if batch.end_offset > int(wanted.max()):
                break
        else:
            if self._files.base_of(file.base) is None:
                raise CorruptFileError(*self._log.path_of(file.base), _REMOVED)
        return places


def _blank(start: int, end: int, offset: int, size: int) -> bytes:
    """Return bytes from ``offset`` on of a blank."""
    head = SIZE_AND_MAGIC.pack(end - start, BLANK_MAGIC)
    return (head[offset - start :] + bytes(size))[:size]
