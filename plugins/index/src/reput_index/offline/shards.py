"""Build the index from splits of the log, in parallel.

The file of a key, and its place there, follow from the number of keys before it in the log. Each
split writes its keys aside, as hashes with the data of an item; the numbers of keys determine which
keys each file gets. Then each file is built by itself from its keys, in the way of `IndexFile`. Of
the previous file it needs only the last key.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput.files import Disk, FilePool, create_file
from reput_index.batchkeys import HashedKeys, KeysOfBatch
from reput_index.files.filenames import file_name, name_of_time
from reput_index.files.header import Geometry, Header
from reput_index.files.indexfile import CHUNK, IndexFile
from reput_index.files.indexfiles import IndexFiles, follow_up
from reput_index.layout import DIRECTORY

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_index.tagitems import TagsSource, WrittenTags
    from reput_tools.offline import Split

_KEYS: Final = "keys"
"""Directory of the splits' keys, next to the new index; removed when the rebuild ends."""
KEY_DTYPE: Final = np.dtype(
    [
        ("key_hash", "<i4"),  # as an item states it
        ("physical_offset", "<i8"),  # bytes, of the record in the commit log
        ("timestamp", "<i8"),  # store time of the message, ms
    ]
)


@attrs.frozen
class SplitKeys:
    """The keys of one split."""

    path: str
    """File of `KEY_DTYPE`, in the order of the log."""
    count: int
    first_timestamp: int | None
    """Store time of the first message, with or without keys; None if there is no message."""


@attrs.frozen
class FileTask:
    """An index file that is to be built."""

    name: int
    header: Header
    """The file's first header, which depends on the end of the previous file."""
    parts: tuple[tuple[str, int, int], ...]
    """File of keys, number of the first key in it, and how many."""


@attrs.define(eq=False)
class IndexScan:
    """Writes the keys of one split aside."""

    path: str
    disk: Disk
    tags: WrittenTags | None = None
    count: int = 0
    first_timestamp: int | None = None
    _keys_of: KeysOfBatch = attrs.field(init=False)
    _descriptor: int = -1

    def __attrs_post_init__(self) -> None:
        self._keys_of = KeysOfBatch(self.tags or False)

    def add(self, batch: DispatchBatch) -> None:
        """See `reput_tools.offline.ShardScan.add`."""
        if not len(batch):
            return
        if self.first_timestamp is None:
            self.first_timestamp = int(batch.store_timestamp[0])
        keys = self._keys_of(batch)
        rows = np.empty(len(keys.hashes), KEY_DTYPE)
        rows["key_hash"] = keys.hashes
        rows["physical_offset"] = keys.physical_offsets
        rows["timestamp"] = keys.timestamps
        if self._descriptor < 0:
            self.disk.make_directory(os.path.dirname(self.path))
            self._descriptor = self.disk.open(self.path, create=True)
        self.disk.write(self._descriptor, rows.view(np.uint8).data, self.count * KEY_DTYPE.itemsize)
        self.count += len(rows)

    def finish(self) -> SplitKeys:
        """Return what the plan needs. Nothing is flushed: a crash ends the rebuild."""
        if self._descriptor >= 0:
            self.disk.close(self._descriptor)
        if self.tags is not None:
            self.tags.index.pool.close()
        return SplitKeys(self.path, self.count, self.first_timestamp)


@attrs.define(eq=False)
class IndexBuilder:
    """Builds all index files; see `reput_tools.offline.ShardBuilder`."""

    geometry: Geometry
    disk: Disk = attrs.field(factory=Disk)
    tags: TagsSource | None = None
    """Tells which messages have an item of their tags; none has without it."""
    grows: bool = False
    """Whether a file ends after its last item until it is full."""

    @property
    def directories(self) -> Sequence[str]:
        """The directory of the index."""
        return (DIRECTORY,)

    def begin(self, split: Split, staging: str) -> IndexScan:
        """See `reput_tools.offline.ShardBuilder.begin`."""
        tags = None if self.tags is None else self.tags.open(self.disk)
        return IndexScan(f"{staging}/{_KEYS}/{split.start_offset:020d}", self.disk, tags)

    def plan(self, scanned: Sequence[SplitKeys]) -> Sequence[FileTask]:
        """Return one task for each file that the reput loop would have made."""
        timestamps = (each.first_timestamp for each in scanned)
        timestamp = next((each for each in timestamps if each is not None), None)
        if timestamp is None:
            return []
        borders = np.cumsum([0, *(each.count for each in scanned)])
        total, room = int(borders[-1]), self.geometry.item_count - 1
        # The first file is made for the first message, even without keys; others for a first key.
        header, name = Header(), name_of_time(timestamp)
        tasks = []
        for first in range(0, max(total, 1), room):
            if first:
                last = self._read(_parts(scanned, borders, first - 1, 1))
                own = self._read(_parts(scanned, borders, first, 1))
                full = Header(
                    end_timestamp=int(last.timestamps[0]),
                    end_physical_offset=int(last.physical_offsets[0]),
                )
                header, name = follow_up(full, name, int(own.timestamps[0]))
            count = min(room, total - first)
            tasks.append(FileTask(name, header, _parts(scanned, borders, first, count)))
        return tasks

    def build(self, task: FileTask, staging: str) -> None:
        """Build one file under a name of this attempt, then rename it at once."""
        directory = f"{staging}/{DIRECTORY}"
        path = f"{staging}/{uuid.uuid4().hex}"
        self.disk.make_directory(directory)
        geometry = self.geometry
        size = geometry.position_of_item(1) if self.grows else geometry.file_size
        create_file(self.disk, path, size)
        pool = FilePool(self.disk, 1, write=True)
        file = IndexFile(path, task.name, geometry, self.disk, pool, task.header, grows=self.grows)
        # Used here for one file, because it writes slots and header back.
        index = IndexFiles(staging, path, self.disk, pool, self.geometry, True, (file,))
        index.note_unflushed(file)
        for keys in self._chunks(task.parts):
            index.append(keys)
        index.flush()
        pool.close()
        self.disk.rename(path, f"{directory}/{file_name(task.name)}")

    def finish(self, scanned: Sequence[SplitKeys], built: Sequence[Any], staging: str) -> None:
        """Flush the names of the files."""
        if built:
            self.disk.flush_directory(f"{staging}/{DIRECTORY}")

    # ------------------------------------------------------------------ keys

    def _read(self, parts: tuple[tuple[str, int, int], ...]) -> HashedKeys:
        """Return all keys of ``parts``, which are few."""
        (keys,) = self._chunks(parts)
        return keys

    def _chunks(self, parts: tuple[tuple[str, int, int], ...]) -> Iterator[HashedKeys]:
        for path, first, count in parts:
            descriptor = self.disk.open(path)
            try:
                for start in range(first, first + count, CHUNK):
                    size = min(CHUNK, first + count - start) * KEY_DTYPE.itemsize
                    data = self.disk.read(descriptor, size, start * KEY_DTYPE.itemsize)
                    if len(data) < size:
                        raise EOFError(f"{path}: {len(data)} bytes of {size} at key {start}")
                    yield _keys(np.frombuffer(data, KEY_DTYPE))
            finally:
                self.disk.close(descriptor)


def _keys(rows: npt.NDArray[np.void]) -> HashedKeys:
    return HashedKeys(
        rows["key_hash"].astype(np.int32),
        rows["physical_offset"].astype(np.int64),
        rows["timestamp"].astype(np.int64),
    )


def _parts(
    scanned: Sequence[SplitKeys], borders: npt.NDArray[np.int64], first: int, count: int
) -> tuple[tuple[str, int, int], ...]:
    """Return where the keys ``[first, first + count)`` of the log are."""
    parts = []
    split = int(np.searchsorted(borders, first, "right")) - 1
    while count > 0:
        start = first - int(borders[split])
        size = min(count, scanned[split].count - start)
        if size > 0:
            parts.append((scanned[split].path, start, size))
        first, count, split = first + size, count - size, split + 1
    return tuple(parts)
