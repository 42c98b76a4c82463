"""Decide which messages have an item of their tags.

RocketMQ adds an item with the key ``T#tags`` after a message's other items, since release 5.4 and
without an option. Earlier releases add none. Nothing in a file says which release wrote an item,
and a store may be handed from one release to another and back. So existing files decide for each
message: they have an item more than the message has keys, or they do not.

Source: RocketMQ 5.4 ``IndexService#buildIndex``, ``MessageConst.INDEX_TAG_TYPE``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.files import FilePool
from reput_index.batchkeys import KeysOfBatch, hash_of, keys_of_message, tag_key_of_message
from reput_index.files.indexfiles import IndexFiles
from reput_index.layout import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from reput.files import Disk
    from reput.log import LogView
    from reput.record import DispatchBatch
    from reput_index.batchkeys import HashedKeys
    from reput_index.files.header import Geometry
    from reput_index.files.indexfile import IndexFile

_MARK: Final = "rocksdbstore"
"""A directory that each broker since 5.4 makes, and no earlier one."""
_TAIL: Final = 1 << 12  # items at the end of a file that are looked at
_MESSAGES_MAX: Final = 64  # of these items
_FILES_OPEN: Final = 16


def adds_tags(option: bool | None, root: str, disk: Disk, index: IndexFiles, log: LogView) -> bool:
    """Return whether messages that a writer adds get an item of their tags.

    Args:
        option: the plugin's option ``tags``.
        root: directory of the store.
        disk: file operations.
        index: its files.
        log: its log.
    """
    if option is not None:
        return option
    return disk.exists(os.path.join(root, _MARK)) or bool(last_written(index, log))


def last_written(index: IndexFiles, log: LogView) -> bool | None:
    """Return whether the newest tagged message that has items has one of its tags.

    Returns:
        None if no message near the end of the files tells.
    """
    parts = []
    for file in index.files[-2:]:  # the items of a message may be in two files
        count = min(file.item_count, file.geometry.item_count - 1)
        first = max(count - _TAIL, 0) + 1
        parts.append(file.read_items(first, max(count + 1 - first, 0)))
    if not parts:
        return None
    items = np.concatenate(parts)
    offsets = items["physical_offset"].astype(np.int64)
    newest = np.unique(offsets)[::-1]
    for offset in newest[:_MESSAGES_MAX].tolist():
        hashes = items["key_hash"][offsets == offset].tolist()
        try:
            message = log.read_message(offset)
        except CorruptFileError:
            continue
        if message is None or (tag_key := tag_key_of_message(message)) is None:
            continue
        if hashes[-1] == hash_of(message.topic, tag_key):
            return len(hashes) > len(keys_of_message(message))
        return False
    return None


@attrs.frozen
class TagsSource:
    """Where a rebuild finds which messages have an item of their tags; can be pickled."""

    directory: str
    """The files that are in use."""
    geometry: Geometry
    otherwise: bool = False
    """Whether a message has such an item if no file tells."""
    covered_to: int = 0
    """Physical offset below which the files have all items, if the last file is not damaged."""

    @classmethod
    def of(
        cls, root: str, option: bool | None, disk: Disk, geometry: Geometry, log: LogView
    ) -> TagsSource:
        """Return the source for the files of a store, which may be damaged."""
        source = cls(os.path.join(root, DIRECTORY), geometry)
        with source.open(disk) as written:
            otherwise = last_written(written.index, log)
            if otherwise is None:
                otherwise = adds_tags(option, root, disk, written.index, log)
            # Without such items by default, it makes no difference what is covered.
            covered_to = _first_key_behind(written.newest, log) if otherwise else 0
        return attrs.evolve(source, otherwise=otherwise, covered_to=covered_to)

    def open(self, disk: Disk) -> WrittenTags:
        """Read the headers of the files."""
        pool = FilePool(disk, _FILES_OPEN)
        # As a writer's, which damage does not stop: a damaged file tells nothing.
        index = IndexFiles(self.directory, "", disk, pool, self.geometry, writable=True)
        index.load()
        return WrittenTags(index, self.otherwise, self.covered_to)


def _first_key_behind(physical_offset: int, log: LogView) -> int:
    """Return the physical offset of the first message behind another one that has keys."""
    start = max(physical_offset, log.min_physical_offset)
    keys_of = KeysOfBatch()
    for batch in log.scan(start, log.max_physical_offset):
        fresh = batch.after(physical_offset + 1)
        if len(fresh) and len(keys := keys_of(fresh).physical_offsets):
            return int(keys[0])
    return log.max_physical_offset


@attrs.define(eq=False, repr=False)
class WrittenTags:
    """Finds out which messages have an item of their tags in existing files."""

    index: IndexFiles
    otherwise: bool
    """Whether a message has such an item if no file tells."""
    covered_to: int
    """See `TagsSource.covered_to`."""
    _files: list[IndexFile] = attrs.field(init=False)
    """Those whose first and last items are what their headers say."""
    _covered: npt.NDArray[np.int64] = attrs.field(init=False)
    """``(m, 2)`` ranges of physical offsets whose items are all in the files."""

    def __attrs_post_init__(self) -> None:
        files = sorted(
            self.index.files, key=lambda file: (file.header.begin_physical_offset, file.name)
        )
        self._files = []
        for file in files:
            # A copy of a file would double the items.
            if file.header.begin_physical_offset >= self.newest and _is_sound(file):
                self._files.append(file)
        ranges = list(_covered(files, self._files, self.covered_to))
        self._covered = np.array(ranges, np.int64).reshape(-1, 2)

    @property
    def newest(self) -> int:
        """Physical offset of the last message with an item; -1 without one."""
        return max((file.header.end_physical_offset for file in self._files), default=-1)

    def __enter__(self) -> WrittenTags:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.pool.close()

    def __call__(
        self, batch: DispatchBatch, has_tags: npt.NDArray[np.bool_], keys: HashedKeys
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages of ``batch`` have an item of their tags.

        Args:
            batch: the messages.
            has_tags: ``(n,)``, which of them have tags.
            keys: their other keys.
        """
        offsets = batch.physical_offset.astype(np.int64)
        hashes, places = self._items(int(offsets[0]), int(offsets[-1]))
        stops = np.searchsorted(places, offsets, "right")
        found = stops - np.searchsorted(places, offsets)
        wanted = np.diff(np.searchsorted(keys.physical_offsets, offsets, "right"), prepend=0)
        written = found == wanted + 1
        is_doubtful = (~written & (found != wanted)) | np.isin(offsets, _repeated(hashes, places))
        # Items that are damaged, or of a message that was dispatched twice: the last one decides.
        for row in np.flatnonzero(has_tags & (found > 0) & is_doubtful).tolist():
            message = batch.message(row)
            tag_key = tag_key_of_message(message)
            newest = hashes[stops[row] - 1]
            written[row] = tag_key is not None and newest == hash_of(message.topic, tag_key)
        silent = has_tags & (found == 0)
        is_none = silent & (wanted == 0) & self._is_covered(offsets)
        written[is_none] = False
        silent &= ~is_none
        if silent.any():  # items are missing: as for the message before
            told = np.flatnonzero(has_tags & (found > 0))
            near = np.maximum(np.searchsorted(told, np.flatnonzero(silent)) - 1, 0)
            written[silent] = written[told[near]] if len(told) else self.otherwise
        wanted_tags: npt.NDArray[np.bool_] = written & has_tags
        return wanted_tags

    def _items(self, first: int, last: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return hash and physical offset of the items of messages from ``first`` to ``last``.

        They are in the order of their messages.
        """
        hashes = [np.zeros(0, np.int32)]
        places = [np.zeros(0, np.int64)]
        for file in self._files:
            if file.header.begin_physical_offset > last or file.header.end_physical_offset < first:
                continue
            try:
                begin, end = file.stop_below(first), file.stop_below(last + 1)
                items = file.read_items(begin, max(end - begin, 0))
            except FileNotFoundError:
                continue  # trimmed meanwhile
            offsets = items["physical_offset"].astype(np.int64)
            own = items["key_hash"]
            is_inside = (offsets >= first) & (offsets <= last)
            if not is_inside.all():  # only in a damaged file
                own, offsets = own[is_inside], offsets[is_inside]
            hashes.append(own)
            places.append(offsets)
        every = np.concatenate(places)
        if (every[1:] < every[:-1]).any():  # only in a damaged file
            order = np.argsort(every, kind="stable")
            return np.concatenate(hashes)[order], every[order]
        return np.concatenate(hashes), every

    def _is_covered(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        at = np.searchsorted(self._covered[:, 0], offsets, "right") - 1
        if not len(self._covered):
            return np.zeros(len(offsets), np.bool_)
        is_covered: npt.NDArray[np.bool_] = (at >= 0) & (offsets <= self._covered[at, 1])
        return is_covered


def _repeated(
    hashes: npt.NDArray[np.int32], places: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the physical offsets of messages that have two items of one hash.

    Args:
        hashes: ``(m,)`` hashes of items.
        places: ``(m,)`` their physical offsets, in order; they lie in one window of the log.
    """
    if not len(places):
        return places
    pairs = np.sort((places - places[0]) << 31 | hashes.astype(np.int64) & 0x7FFFFFFF)
    repeated: npt.NDArray[np.int64] = (pairs[1:][pairs[1:] == pairs[:-1]] >> 31) + places[0]
    return repeated


def _is_sound(file: IndexFile) -> bool:
    header, last = file.header, file.item_count
    return (
        0 < last < file.geometry.item_count
        and file.read_item(1)[1] == header.begin_physical_offset
        and file.read_item(last)[1] == header.end_physical_offset
    )


def _covered(
    files: list[IndexFile], sound: list[IndexFile], covered_to: int
) -> Iterator[tuple[int, int]]:
    """Yield first and last physical offset of each sound file, with what is before the next one."""
    if len(files) == 1 and files[0].item_count == 0:
        yield 0, covered_to - 1  # no message had a key
    for number, file in enumerate(files):
        if file not in sound:
            continue
        begin, end = file.header.begin_physical_offset, file.header.end_physical_offset
        if number + 1 == len(files):
            end = max(end, covered_to - 1)
        elif files[number + 1] in sound:
            end = files[number + 1].header.begin_physical_offset - 1
        yield (begin if number else 0), end
