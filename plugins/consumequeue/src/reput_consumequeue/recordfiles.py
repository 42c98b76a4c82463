"""`RecordFiles`: records of one size in files of one size, each named by its first byte."""

from __future__ import annotations

import bisect
import logging
import os
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import DirtyFiles, create_file, file_name, new_lock

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from reput.files import Buffer, Disk, FilePool
    from reput.log import Loss

logger = logging.getLogger(__name__)

_UNKNOWN: Final = -1  # of a file that a process may have removed before it was killed


@attrs.define(eq=False, repr=False)
class FileSet:
    """What the files of all queues share: disk, open files, unflushed files, what the log lost."""

    disk: Disk
    pool: FilePool
    units_per_file: int
    losses: Callable[[int, int], Sequence[Loss]] = lambda start, end: ()
    """Returns the log's losses between two physical offsets."""
    floor: Callable[[str, int], int] = lambda topic, queue_id: 0
    """Returns the queue offset below which all of a queue's offsets were given, if known."""
    extend_file_size: int | None = None
    """Bytes of an extend file; 0 while there is none, None before anyone has looked."""
    writable: bool = attrs.field(kw_only=True)
    grows: bool = attrs.field(default=False, kw_only=True)
    """Whether the last file of a run ends after its last record (`StoreContext.grows`)."""
    clean: bool = attrs.field(default=True, kw_only=True)
    """Whether the last writer closed the store, so that all removals of files are on disk."""
    scratch: str = attrs.field(default="", kw_only=True)
    """Temporary path at which files are made; next to the file when left out."""
    unflushed: DirtyFiles[str] = attrs.field(init=False)
    lock: threading.RLock = attrs.field(factory=new_lock, init=False)
    """Held for moments, to change the list of a run's files."""

    def __attrs_post_init__(self) -> None:
        self.unflushed = DirtyFiles(self.disk, self.pool.flush)

    def fill(self, path: str, size: int) -> None:
        """Give a file that grew its full size; the bytes that it gets read as zeros."""
        with self.pool.descriptor(path) as descriptor:
            if self.disk.size(descriptor) >= size:
                return
            self.disk.truncate(descriptor, size)
        self.unflushed.written(path)

    def remove(self, path: str) -> None:
        """Remove a file; `DirtyFiles.flush` brings the removal of its name to disk."""
        self.unflushed.forget(path)
        self.pool.forget(path)
        self.disk.remove(path)
        self.pool.forget(path)  # a reader may have opened it in between
        self.unflushed.named(os.path.dirname(path))


class RecordFiles:
    """The files of one directory, addressed by record number; a file's *base* is its first record.

    One thread appends, any thread may read, and one may trim the head. Nothing is on disk before
    `FileSet.unflushed` is flushed.

    Attributes:
        bases: bases of all files, ascending; replaced as a whole, so that readers need no lock.
        per_file: records in one file.
    """

    grows = False
    """Whether the last file ends after its last record, and has one record at least."""

    def __init__(
        self, directory: str, shared: FileSet, *, record_size: int, per_file: int, depth: int
    ) -> None:
        """Start with no files; the caller sets `bases`.

        Args:
            directory: made with the first file.
            shared: what it shares with other runs.
            record_size: bytes.
            per_file: records in one file.
            depth: how many directories above ``directory`` may be made with it.
        """
        self.directory = directory
        self.record_size = record_size
        self.per_file = per_file
        self.bases: tuple[int, ...] = ()
        self.shared = shared
        self._depth = depth
        self._removed: int | None = None if shared.clean else _UNKNOWN
        """Base of the file removed last, whose name may be there again after a power cut."""
        # Bases, base and path of the file that was named last, as nearly every read is in it.
        # The bases are None if it is not known whether the file is among them.
        self._last_file: tuple[tuple[int, ...] | None, int, str] = None, -1, ""

    @property
    def file_size(self) -> int:
        """Bytes of one file."""
        return self.per_file * self.record_size

    def path(self, base: int) -> str:
        """Return the path of the file with that base."""
        _, known, path = self._last_file
        if known != base:
            path = f"{self.directory}/{file_name(base * self.record_size)}"
            self._last_file = None, base, path
        return path

    def file_of(self, record: int) -> tuple[int, str] | None:
        """Return base and path of the file that holds ``record``; None if no file does."""
        bases = self.bases
        known, last, path = self._last_file
        if known is bases and last <= record < last + self.per_file:
            return last, path
        base = self.base_of(record)
        if base is None:
            return None
        path = self.path(base)
        self._last_file = bases, base, path
        return base, path

    def base_of(self, record: int) -> int | None:
        """Return the base of the file that holds ``record``; None if no file does."""
        bases = self.bases
        index = bisect.bisect_right(bases, record) - 1
        if index < 0 or record >= bases[index] + self.per_file:
            return None
        return bases[index]

    # ------------------------------------------------------------------ bytes of one file

    def read_bytes(self, base: int, position: int, size: int) -> bytes:
        """Return ``size`` bytes of a file from ``position``: fewer at its end, none without it.

        A file that grows ends where it would when it is full.
        """
        shared = self.shared
        if self.grows:
            size = min(size, self.file_size - position)
        try:
            if shared.writable:
                data = shared.pool.read(self.path(base), size, position)
                return data if len(data) == size or not self.grows else data.ljust(size, b"\0")
            # Opened each time: a kept descriptor would still show a file that the writer has
            # removed, even after the writer has made another file of that name.
            descriptor = shared.disk.open(self.path(base))
        except FileNotFoundError:  # trimmed in the meantime
            return b""
        try:
            data = shared.disk.read(descriptor, size, position)
        finally:
            shared.disk.close(descriptor)
        return data.ljust(size, b"\0") if self.grows else data

    def write_bytes(self, base: int, position: int, data: Buffer) -> None:
        """Write ``data`` to an existing file, at file position ``position``."""
        path = self.path(base)
        self.shared.pool.write(path, data, position)
        self.shared.unflushed.written(path)

    def clear_tail(self, record: int) -> None:
        """Zero the file that holds ``record`` from that record on, or cut it there if it grows."""
        base = self.base_of(record)
        if base is None:
            return
        path, position = self.path(base), (record - base) * self.record_size
        with self.shared.pool.descriptor(path) as descriptor:
            end = self.file_size
            if self.grows:
                end = max(position, self.record_size)
                if self.shared.disk.size(descriptor) > end:
                    self.shared.disk.truncate(descriptor, end)
                    self.shared.unflushed.written(path)
            if self.shared.disk.clear(descriptor, position, end):
                self.shared.unflushed.written(path)

    # ------------------------------------------------------------------ files

    def make(self, base: int) -> None:
        """Make the file with that base, all zeros, at full size or for one record if it grows."""
        shared, path, size = self.shared, self.path(base), self.file_size
        if self.grows:
            for before in self.bases[-1:]:
                shared.fill(self.path(before), size)
            size = self.record_size
        if not self.bases:
            if self._removed == _UNKNOWN and not shared.disk.exists(self.directory):
                self._removed = None
            shared.disk.make_directory(self.directory)
            if self._removed not in (None, base):
                # The new run begins elsewhere than the old one ended: a power cut must not leave
                # files of both. With one name it leaves one of them, whose units are cut again, as
                # no progress was made with them; where such units stay (`recovery="rocketmq"`), the
                # removal is on disk by now. So this waits for no directory.
                shared.disk.flush_directory(self.directory)
            self._removed = None
        create_file(shared.disk, path, size, aside=shared.scratch)
        shared.unflushed.written(path)
        self._note_names(is_new=not self.bases)
        with shared.lock:  # another thread may be trimming the head
            self.bases = tuple(sorted((*self.bases, base)))

    def note_unflushed(self) -> None:
        """Have the next flush bring all files, and the names of all directories, to disk."""
        for base in self.bases:
            self.shared.unflushed.written(self.path(base))
        self._note_names(is_new=True)

    def clear(self) -> None:
        """Remove all files, the last one first."""
        for base in reversed(self.bases):
            self.remove(base)

    def trim(self, min_record: int) -> int:
        """Remove whole files below ``min_record``, never the last; return their number."""
        removed = 0
        while len(self.bases) > 1 and self.bases[0] + self.per_file <= min_record:
            self.remove(self.bases[0])
            removed += 1
        return removed

    def remove(self, base: int) -> None:
        """Remove the file with that base, which need not be one of `bases`."""
        path = self.path(base)
        with self.shared.lock:
            self.bases = tuple(other for other in self.bases if other != base)
        if self._removed is not None:
            # Flushed for each file: a power cut must not leave a gap.
            self.shared.disk.flush_directory(self.directory)
        self.shared.remove(path)
        self._removed = base
        logger.info("removed file=%s", path)

    def _note_names(self, *, is_new: bool) -> None:
        names = [self.directory]
        for _ in range(self._depth + 1 if is_new else 0):
            names.append(os.path.dirname(names[-1]))
        self.shared.unflushed.named(*reversed(names))
