"""The index files of a store: which there are, how a new one comes, when they are on disk.

Source: RocketMQ ``IndexService``. Different on purpose: a file is named by the store time of the
message for which it was made, and not by the clock, so that files which are made again have the
same names; and a file that follows another one is made for the first key that it gets.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput.files import Unflushed, make_file
from reput_index.files._file import IndexFile
from reput_index.files._geometry import guess_geometry
from reput_index.files._header import Geometry, Header
from reput_index.files._names import file_name, is_file_name, name_of_time
from reput_index.layout import HEADER_SIZE, NEXT_ITEM_POSITION

if TYPE_CHECKING:
    from reput.files import Disk, FilePool
    from reput_index._keys import Keys

__all__ = ["IndexFiles", "follow_up"]

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class IndexFiles:
    """All index files, oldest first; the last one is written."""

    directory: str
    scratch: str
    """Where a file is made before it gets its name."""
    disk: Disk
    pool: FilePool
    geometry: Geometry
    writable: bool
    files: tuple[IndexFile, ...] = ()
    """Replaced whole, so that readers need no lock."""
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    """Held for moments, by whoever changes a file's slots or header or looks at both."""
    flushed_timestamp: int = 0
    """End time of the newest file that is full and on disk, ms."""
    # Held while slots go to disk: what one thread copied must not overwrite what another one wrote
    # later. Taken before `lock`.
    _writing: threading.Lock = attrs.field(factory=threading.Lock)
    _unflushed: Unflushed[IndexFile] = attrs.field(init=False)
    _full_timestamps: list[int] = attrs.field(factory=list)
    """End times of full files that were flushed since `flushed_timestamp` was set."""

    def __attrs_post_init__(self) -> None:
        self._unflushed = Unflushed(self.disk, self._flush_file)

    # ------------------------------------------------------------------ loading

    def load(self) -> None:
        """Read the directory, and every header.

        Raises:
            CorruptFileError: in a read-only store: files that are shorter than they should be, or
                not full though others follow.
        """
        sizes = {}
        for entry in self.disk.list(self.directory):
            if is_file_name(entry.name):
                try:
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
                except FileNotFoundError:  # trimmed in the meantime
                    continue
        if sizes and self.geometry.file_size not in sizes.values():
            self._follow(sizes, self.directory)
        files = []
        known = {file.path: file for file in self.files}
        for name in sizes:
            path = f"{self.directory}/{name}"
            file = known.get(path) or IndexFile(
                path, int(name), self.geometry, self.disk, self.pool
            )
            file.geometry = self.geometry
            try:
                file.header = file.read_header()
            except FileNotFoundError:
                continue
            files.append(file)
        self.files = tuple(files)
        if not self.writable:
            self._check(sizes)
        full = [file.header.end_timestamp for file in files if file.is_full]
        self.flushed_timestamp = max(full, default=0)

    def stands(self) -> bool:
        """Whether all that was loaded is still counted; a reader's files may be cut meanwhile.

        Items that came since do not matter: who asked before them did not ask for them.
        """
        names = {entry.name for entry in self.disk.list(self.directory) if is_file_name(entry.name)}
        try:
            for file in self.files:
                if os.path.basename(file.path) not in names:
                    return False
                if file.read_header().next_item < file.header.next_item:
                    return False
        except FileNotFoundError:
            return False
        return True

    def follow(self, directory: str) -> None:
        """Take over the geometry of the files in another directory, where there are any."""
        sizes = {
            entry.name: entry.stat().st_size
            for entry in self.disk.list(directory)
            if is_file_name(entry.name) and entry.is_file()
        }
        if sizes and self.geometry.file_size not in sizes.values():
            self._follow(sizes, directory)

    def _follow(self, sizes: dict[str, int], directory: str) -> None:
        """Take over the geometry of files that another configuration made."""
        for name in sizes:
            found = guess_geometry(self.disk, f"{directory}/{name}")
            # A file of as many slots is one of ours that was cut or has grown; that is mended.
            if found is not None and (
                not self.writable or found.slot_count != self.geometry.slot_count
            ):
                logger.info(
                    "files that exist keep their size slots_per_file=%d items_per_file=%d", *found
                )
                self.geometry = found
            if found is not None:
                return

    def _check(self, sizes: dict[str, int]) -> None:
        """Refuse what only a writer can mend."""
        expected = self.geometry.file_size
        for file in self.files:
            size = sizes[os.path.basename(file.path)]
            # A file without items may be of any size: nothing in it says what its owner chose.
            if size < (expected if file.item_count else HEADER_SIZE):
                raise CorruptFileError(
                    file.path,
                    size,
                    f"the file has {size} bytes where {expected} are expected; {self.advice}",
                )
        for file in self.files[:-1]:
            if not file.is_full:
                raise CorruptFileError(
                    file.path,
                    NEXT_ITEM_POSITION,
                    f"the file is not full, its next item is {file.header.next_item} of "
                    f"{self.geometry.item_count}, and another one follows; {self.advice}",
                )

    @property
    def advice(self) -> str:
        """What to do about damage, for the end of an error's text."""
        return (
            f"open the store for writing to have it mended, or remove {self.directory} to have the "
            "index built again from the log"
        )

    # ------------------------------------------------------------------ appending

    def append(self, keys: Keys) -> int:
        """Add the first of ``keys``, as many as fit into one file; their number."""
        file = self.files[-1]
        if file.is_full:
            file = self.make(int(keys.timestamps[0]))
        with self.lock:
            count = file.append(keys)
        self._unflushed.written(file)
        return count

    def make(self, timestamp: int) -> IndexFile:
        """Make the next file, at full size and zero, for a message stored at ``timestamp``."""
        header, name = Header(), name_of_time(timestamp)
        if self.files:
            full = self.files[-1]
            self._write_back(full)
            full.slots = None  # from here on they are read from the file
            header, name = follow_up(full.header, full.name, timestamp)
        path = f"{self.directory}/{file_name(name)}"
        self.disk.make_directory(self.directory)
        make_file(self.disk, path, self.geometry.file_size, aside=self.scratch)
        file = IndexFile(path, name, self.geometry, self.disk, self.pool, header)
        with self.lock:
            self.files = (*self.files, file)
        self.note_unflushed(file)
        logger.info("made file=%s", path)
        return file

    # ------------------------------------------------------------------ to disk

    def flush(self) -> None:
        """Bring everything to disk that was added before this call.

        Raises:
            OSError: this or an earlier flush failed; see `reput.files.Unflushed`.
        """
        self._unflushed.flush(then=self._count_full)

    def _flush_file(self, file: IndexFile) -> None:
        header = self._write_back(file)
        self.pool.flush(file.path)
        # Not what the file says by now: that may have come after the flush.
        if header.next_item >= file.geometry.item_count:
            self._full_timestamps.append(header.end_timestamp)

    def _count_full(self) -> None:
        # Not before all are on disk: files are flushed in any order.
        self.flushed_timestamp = max(self.flushed_timestamp, *self._full_timestamps, 0)
        self._full_timestamps.clear()

    def _write_back(self, file: IndexFile) -> Header:
        """Write slots and header; the header that the file then has."""
        with self._writing:
            # The header is taken first and written last: slots may lead to items that it does not
            # count yet, which whoever reads it passes over, but never to fewer than it counts.
            with self.lock:
                header, data, runs = file.header, file.take_header(), file.dirty_runs()
            try:
                for run in runs:
                    with self.lock:
                        position, part = file.take_slots(*run)
                    self.pool.write(file.path, part, position)
                if data is not None:
                    self.pool.write(file.path, data, 0)
            except BaseException:
                with self.lock:
                    file.note_dirty()  # a dispatch that comes again writes them
                raise
        return header

    def note_unflushed(self, file: IndexFile) -> None:
        """Have the next flush bring a file to disk, and its name."""
        self._unflushed.written(file)
        self._unflushed.named(self.directory, os.path.dirname(self.directory))

    # ------------------------------------------------------------------ removing

    def trim(self, min_physical_offset: int) -> None:
        """Remove the oldest files that point only to what the log has lost, never the last."""
        while len(self.files) > 1:
            if self.files[0].header.end_physical_offset >= min_physical_offset:
                break
            self.remove(self.files[0])

    def remove(self, file: IndexFile) -> None:
        """Remove a file."""
        with self.lock:
            self.files = tuple(other for other in self.files if other is not file)
        self._unflushed.forget(file)
        self._unflushed.named(self.directory, os.path.dirname(self.directory))
        self.pool.forget(file.path)
        self.disk.remove(file.path)
        # One after the other also on disk: a power cut must not leave a gap.
        self.disk.flush_directory(self.directory)
        logger.info("removed file=%s", file.path)


def follow_up(full: Header, name: int, timestamp: int) -> tuple[Header, int]:
    """With what header the file behind a full one begins, and its name.

    Args:
        full: header of the file that is full.
        name: its name, as a number.
        timestamp: store time of the message for which the next one is made, ms.
    """
    header = Header(
        max(full.end_timestamp, 0),
        max(full.end_timestamp, 0),
        max(full.end_physical_offset, 0),
        max(full.end_physical_offset, 0),
    )
    return header, max(name_of_time(timestamp), name + 1)
