"""`TimerLog`: the files of timer records, appended and read by record number.

Records are numbered over all files; a number tells the record's place, as every file but the last
holds as many records as fit. Thread-safe for one writer and any readers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput.files import (
    OWN_DIRECTORY,
    DirtyFiles,
    Disk,
    FilePool,
    MappedFileQueue,
    create_temporary_file,
)
from reput.record.layout import BLANK_MAGIC
from reput_schedule.timerwheel.layout import (
    BLANK_DTYPE,
    LOG_DIRECTORY,
    RECORD_DTYPE,
    RECORD_SIZE,
    records_per_file,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin import StoreContext

    Records = npt.NDArray[np.void]
    Integers = npt.NDArray[np.int64]

logger = logging.getLogger(__name__)

_OPEN_FILES = 16
_CHUNK = 1 << 16  # records read at once by a scan: 3.4 MB
_LEAST_PER_FILE = 2


class TimerLog:
    """Timer-log files of one store.

    Attributes:
        directory: path of the directory that has the files.
        end: number of the next record.
        file_size: bytes of one file.
    """

    def __init__(self, context: StoreContext, file_size: int) -> None:
        self._disk: Disk = context.disk
        self._writable = context.writable
        self.directory = context.directory(LOG_DIRECTORY)
        self._scratch = context.directory(OWN_DIRECTORY, "timerlog-file")
        self._pool = FilePool(context.disk, _OPEN_FILES, write=context.writable)
        self.unflushed: DirtyFiles[str] = DirtyFiles(
            context.disk, lambda path: self._pool.flush(path)
        )
        self.file_size = file_size
        self.end = 0
        self._files = self._queue(file_size)

    def _queue(self, file_size: int) -> MappedFileQueue:
        return MappedFileQueue(self.directory, file_size, self._disk, self._pool)

    # ------------------------------------------------------------------ which files there are

    def load(self) -> None:
        """Find the files; `end` is set by recovery.

        Raises:
            CorruptFileError: files of different sizes, a gap, or a size that holds no records.
        """
        files = self._queue(0)  # existing files tell how large files are
        files.load(writable=self._writable)
        if not files.bases:
            return
        size, first = files.file_size, files.bases[0]
        if records_per_file(size) < _LEAST_PER_FILE or first % size:
            reason = f"a file of {size} bytes that begins at {first} is not a timer-log file"
            raise CorruptFileError(files.path(first), 0, reason)
        self.file_size, self._files = size, files
        self.end = self.number_of(first) + len(files.bases) * self._per_file

    @property
    def _per_file(self) -> int:
        return records_per_file(self.file_size)

    @property
    def min_position(self) -> int:
        """Timer-log position at which the first file begins."""
        return self._files.min_offset

    @property
    def first(self) -> int:
        """Number of the oldest record that may exist."""
        return self.number_of(self.min_position)

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return not self._files.bases

    def position_of(self, number: int) -> int:
        """Return the timer-log position of record ``number``."""
        file, row = divmod(number, self._per_file)
        return file * self.file_size + row * RECORD_SIZE

    def positions_of(self, first: int, count: int) -> Integers:
        """Return ``(count,)`` positions of the records from number ``first`` on."""
        numbers = np.arange(first, first + count)
        per_file = self._per_file
        return numbers // per_file * self.file_size + numbers % per_file * RECORD_SIZE

    def number_of(self, position: int) -> int:
        """Return the number of the record that begins at ``position``; -1 if none does."""
        file, inside = divmod(position, self.file_size)
        row, rest = divmod(inside, RECORD_SIZE)
        return -1 if rest or row >= self._per_file else file * self._per_file + row

    def path_of(self, number: int) -> str:
        """Return the path of the file that holds record ``number``."""
        return self._files.path(number // self._per_file * self.file_size)

    def has_first(self) -> bool:
        """Whether the first file still exists, if there was one."""
        return self._files.has_first()

    def paths_after(self, end: int) -> list[str]:
        """Return the paths of files that hold no record before number ``end``."""
        last = self.position_of(max(end - 1, self.first)) if end else -1
        return [self._files.path(base) for base in self._files.bases if base > last]

    # ------------------------------------------------------------------ reading

    def read(self, first: int, end: int) -> Records:
        """Return records ``[first, end)`` of `RECORD_DTYPE`, as far as one file holds them."""
        end = min(end, (first // self._per_file + 1) * self._per_file)
        data = self._files.read(self.position_of(first), (end - first) * RECORD_SIZE)
        return np.frombuffer(data[: len(data) // RECORD_SIZE * RECORD_SIZE], RECORD_DTYPE)

    def chunks(self, first: int, end: int) -> Iterator[tuple[int, Records]]:
        """Yield ``[first, end)`` in stretches, ascending: number of the first record, records."""
        first = max(first, self.first)
        while first < end:
            records = self.read(first, min(end, first + _CHUNK))
            if len(records) == 0:
                return
            yield first, records
            first += len(records)

    def find(self, physical_offset: int) -> int:
        """Return the number of the first record whose message begins at that offset or above."""
        low, high = self.first, self.end
        while low < high:
            middle = (low + high) // 2
            found = self.read(middle, middle + 1)
            if len(found) and found["physical_offset"][0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    # ------------------------------------------------------------------ writing

    def append(self, records: Records) -> None:
        """Append records; `end` moves when all of them are written."""
        written = 0
        while written < len(records):
            number = self.end + written
            if number >= self.first + len(self._files.bases) * self._per_file:
                self._make_file(number // self._per_file * self.file_size)
            room = self._per_file - number % self._per_file
            part = records[written : written + room]
            path = self.path_of(number)
            self._pool.write(path, part.tobytes(), number % self._per_file * RECORD_SIZE)
            self.unflushed.written(path)
            written += len(part)
        self.end += len(records)

    def _make_file(self, base: int) -> None:
        if base and self._files.bases:
            self._close_file(base - self.file_size)
        disk = self._disk
        disk.make_directory(self.directory, durable=True)
        # Flushed before it gets its name: its records lead to records in the files before it.
        create_temporary_file(disk, self._scratch, self.file_size, flush=True)
        self._files.add(base, self._scratch)

    def _close_file(self, base: int) -> None:
        """Write the blank after the last record of a file."""
        position = self._per_file * RECORD_SIZE
        blank = np.zeros(1, BLANK_DTYPE)
        blank["size"], blank["magic"] = self.file_size - position, BLANK_MAGIC
        path = self._files.path(base)
        self._pool.write(path, blank.tobytes(), position)
        self.unflushed.written(path)

    def note_unflushed(self) -> None:
        """Have the next flush cover every file: a killed process may have left unflushed pages."""
        for base in self._files.bases:
            self.unflushed.written(self._files.path(base))

    # ------------------------------------------------------------------ cutting

    def truncate(self, number: int) -> None:
        """Cut all records from ``number`` on."""
        self._files.truncate(self.position_of(number))
        self.end = number

    def remove_all(self) -> None:
        """Remove every file of the directory that could be of this log, and start at 0."""
        self._pool.close()
        for entry in reversed(self._disk.list(self.directory)):
            if entry.name.isascii() and entry.name.isdigit() and entry.is_file():
                self._disk.remove(entry.path)
                self._disk.flush_directory(self.directory)
        self._pool = FilePool(self._disk, _OPEN_FILES, write=True)
        self._files, self.end = self._queue(self.file_size), 0

    def trim(self, min_physical_offset: int) -> int:
        """Remove files whose messages the commit log has all lost, but never the last file.

        Returns:
            The number of files removed.

        Source: RocketMQ ``TimerMessageStore`` also judges a file by its last record.
        """
        keep = self.min_position
        for base in self._files.bases[:-1]:
            last = self.number_of(base) + self._per_file - 1
            found = self.read(last, last + 1)
            if not len(found) or found["physical_offset"][0] >= min_physical_offset:
                break
            keep = base + self.file_size
        return self._files.trim(keep)

    def close(self) -> None:
        """Close the files."""
        self._pool.close()
