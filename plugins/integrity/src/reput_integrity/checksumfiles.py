"""The files of sums in one directory: read, append, cut, trim.

A file grows by what is appended; its size says how many units it has. Nothing is on disk before
`ChecksumFiles.flush`.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput.files import DirtyFiles, FilePool, file_name, is_file_name
from reput.record.layout import RECORD_MIN_SIZE
from reput_integrity.disputes import Disputes
from reput_integrity.layout import DISPUTES_NAME, UNIT_DTYPE
from reput_integrity.recordchecksums import Units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.files import Disk

_ONE = UNIT_DTYPE.itemsize
_READ_COUNT = 1 << 16  # units that are read at once
_FILES_OPEN = 4


@attrs.define(eq=False, repr=False)
class ChecksumFiles:
    """Files of sums. One thread appends; any thread may read."""

    directory: str
    disk: Disk
    file_size: int
    """Bytes of a file of the log."""
    bases: tuple[int, ...] = ()
    """Physical offsets at which the log's files begin that have sums, ascending; as loaded."""
    disputes: Disputes = attrs.field(factory=Disputes, init=False)
    """As loaded."""
    trouble: CorruptFileError | None = attrs.field(default=None, init=False)
    """Why disputes cannot be read."""
    _counts: dict[int, int] = attrs.field(factory=dict, init=False)
    """Units by base, of files that may be appended to."""
    _pool: FilePool = attrs.field(init=False)
    _unflushed: DirtyFiles[str] = attrs.field(init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._pool = FilePool(self.disk, _FILES_OPEN, write=True)
        self._unflushed = DirtyFiles(self.disk, self._pool.flush)

    def path(self, base: int) -> str:
        """Return the path of the sums of the log's file that begins at ``base``."""
        return f"{self.directory}/{file_name(base)}"

    def load(self) -> None:
        """Find the files that are on disk; files with other names are left alone."""
        names = (entry.name for entry in self.disk.list(self.directory))
        found = sorted(int(name) for name in names if is_file_name(name))
        self.bases = tuple(base for base in found if base % self.file_size == 0)
        self.disputes, self.trouble = Disputes(), None
        try:
            self.disputes = Disputes.load(self.disputes_path, self.disk)
        except CorruptFileError as error:
            self.trouble = error

    @property
    def disputes_path(self) -> str:
        """The file of disputes, which stands beside the directory of sums."""
        return os.path.join(os.path.dirname(self.directory), DISPUTES_NAME)

    def keep_disputes(self, start: int, end: int, now: int) -> None:
        """Forget disputes about records outside of ``[start, end)``, durably."""
        kept = self.disputes.kept(start, end)
        if kept is not self.disputes:
            self.disk.replace(self.disputes_path, kept.encode(now))
            self.disputes = kept

    # ------------------------------------------------------------------ reading

    def size(self, base: int) -> int:
        """Return the bytes of a file; 0 without it."""
        try:
            return self.disk.status(self.path(base)).st_size
        except FileNotFoundError:
            return 0

    def chunks(self, base: int) -> Iterator[Units]:
        """Iterate over a file's units, a MiB at a time; nothing without the file.

        Each call opens the file: another process may write, cut or remove it.
        """
        try:
            descriptor = self.disk.open(self.path(base))
        except FileNotFoundError:
            return
        try:
            # No log file has more records, whatever size this file has.
            limit = (self.file_size // RECORD_MIN_SIZE + 1) * _ONE
            at, after = 0, 0
            while at < limit:
                data = self.disk.read(descriptor, min(_READ_COUNT * _ONE, limit - at), at)
                if not data:
                    return
                units = Units.decode(base, data, at, after, self.file_size)
                yield self.disputes.applied(units)
                at += len(data)
                if len(units):
                    after = int(units.position[-1] + units.size[-1])
        finally:
            self.disk.close(descriptor)

    def read(self, base: int) -> Units:
        """Return all units of a file."""
        return Units.joined(base, list(self.chunks(base)))

    # ------------------------------------------------------------------ writing

    def append(self, units: Units) -> None:
        """Write ``units`` after those of their file, which is made for its first ones."""
        base = units.base
        path = self.path(base)
        if base not in self._counts:
            if base in self.bases:
                raise CorruptFileError(path, 0, "sums of records that have some; open it again")
            self._make(base)
        self._pool.write(path, units.encode(), self._counts[base] * _ONE)
        self._unflushed.written(path)
        self._counts[base] += len(units)

    def _make(self, base: int) -> None:
        path = self.path(base)
        self.disk.make_directory(self.directory, durable=True)
        self.disk.close(self.disk.create_fresh(path))
        self._unflushed.named(self.directory)
        with self._lock:
            self.bases = tuple(sorted({*self.bases, base}))
        self._counts[base] = 0

    def go_on(self, base: int, count: int) -> None:
        """Cut a file to its first ``count`` units, so that others can be appended."""
        path = self.path(base)
        with self._pool.descriptor(path) as descriptor:
            if self.disk.size(descriptor) != count * _ONE:
                self.disk.truncate(descriptor, count * _ONE)
        # Its bytes and its name may be those of a process that was killed before its flush.
        self._unflushed.written(path)
        self._unflushed.named(self.directory)
        self._counts[base] = count

    def rewrite(self, units: Units) -> None:
        """Replace a file by one of ``units``, durably; one without units is removed."""
        base, path = units.base, self.path(units.base)
        if not len(units):
            if base in self.bases:
                self.remove(base)
            return
        self._pool.forget(path)
        self.disk.make_directory(self.directory, durable=True)
        self.disk.replace(path, units.encode())
        with self._lock:
            self.bases = tuple(sorted({*self.bases, base}))
        self._counts[base] = len(units)

    def remove(self, base: int) -> None:
        """Remove the file of ``base``."""
        path = self.path(base)
        with self._lock:
            self.bases = tuple(other for other in self.bases if other != base)
        self._counts.pop(base, None)
        self._unflushed.forget(path)
        self._pool.forget(path)
        self.disk.remove(path)
        self._unflushed.named(self.directory)

    def cut(self, physical_offset: int) -> None:
        """Remove files of the log's files that begin at or after ``physical_offset``."""
        for base in reversed(self.bases):
            if base >= physical_offset:
                self.remove(base)

    def trim(self, min_physical_offset: int) -> None:
        """Remove files of the log's files that end before ``min_physical_offset``."""
        for base in self.bases:
            if base + self.file_size <= min_physical_offset:
                self.remove(base)

    def flush(self) -> None:
        """Return when everything that was written before is on disk."""
        self._unflushed.flush()

    def close(self) -> None:
        """Close descriptors."""
        self._pool.close()
