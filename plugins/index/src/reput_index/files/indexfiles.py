"""The index files of a store: list them, make the next one, flush them.

Source: RocketMQ ``IndexService``. Different on purpose: a file is named by the store time of the
message for which it was made, not by the clock, so that rebuilt files have the same names; and a
file that follows another one is made for the first key that goes into it.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput.files import DirtyFiles, create_file
from reput_index.files.filenames import file_name, is_file_name, name_of_time
from reput_index.files.geometry import guess_geometry
from reput_index.files.header import Geometry, Header
from reput_index.files.indexfile import IndexFile
from reput_index.layout import HEADER, HEADER_SIZE, NEXT_ITEM_POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.files import Disk, FilePool
    from reput.log import LogView
    from reput_index.batchkeys import HashedKeys

logger = logging.getLogger(__name__)

_UNKNOWN: Final = "?"  # of a file that a process may have removed before it was killed


@attrs.define(eq=False, repr=False)
class IndexFiles:
    """All index files, oldest first; the last one is written."""

    directory: str
    scratch: str
    """Directory in which a file is made before it gets its name."""
    disk: Disk
    pool: FilePool
    geometry: Geometry
    writable: bool
    grows: bool = attrs.field(default=False, kw_only=True)
    """Whether a file ends after its last item until it is full (`StoreContext.grows`)."""
    files: tuple[IndexFile, ...] = ()
    """The tuple is replaced whole, so that readers need no lock."""
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    """Held briefly: to change a file's slots or header, or to read both."""
    flushed_timestamp: int = 0
    """End time of the newest file that is full and on disk, ms."""
    # Held while slots are written to files: an older copy of one thread must not overwrite a newer
    # one of another. Taken before `lock`.
    _writing: threading.Lock = attrs.field(factory=threading.Lock)
    _unflushed: DirtyFiles[IndexFile] = attrs.field(init=False)
    _removed: str = attrs.field(default="", init=False)
    """Path of the last file of all, whose removal may not be on disk, or `_UNKNOWN`; else empty."""
    _full_timestamps: list[int] = attrs.field(factory=list)
    """End times of full files flushed since `flushed_timestamp` was set."""

    def __attrs_post_init__(self) -> None:
        self._unflushed = DirtyFiles(self.disk, self._flush_file)

    # ------------------------------------------------------------------ loading

    def load(self) -> None:
        """Read the directory, and every header.

        Raises:
            CorruptFileError: in a read-only store: a file is too short, or is not full although
                another follows.
        """
        sizes = {}
        for entry in self.disk.list(self.directory):
            if is_file_name(entry.name):
                try:
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
                except FileNotFoundError:  # trimmed meanwhile
                    continue
        files = []
        known = {file.path: file for file in self.files}
        for name in sizes:
            path = f"{self.directory}/{name}"
            file = known.get(path) or IndexFile(
                path, int(name), self.geometry, self.disk, self.pool, grows=self.grows
            )
            try:
                file.header = file.read_header()
            except FileNotFoundError:
                continue
            files.append(file)
        # After the headers: a file shows its geometry once it has items, and a writer beside us may
        # be adding the first ones.
        if len(files) != 1 or not self._ends_after_items(files[0], sizes):
            self._follow(sizes, self.directory)
        for file in files:
            file.geometry = self.geometry
        self.files = tuple(files)
        if not self.writable:
            self._check(sizes)
        full = [file.header.end_timestamp for file in files if file.is_full]
        self.flushed_timestamp = max(full, default=0)

    def stands(self) -> bool:
        """Return whether all items that were loaded still count; a writer may cut them meanwhile.

        Items added since make no difference: the question was asked before them.
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
        """Take over the geometry of the files in another directory, if there are any."""
        sizes = {
            entry.name: entry.stat().st_size
            for entry in self.disk.list(directory)
            if is_file_name(entry.name) and entry.is_file()
        }
        self._follow(sizes, directory)

    def _ends_after_items(self, file: IndexFile, sizes: dict[str, int]) -> bool:
        """Whether the only file has the configured geometry for certain, and grows."""
        end = self.geometry.position_of_item(file.header.next_item)
        return self.grows and sizes[os.path.basename(file.path)] == end

    def _follow(self, sizes: dict[str, int], directory: str) -> None:
        """Take over the geometry of files made with another configuration."""
        if self.geometry.file_size in sizes.values():
            return
        names, least = sorted(sizes), 0
        if self.grows:
            # The last file does not show how many items it will have.
            least = self.geometry.item_count if len(names) == 1 else 0
            names = names[:-1] or names
        for name in names:
            try:
                found = guess_geometry(self.disk, f"{directory}/{name}")
            except FileNotFoundError:  # trimmed meanwhile
                continue
            # A file with the same number of slots is ours, cut or grown; recovery repairs it.
            if found is not None:
                found = found._replace(item_count=max(found.item_count, least))
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
        """Refuse damage that only a writer can repair."""
        expected = self.geometry.file_size
        for file in self.files:
            size = sizes[os.path.basename(file.path)]
            if self.grows and file is self.files[-1]:
                continue  # it may have grown since it was listed
            # A file without items may have any size: nothing in it tells the right one.
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
        """What to do about damage, as the end of an error's text."""
        return (
            f"open the store for writing to repair it, or remove {self.directory}, "
            "and the index is rebuilt from the log"
        )

    # ------------------------------------------------------------------ appending

    def append(self, keys: HashedKeys) -> int:
        """Append the first of ``keys``, as many as fit into one file, and return how many."""
        file = self.files[-1]
        if file.is_full:
            file = self.make(int(keys.timestamps[0]))
        with self.lock:
            count = file.append(keys)
        self._unflushed.written(file)
        return count

    def make(self, timestamp: int) -> IndexFile:
        """Create the next file, without items, for a message stored at ``timestamp``.

        As in RocketMQ, its header states at once how far the files before it reach: a broker that
        takes over from a killed writer goes by the last file, and adds all keys again otherwise.
        """
        header, name = Header(), name_of_time(timestamp)
        if self.files:
            full = self.files[-1]
            self._write_back(full)
            full.slots = None  # from here on slots are read from the file
            header, name = follow_up(full.header, full.name, timestamp)
        path = f"{self.directory}/{file_name(name)}"
        self.disk.make_directory(self.directory)
        if not self.files and self._removed not in ("", path):
            # A power cut must not leave files of both names. With one name it leaves one of them,
            # which is cut again, as no progress was made with either. So this waits for no disk.
            self.disk.flush_directory(self.directory)
        self._removed = ""
        size = self.geometry.position_of_item(1) if self.grows else self.geometry.file_size
        create_file(self.disk, path, size, aside=self.scratch)
        self.pool.forget(path)  # the file of an attempt that failed after it was named
        if header != Header():
            self.pool.write(path, HEADER.pack(*header._replace(next_item=0)), 0)
        file = IndexFile(path, name, self.geometry, self.disk, self.pool, header, grows=self.grows)
        with self.lock:
            self.files = (*self.files, file)
        self.note_unflushed(file)
        logger.info("made file=%s", path)
        return file

    # ------------------------------------------------------------------ to disk

    def flush(self) -> None:
        """Flush everything that was added before this call.

        Raises:
            OSError: this or an earlier flush failed; see `reput.files.DirtyFiles`.
        """
        self._unflushed.flush(then=self._count_full)

    def _flush_file(self, file: IndexFile) -> None:
        header = self._write_back(file)
        self.pool.flush(file.path)
        # Not the file's current header, which may count items added after the flush.
        if header.next_item >= file.geometry.item_count:
            self._full_timestamps.append(header.end_timestamp)

    def _count_full(self) -> None:
        # Only when all are on disk: files are flushed in any order.
        self.flushed_timestamp = max(self.flushed_timestamp, *self._full_timestamps, 0)
        self._full_timestamps.clear()

    def safe_timestamp(
        self, log: LogView, files: Sequence[IndexFile] | None = None, next_end: int = 0
    ) -> int:
        """Return the end time of a file by which a broker may go after a kill, ms; 0 if none.

        The broker removes each file that ends later than this time, and dispatches from the last
        log file that begins no later. So a file that ends by then is full and on disk, and no log
        file with later keys begins by then.

        Args:
            log: the log.
            files: the files that count; all when left out.
            next_end: end time of the file after them, ms; 0 without one.
        """
        files = self.files if files is None else files
        ends = [each.read_header().end_timestamp for each in files[1:]]
        ends.append(next_end)
        for file, behind in reversed([*zip(files, ends, strict=False)]):
            time = file.header.end_timestamp
            if time <= min(self.flushed_timestamp, behind - 1) and _is_before_files(file, log):
                return time
        return 0

    def _write_back(self, file: IndexFile) -> Header:
        """Write slots and header, and return that header."""
        with self._writing:
            # The header is taken first and written last: slots may lead to items that it does not
            # count yet, which readers skip, but they never miss items that it counts.
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
                    file.put_back(runs)  # so that the next flush writes them again
                raise
        return header

    def note_unflushed(self, file: IndexFile) -> None:
        """Have the next flush cover a file and its name."""
        self._unflushed.written(file)
        self._unflushed.named(self.directory, os.path.dirname(self.directory))

    # ------------------------------------------------------------------ removing

    def trim(self, min_physical_offset: int) -> None:
        """Remove the oldest files that point only to the log's lost head, never the last file."""
        while len(self.files) > 1:
            if self.files[0].header.end_physical_offset >= min_physical_offset:
                break
            self.remove(self.files[0])

    def note_killed(self) -> None:
        """Note that a process was killed, whose last removal may not be on disk."""
        self._removed = _UNKNOWN

    def remove(self, file: IndexFile) -> None:
        """Remove a file."""
        if self._removed == _UNKNOWN:
            self.disk.flush_directory(self.directory)
            self._removed = ""
        with self.lock:
            self.files = tuple(other for other in self.files if other is not file)
        self._unflushed.forget(file)
        self._unflushed.named(self.directory, os.path.dirname(self.directory))
        self.pool.forget(file.path)
        self.disk.remove(file.path)
        if self.files:
            # Flushed one by one: a power cut must not leave a gap.
            self.disk.flush_directory(self.directory)
        else:
            self._removed = file.path
        logger.info("removed file=%s", file.path)


def _is_before_files(file: IndexFile, log: LogView) -> bool:
    """Return whether each log file that begins after the last message of a full file is newer."""
    end, time = file.header.end_physical_offset, file.header.end_timestamp
    bases = (base for base in log.file_offsets if end < base < log.max_physical_offset)
    return all(log.store_timestamp_at(base) > time for base in bases)


def follow_up(full: Header, name: int, timestamp: int) -> tuple[Header, int]:
    """Return the first header of the file after a full one, and its name.

    Args:
        full: header of the full file.
        name: name of the full file, as a number.
        timestamp: store time of the message for which the next file is made, ms.
    """
    header = Header(
        max(full.end_timestamp, 0),
        max(full.end_timestamp, 0),
        max(full.end_physical_offset, 0),
        max(full.end_physical_offset, 0),
    )
    return header, max(name_of_time(timestamp), name + 1)
