"""A commit log that is open to be read: its files, where it ends, and borders near an offset.

No plugin is needed, none of the derived files, and no checkpoint: the log says itself how far it
goes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from reput.files import FilePool, MappedFileQueue, file_name, system_clock
from reput.log import (
    CheckedNote,
    LedgerFiles,
    LogReader,
    LogStateFile,
    StateFile,
    Tail,
    Writer,
)
from reput_arrow.logs.arrowdisk import LocalDisk, disk_of
from reput_arrow.logs.logplace import LEDGER
from reput_tools.offline import Traces, inspect_store

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_arrow.logs.logplace import LogPlace

_FILES_OPEN = 16
_NEAR_SIZE = 64 << 10
"""Bytes in which a border is looked for first; in most logs they hold many records."""
_WINDOW_SIZE = 4 << 20
"""Bytes decoded at a time, so that the columns of a window stay in the processor's cache."""
_LARGE_WINDOW_SIZE = 16 << 20
_LARGE_RECORD_SIZE = 512
"""Bytes of records of which few fit into a window, so that each batch costs as much as its rows:
with records of 1 KiB a larger window took a quarter less time, with those of 100 bytes a third
more."""
_BODY_SIZE = 4 << 20
"""No body is larger, unless a broker was told otherwise."""
_CLOCK_STEP_MS = 1_000
"""Clocks go back by so little unnoticed."""
_IN_WORK_MS = 60_000
"""No put takes so long."""
_PROBE_SIZE = 4 << 10
"""Bytes that are looked at to tell what is written from what is not yet."""


class OpenLog(LogReader):
    """A log that is open to be read, and a context manager that closes its files.

    Executors run task after task in one process: files that stay open would add up.
    """

    def __init__(self, place: LogPlace) -> None:
        only = None if place.only_base is None else file_name(place.only_base)
        disk, directory = disk_of(place.directory, only)
        self._open_files = FilePool(disk, _FILES_OPEN)
        files, root = self._files_of(place, directory, disk), os.path.dirname(directory)
        files.load(writable=False)
        self._root = root if isinstance(disk, LocalDisk) else ""
        self._traces: Traces | None = None
        # Without a look at the lock, which not every file system has: up to what was flushed.
        checked = CheckedNote(StateFile.of(root, disk)).load(reput_wrote_last=False)
        tail = Tail(files, self._writer, disk)
        super().__init__(files, _WINDOW_SIZE, tail=tail, checked=checked)
        self._is_closed = LogStateFile.of(root, disk).closed() is not None

    def _files_of(self, place: LogPlace, directory: str, disk: Disk) -> MappedFileQueue:
        if place.kind == LEDGER:
            return LedgerFiles(directory, None, place.file_size, disk, self._open_files)
        files = MappedFileQueue(directory, place.file_size, disk, self._open_files)
        files.grows = place.grows
        return files

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; batches that were taken stay as they are."""
        self._open_files.close()
        if self._traces is not None:
            self._traces.disk.release()

    def _writer(self) -> Writer:
        """Return which program writes the log; on other file systems, none can in place."""
        if not self._root:
            return Writer.NONE
        if self._traces is None:
            self._traces = inspect_store(self._root, follow_links=True)
        return self._traces.writer

    def next_record(self, start: int, end: int) -> int:
        """See `LogReader.next_record`; looks near ``start`` first, as large logs have many cuts."""
        near = min(start + _NEAR_SIZE, end)
        found = super().next_record(start, near)
        return found if found < near or near == end else super().next_record(start, end)

    def fit_window(self, offset: int) -> None:
        """Decode as much at a time as is best for records like the one at ``offset``."""
        at = (
            offset + 4 if offset >= self.files.entries_from else offset
        )  # an entry's size is second
        is_large = self.size_at(at) >= _LARGE_RECORD_SIZE
        self._window_size = _LARGE_WINDOW_SIZE if is_large else _WINDOW_SIZE

    def find_end(self, *, quickly: bool = False) -> None:
        """Look where the log ends, and keep that end: later records are not read.

        Args:
            quickly: begin to look shortly before the end, and not where the last file begins.
                A border there can be the work of a body, so that the end is for readers by
                `read_split` only: they must land on it, and fail where they do not.
        """
        visible = self.files.visible_end
        if visible is not None:
            self.set_end(visible)
            return
        last = self.last_written()
        start = self.files.min_offset if last is None else last
        if quickly and last is not None:
            start = self._border_before_end(last)
        if isinstance(self.files, LedgerFiles):
            # Committed entries are whole: zeros among them are damage, and not the log's end.
            start = max(start, self.files.committed_end or 0)
        self.set_end(start)
        end = self._followed() if last is not None else start
        while last is not None and (after := self._after_zeros(end)) is not None:
            self.set_end(after)
            end = self._followed()
        self.set_end(end)

    def find_end_behind(self, start: int, last_store_timestamp: int) -> None:
        """Look how far the log goes behind ``start``, an end that was found before.

        Args:
            start: where to begin to look.
            last_store_timestamp: store time of the record before it, ms; 0 for unknown.
        """
        self.set_end(start, last_store_timestamp=last_store_timestamp)
        self.set_end(self._followed())

    def _followed(self) -> int:
        """Return where the log ends behind the known end; the last record there is whole."""
        self.follows = True
        try:
            self.settle()
            return self.max_physical_offset
        finally:
            self.follows = False

    def _after_zeros(self, end: int) -> int | None:
        """Return where the log goes on after zeros at ``end``; None where it does end there.

        A writer puts a record's size last, of many records the first one's. So what is new after
        zeros is being written, and what is older than the log was left there when the log was cut.
        """
        since = self.last_store_timestamp
        if not since or self.size_at(end):
            return None
        after = self.finder().next_record(end, self.files.capacity_end, since - _CLOCK_STEP_MS)
        if after is None:
            return None
        if self._is_closed:
            return after
        is_new = self.store_timestamp_in_files(after) > system_clock() - _IN_WORK_MS
        return None if is_new else after

    def timestamp_before(self, border: int) -> int:
        """Return the store time of the last record before ``border``, ms; 0 where none is near."""
        base = self.files.base_of(border)
        if base is None or base == border:
            return 0
        start = max(base, border - 2 * _BODY_SIZE)
        start = start if start == base else self.next_record(start, border)
        self.set_end(border)
        last = 0
        for batch in self.scan(start, border):
            last = int(batch.store_timestamp[-1]) if len(batch) else last
        return last

    def _border_before_end(self, base: int) -> int:
        """Return a border shortly before the end of what is written in the file at ``base``.

        Where zeros begin is guessed by halving. Zeros in a body make the guess too low, at worst,
        and then more is looked at after it.

        Returns:
            The border; ``base`` where none is found.
        """
        low, high = base, base + self.file_size
        while high - low > _BODY_SIZE:
            middle = (low + high) // 2
            if self.files.read(middle, _PROBE_SIZE).strip(b"\0"):
                low = middle
            else:
                high = middle
        start = max(base, low - 2 * _BODY_SIZE)
        found = self.next_record(start, low) if start > base else low
        return found if found < low else base

    def last_written(self) -> int | None:
        """Return the base of the last file in which something was written; None where nothing was.

        Only that file can end early; a file before it ends with a blank, or is damaged there. Files
        after it are such as a broker makes ahead of need.
        """
        bases = reversed(self.files.bases)
        return next((base for base in bases if self.files.read(base, 8).strip(b"\0")), None)
