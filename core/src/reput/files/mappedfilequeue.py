"""`MappedFileQueue`, a run of files of one size.

Files are named by the offset of their first byte, in 20 digits, and lie end to end. The last file
may be mapped for writing. Reads use ``pread``, so that a file that another process cuts short gives
fewer bytes and never a signal; only reads of many pieces beside the writer of a store use a map.

Source: RocketMQ ``MappedFileQueue``. Different on purpose: truncating zeroes
the bytes that it cuts, as stale records would count once the log has grown up to them; a new file
is made elsewhere and renamed into place.
"""

from __future__ import annotations

import bisect
import errno
import logging
import operator
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput.files.filenames import FILE_NAME_DIGITS, file_name, is_file_name, is_system_name
from reput.files.readmap import MAPPED_MIN
from reput.files.system.disk import is_zero
from reput.files.system.vectoredread import PLACE, extent_of, read_pieces
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from reput.files.filepool import FilePool
    from reput.files.system.disk import Disk

logger = logging.getLogger(__name__)

_CLEAR_SIZE = 1 << 20
_BASE = operator.itemgetter(0)


class MappedFileQueue:
    """The files of one directory: lists, reads, adds, cuts and removes them.

    Knows sizes, names and positions, but not the meaning of the bytes. Reading is thread-safe; only
    one writer may call `add`, `truncate` and `trim`.
    """

    entries_from: int = 1 << 62
    """Offset from which on each record has the head of an entry of DLedger before it."""
    grows: bool = False
    """Whether the last file may be shorter than the others: the rest reads as zeros. So may files
    before it, if a power cut took the last changes of their sizes."""
    visible_end: int | None = None
    """Offset after which nothing counts, whatever the files hold; None without such a limit."""

    def __init__(
        self, directory: str, file_size: int, disk: Disk, pool: FilePool, maps_to_read: bool = False
    ) -> None:
        self.directory = directory
        self._prefix = os.path.join(directory, "")
        self._last_path = -1, ""
        """Base and path of the file that was named last, as nearly every read is in it."""
        self.file_size = file_size
        self._disk = disk
        self._pool = pool
        self.maps = pool.maps
        """Maps that `mapped` has made."""
        self.bases: tuple[int, ...] = ()
        """Base offsets of all files, ascending; replaced whole, so that readers need no lock."""
        self.maps_to_read = maps_to_read
        """Whether files may be read by maps: only where no other process may cut them."""
        self._adding = -1
        """Base of the file that `add` renamed last."""
        self._lock = new_lock()  # reentrant, for signal handlers

    # ------------------------------------------------------------------ which files there are

    def load(
        self,
        *,
        writable: bool,
        damaged: Callable[[str], None] | None = None,
        durable_end: int = 0,
    ) -> None:
        """List the directory's files.

        An empty last file, which a crash may leave, is removed (in a read-only store, ignored).
        Other names are ignored with a warning.

        Args:
            writable: whether the caller may change the files.
            damaged: called with a text for each file that is cut short or missing; None raises.
            durable_end: offset below which all bytes were on disk: a file that grows and ends
                before it is cut short.

        Raises:
            CorruptFileError: a file of another size than the rest, a gap between two files, or a
                dangling link.
        """
        found = self._sized_files(self.directory)
        if found and found[-1][1] == 0:
            base, _ = found.pop()
            path = self.path(base)
            logger.warning("empty last file file=%s removed=%s", path, writable)
            if writable:
                self._disk.remove(path)
        if found and self.grows and self.file_size <= 0:
            self.file_size = max(size for _, size in found)
        short = self._short(found, durable_end) if self.grows else []
        if short:
            found = [(base, self.file_size if base in short else size) for base, size in found]
        if found and damaged is not None and not self.grows:
            self._take_size_of(found, damaged)
        elif found and self.file_size <= 0:
            self.file_size = found[0][1]
        expected = found[0][0] if found else 0
        for base, size in found:
            faults = []
            if size != self.file_size:
                reason = (
                    f"the file has {size} bytes where {self.file_size} are expected; put back the "
                    "whole file, or move it away if it is not part of the store"
                )
                faults.append(CorruptFileError(self.path(base), size, reason))
            if base != expected:
                reason = (
                    f"the file before it is missing: {file_name(expected)}; put it back, "
                    "or move the files before the gap away"
                )
                faults.append(CorruptFileError(self.path(base), 0, reason))
            for fault in faults:
                if damaged is None:
                    raise fault
                damaged(str(fault))
            expected = base + self.file_size
        self.bases = tuple(map(_BASE, found))
        for base in short if writable else ():
            if base != self.bases[-1]:
                self.fill(base)

    def _short(self, found: list[tuple[int, int]], durable_end: int = 0) -> list[int]:
        """Return the bases of files that are shorter than when they are full, and not cut."""
        return [
            base
            for base, size in found
            if 0 < size < self.file_size and size >= min(durable_end - base, self.file_size)
        ]

    def fill(self, base: int) -> None:
        """Give a file its full size, which is on disk when this returns."""
        descriptor = self._disk.open(self.path(base), write=True)
        try:
            if self._disk.size(descriptor) < self.file_size:
                self._disk.truncate(descriptor, self.file_size)
                self._disk.flush(descriptor)
        finally:
            self._disk.close(descriptor)

    def _sized_files(self, directory: str) -> list[tuple[int, int]]:
        """Return ``(base offset, size)`` of every file that is named by an offset, ascending."""
        found = []
        for entry in self._disk.list(directory):
            name = entry.name
            if not is_file_name(name):
                if not is_system_name(name):
                    logger.warning("ignored, because its name is not an offset file=%s", entry.path)
                continue
            try:
                if entry.is_file():
                    found.append((int(name), entry.stat().st_size))
                    continue
                entry.stat()
            except FileNotFoundError:
                if entry.is_symlink():
                    reason = "a link whose target does not exist; put the target back, or remove it"
                    raise CorruptFileError(entry.path, 0, reason) from None
                continue  # another process removed it between the listing and now
            logger.warning("ignored, because it is not a regular file file=%s", entry.path)
        return found

    def _take_size_of(self, found: list[tuple[int, int]], damaged: Callable[[str], None]) -> None:
        """Take the largest file's size, unless a file has the size that is configured."""
        sizes = {size for _, size in found}
        largest = max(sizes)
        is_cut_short = len(found) == 1 and largest < self.file_size
        if is_cut_short or (self.file_size > 0 and self.file_size in sizes):
            return
        if self.file_size > 0:
            damaged(
                f"{self.path(found[0][0])}: no file has the {self.file_size} bytes that are "
                f"expected; the largest has {largest}, which is taken for the size of all"
            )
        self.file_size = largest

    def refresh(self) -> None:
        """List the directory again, for files that another process added or removed."""
        found = self._sized_files(self.directory)
        known = frozenset(self.bases)
        if self.grows:
            known |= {*self._short(found)}
        self.bases = tuple(base for base, size in found if size == self.file_size or base in known)

    @property
    def min_offset(self) -> int:
        """Base of the first file; 0 without files."""
        bases = self.bases
        return bases[0] if bases else 0

    def has_first(self) -> bool:
        """Whether the first file still exists; another process may have removed it."""
        bases = self.bases
        return not bases or self._disk.exists(self.path(bases[0]))

    @property
    def capacity_end(self) -> int:
        """Offset at which the last file ends; 0 without files."""
        bases = self.bases
        return bases[-1] + self.file_size if bases else 0

    def path(self, base_offset: int) -> str:
        """Return the path of the file with that base."""
        base, path = self._last_path
        if base != base_offset:
            path = self._path_of(f"{base_offset:0{FILE_NAME_DIGITS}d}", base_offset)
            self._last_path = base_offset, path
        return path

    def _path_of(self, name: str, base_offset: int) -> str:
        """Return the path of the file of that name."""
        return self._prefix + name

    def base_of(self, offset: int) -> int | None:
        """Return the base of the file that holds ``offset``; None if no file does."""
        base, _ = self._place_of(offset)
        return None if base < 0 else base

    def _place_of(self, offset: int) -> tuple[int, str]:
        """Return base and path of the file that holds ``offset``; -1 if no file does."""
        bases, known = self.bases, self._last_path
        index = bisect.bisect_right(bases, offset) - 1
        if index < 0 or offset >= bases[index] + self.file_size:
            return -1, ""
        base = bases[index]
        return known if known[0] == base else (base, self.path(base))

    def base_after(self, offset: int) -> int | None:
        """Return the base of the first file that begins after ``offset``; None without one."""
        bases = self.bases
        index = bisect.bisect_right(bases, offset)
        return bases[index] if index < len(bases) else None

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of one file from ``offset`` on: fewer at its end, none without a file."""
        base, path = self._place_of(offset)
        if base < 0 or size <= 0:
            return b""
        size = min(size, base + self.file_size - offset)
        try:
            data = self._pool.read(path, size, offset - base)
        except FileNotFoundError:  # trimmed in the meantime
            return b""
        return data.ljust(size, b"\0") if self.grows and len(data) < size else data

    def read_many(
        self,
        limit: int,
        places: bytes | memoryview,
        stride: int,
        max_size: int,
        max_count: int,
        max_bytes: int,
        together: int,
    ) -> tuple[list[bytes], int]:
        """Return the first of many pieces, in the file of the first one, and their number.

        See `reput.files.system.vectoredread.read_pieces`.
        """
        if len(places) < stride:
            return [], 0
        wanted = places, stride, max_size, max_count, max_bytes, together
        mapped = self.mapped(limit, places, stride, max_count, max_bytes)
        if mapped is not None:
            data, first = mapped
            return read_pieces(data, first, first + len(data), *wanted)
        base, path = self._place_of(int.from_bytes(places[:8], "big", signed=True))
        if base < 0:
            return [], 0
        limit = min(limit, base + self.file_size)
        try:
            return self._pool.read_pieces(path, base, limit, *wanted)
        except FileNotFoundError:  # trimmed in the meantime
            return [], 0

    def mapped(
        self, limit: int, places: bytes | memoryview, stride: int, max_count: int, max_bytes: int
    ) -> tuple[npt.NDArray[np.uint8], int] | None:
        """Return the bytes in which many pieces are, in the file of the first one, without a copy.

        See `reput.log.LogView.map_records`.
        """
        count = min(max_count, len(places) // stride)
        if count < MAPPED_MIN or not self.maps_to_read:
            return None
        first, _ = PLACE.unpack_from(places)
        last, size = PLACE.unpack_from(places, (count - 1) * stride)
        if last + size <= limit:  # most reads: what they want was loaded before
            for data, start, whole_size, size_now in self.maps.parts:
                is_there = start <= first and last + size <= start + len(data)
                if is_there and size_now() >= whole_size:
                    return data, start
        base, path = self._place_of(first)
        if base < 0:
            return None
        first, end, count = extent_of(places, stride, count, max_bytes)
        size = self.file_size
        stretch = size, first - base, end - base, count, min(limit - base, size)
        try:
            found = self.maps.loaded(path, base, *stretch)
        except FileNotFoundError:  # trimmed in the meantime
            return None
        return None if found is None else (found, first)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset`` up to the file's end; return the number of bytes read."""
        base, path = self._place_of(offset)
        if base < 0:
            return 0
        size = min(len(buffer), base + self.file_size - offset)
        try:
            with self._pool.descriptor(path) as descriptor:
                count = self._disk.read_into(descriptor, buffer[:size], offset - base)
        except FileNotFoundError:
            return 0
        if self.grows and count < size:
            buffer[count:size] = bytes(size - count)
            return size
        return count

    def data_ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of ``[start, end)``, in one file, that are not sparse."""
        base, path = self._place_of(start)
        if base < 0 or start >= end:
            return []
        try:
            with self._pool.descriptor(path) as descriptor:
                ranges = self._disk.data_ranges(descriptor, start - base, end - base)
        except FileNotFoundError:  # trimmed in the meantime
            return []
        return [(base + first, base + stop) for first, stop in ranges]

    def last_used(self, start: int, end: int) -> int:
        """Return the end of the last nonzero byte of ``[start, end)`` in one file, or ``start``."""
        for first, stop in reversed(self.data_ranges(start, end)):
            while stop > first:
                at = max(first, stop - _CLEAR_SIZE)
                data = self.read(at, stop - at)
                if not is_zero(data):
                    return at + len(data.rstrip(b"\0"))
                stop = at
        return start

    # ------------------------------------------------------------------ changing

    def add(self, base_offset: int, source: str) -> str:
        """Make the finished file ``source`` the next file of the run; return its new path.

        The name is on disk before this returns, as a record in the file may be acknowledged next.
        After an interruption, `finish_adding` completes this.
        """
        path = self.path(base_offset)
        if self._disk.exists(path):
            raise FileExistsError(errno.EEXIST, "something else has the next file's name", path)
        self._adding = base_offset
        self._disk.rename(source, path)
        return self._added(base_offset)

    def finish_adding(self, base_offset: int) -> str | None:
        """Complete an `add` that was interrupted after the rename; return the path, or None."""
        if self._adding != base_offset or not self._disk.exists(self.path(base_offset)):
            return None
        return self._added(base_offset)

    def _added(self, base_offset: int) -> str:
        self._disk.flush_directory(self.directory)
        with self._lock:
            if base_offset not in self.bases:
                self.bases = (*self.bases, base_offset)
        return self.path(base_offset)

    def truncate(self, offset: int, keep: Mapping[int, str] = MappingProxyType({})) -> int:
        """Remove everything from ``offset`` on.

        Later files are removed first, the last one before the others, so that a crash leaves no
        gap. The file that holds ``offset`` is zeroed from there on.

        Args:
            offset: the new end.
            keep: new paths, by base, of later files that are moved instead of removed.

        Returns:
            The number of files removed or moved.
        """
        removed = 0
        for base in reversed(self.bases):
            if base <= offset:
                break
            self._remove(base, keep.get(base, ""))
            removed += 1
        if removed:
            self._disk.flush_directory(self.directory)
        base_holding = self.base_of(offset)
        if base_holding is not None:
            self._clear(self.path(base_holding), offset - base_holding)
        return removed

    def trim(self, min_offset: int) -> int:
        """Remove whole files below ``min_offset``, never the last; return their number."""
        removed = 0
        while len(self.bases) > 1 and self.bases[0] + self.file_size <= min_offset:
            base = self.bases[0]
            try:
                self._remove(base)
            except OSError:
                if self._disk.exists(self.path(base)):
                    with self._lock:  # so that the next call tries again
                        self.bases = (base, *self.bases)
                raise
            removed += 1
        if removed:
            self._disk.flush_directory(self.directory)
        return removed

    def _remove(self, base: int, kept: str = "") -> None:
        """Remove a file, or move it to the path ``kept``."""
        path = self.path(base)
        with self._lock:
            self.bases = tuple(other for other in self.bases if other != base)
        self._pool.forget(path)
        if kept:
            self._disk.rename(path, kept)
        else:
            self._disk.remove(path)
        self._pool.forget(path)  # which a read may have opened in between
        # Flushed for each file: a power cut must not leave a gap.
        self._disk.flush_directory(os.path.dirname(kept) if kept else self.directory)
        logger.log(logging.WARNING if kept else logging.INFO, "removed file=%s kept=%s", path, kept)

    def _clear(self, path: str, position: int) -> None:
        """Zero the file from ``position`` on."""
        descriptor = self._disk.open(path, write=True)
        try:
            cleared = self._disk.clear(descriptor, position, self.file_size)
            if cleared:
                self._disk.flush(descriptor)
                logger.warning("cleared stale tail file=%s size=%d", path, cleared)
        finally:
            self._disk.close(descriptor)


def unused_path(disk: Disk, directory: str, name: str) -> str:
    """Return a path in ``directory`` that does not exist: ``name``, ``name-2`` and so on."""
    path, number = os.path.join(directory, name), 1
    while disk.exists(path):
        number += 1
        path = os.path.join(directory, f"{name}-{number}")
    return path
