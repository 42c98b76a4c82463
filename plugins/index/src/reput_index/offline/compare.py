"""Compare index files with a log whose oldest files were removed, or with other records.

The number of an item, and so the chain of its slot, depends on all items before it, including those
of messages that the log has lost. So the files cannot have the bytes of an index that begins with
the log. Yet what they say of messages in the log is determined by the log: the items, and the
chains, slots and headers that lead to them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.files import FilePool
from reput_index.batchkeys import HashedKeys, KeysOfBatch
from reput_index.files.hashchain import chain, seconds_between, seconds_of, slots_of
from reput_index.files.header import Geometry
from reput_index.files.indexfile import CHUNK
from reput_index.files.indexfiles import IndexFiles
from reput_index.layout import (
    DIRECTORY,
    HEADER_DTYPE,
    HEADER_SIZE,
    ITEM_DTYPE,
    NEXT_ITEM_POSITION,
    SLOT_SIZE,
)
from reput_index.offline.aligned import RUNS_MAX, aligned_differences, keys_by_hash
from reput_index.offline.explain import item_text, touched
from reput_index.tagitems import TagsSource
from reput_tools.offline import Compared, Comparison, Difference, TouchedMessage

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput_index.files.indexfile import IndexFile
    from reput_index.tagitems import WrittenTags

_FILES_OPEN = 16
_TOO_MUCH = "nothing in the log leads to this item"
_OTHER = "the item is not the one that follows from the log"


def weigh(
    comparison: Comparison, differences: Sequence[Difference], geometry: Geometry
) -> Compared | None:
    """Compare the items of messages that the log has; see `reput_tools.offline.hookspecs`.

    Args:
        comparison: the comparison.
        differences: between the bytes of the files.
        geometry: assumed if no file determines it.

    Returns:
        The differences that count; None, so that bytes are compared, if the file is missing, or
        if the log has all of its records and the items need not be aligned.
    """
    disk = comparison.disk
    if not comparison.is_partial:
        files = IndexFiles(
            os.path.join(comparison.root, DIRECTORY), "", disk, FilePool(disk, 0), geometry, True
        )
        files.follow(files.directory)
        aligned = aligned_differences(comparison, differences, files.geometry)
        return None if aligned is None else Compared(aligned)
    pool = FilePool(disk, _FILES_OPEN)
    directory = os.path.join(comparison.root, DIRECTORY)
    index = IndexFiles(directory, "", disk, pool, geometry, writable=False)
    try:
        try:
            index.load()
        except CorruptFileError as error:
            name = os.path.basename(error.path)
            return Compared((Difference(f"{DIRECTORY}/{name}", error.position, error.reason),))
        if not index.files:
            return None
        return _Comparer(comparison, index).run()
    finally:
        pool.close()


class _KeyStream:
    """The keys of a log in its order, a part at a time."""

    def __init__(self, log: LogView, end: int | None, tags: WrittenTags) -> None:
        stop = log.max_physical_offset if end is None else end
        self._batches = log.scan(log.min_physical_offset, stop)
        self._keys_of = KeysOfBatch(tags)
        self._rest = _joined([])

    def give_back(self, keys: HashedKeys) -> None:
        """Have `take` return keys again, before all others."""
        self._rest = _joined([keys, self._rest])

    def take(self, count: int) -> HashedKeys:
        """Return the next ``count`` keys, or fewer at the end."""
        parts = [self._rest]
        have = len(self._rest.hashes)
        while have < count:
            batch = next(self._batches, None)
            if batch is None:
                break
            if len(batch):
                # Copied, as a batch is valid only until the next one is taken.
                hashes, offsets, timestamps = self._keys_of(batch)
                keys = HashedKeys(hashes.copy(), offsets.copy(), timestamps.copy())
                parts.append(keys)
                have += len(keys.hashes)
        keys = _joined(parts)
        self._rest = keys.behind(count)
        return keys.first(count)


def _joined(parts: Sequence[HashedKeys]) -> HashedKeys:
    if not parts:
        return HashedKeys(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    hashes, offsets, timestamps = zip(*parts, strict=True)
    return HashedKeys(np.concatenate(hashes), np.concatenate(offsets), np.concatenate(timestamps))


@attrs.define(eq=False)
class _Comparer:
    comparison: Comparison
    index: IndexFiles
    gone: int = 0
    """Items of messages that the log does not have."""
    _keys: _KeyStream = attrs.field(init=False)

    def run(self) -> Compared:
        """Compare the files with the items of the log, of the same tags as they have."""
        log, disk = self.comparison.log, self.comparison.disk
        source = TagsSource.of(self.comparison.root, None, disk, self.index.geometry, log)
        with source.open(disk) as tags:
            self._keys = _KeyStream(log, self.comparison.end_offset, tags)
            return self._compare()

    def _compare(self) -> Compared:
        """Compare file by file, up to one whose items do not fit: no later one has its place."""
        limit = self.comparison.limit
        counted: list[Difference] = []
        front: IndexFile | None = None
        files = sorted(self.index.files, key=lambda file: file.name)
        headers = set()
        for file in files:
            # Keys that a broker repeats have another header than those before.
            self._may_repeat = file.header not in headers
            headers.add(file.header)
            found = list(itertools.islice(self._differences(file, front), limit))
            counted += found
            if any(each.reason == _TOO_MUCH for each in found):
                return Compared(tuple(counted), self._not_compared(file.path))
            front = file
        if len(self._keys.take(1).hashes):
            reason = "keys that follow from the log are missing after the last item"
            counted.append(_at(files[-1], NEXT_ITEM_POSITION, reason, kind="header"))
        return Compared(tuple(counted), self._not_compared())

    def _not_compared(self, stopped_at: str = "") -> tuple[str, ...]:
        told = []
        low = self.comparison.log.min_physical_offset
        if self.gone and self.comparison.damaged:
            told.append(f"{self.gone} items of messages that the log has lost")
        elif self.gone:
            text = f"{self.gone} items of messages below physical offset {low}"
            told.append(f"{text}, where the log begins: its oldest files were removed")
        if stopped_at:
            told.append(f"items after the one in {os.path.basename(stopped_at)} that is too many")
        return tuple(told)

    def _differences(self, file: IndexFile, front: IndexFile | None) -> Iterator[Difference]:
        """Yield the differences of one file: items, then header, slots, and what comes after."""
        slots = np.zeros(file.geometry.slot_count, np.int32)
        first = 0  # number of the first item that the log determines
        used = 0
        last = begin = None
        for number, items in file.chunks(file.header.next_item):
            numbers = np.arange(number, number + len(items), dtype=np.int32)
            there = ~self._is_gone(items)
            self.gone += len(items) - int(np.count_nonzero(there))
            keys = self._keys.take(int(np.count_nonzero(there)))
            rows = self._without_copies(items, np.flatnonzero(there), keys)
            self._keys.give_back(keys.behind(len(rows)))
            keys = keys.first(len(rows))
            # Negative only in a damaged item, which differs wherever it is looked for.
            hashes = items["key_hash"].astype(np.int32) & np.int32(0x7FFFFFFF)
            hashes[rows[: len(keys.hashes)]] = keys.hashes
            _, previous = chain(slots, slots_of(hashes, len(slots)), numbers)
            used += int(np.count_nonzero(previous == 0))
            if not len(rows):
                continue
            if not first:
                first = number + int(rows[0])
                begin = int(keys.timestamps[0]) if len(keys.hashes) else None
            if len(keys.hashes) < len(rows):
                row = int(rows[len(keys.hashes)])
                yield self._wrong_item(file, number + row, 0, items[row], None, _TOO_MUCH)
                return
            wanted = _items(keys, previous[rows], file)
            if int(rows[0]) == 0 and number == 1:
                wanted["seconds"][0] = (
                    items["seconds"][0]  # counted from the end of a removed file
                    if front is None
                    else seconds_between(front.header.end_timestamp, int(keys.timestamps[0]))
                )
            for at, place in _different(items[rows], wanted, self.comparison.limit):
                row = int(rows[at])
                yield self._wrong_item(file, number + row, place, items[row], wanted[at], _OTHER)
            last = int(keys.timestamps[-1]), int(keys.physical_offsets[-1])
        if last is None:
            return
        yield from self._in_header(file, first, begin, last, used)
        yield from self._in_slots(file, slots, first)
        yield from self._behind(file)

    def _without_copies(
        self, items: npt.NDArray[np.void], rows: npt.NDArray[np.int64], keys: HashedKeys
    ) -> npt.NDArray[np.int64]:
        """Return the rows of items without those of keys that a broker has repeated."""
        hashes, offsets = (items[name].astype(np.int64) for name in ("key_hash", "physical_offset"))
        for _ in range(RUNS_MAX if self._may_repeat else 0):
            count = min(len(rows), len(keys.hashes))
            is_other = hashes[rows[:count]] != keys.hashes[:count]
            is_other |= offsets[rows[:count]] != keys.physical_offsets[:count]
            at = int(is_other.argmax()) if is_other.any() else count
            if at == len(rows):
                break
            row, newest = rows[at], self._newest
            if at:
                newest = int(keys.physical_offsets[at - 1])
            found = keys_by_hash(self.comparison, int(offsets[row]))
            if offsets[row] > newest or int(hashes[row]) not in found:
                break
            rows = np.delete(rows, at)
        if len(rows) and len(keys.hashes):
            self._newest = int(keys.physical_offsets[min(len(rows), len(keys.hashes)) - 1])
        return rows

    _may_repeat: bool = True
    """Whether the file is not a copy of an earlier one."""
    _newest: int = -1
    """Physical offset of the last message whose key was compared."""

    def _is_gone(self, items: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Return which items are of messages that the log does not have any more.

        Those below the log's beginning stand before all others.
        """
        offsets = items["physical_offset"].astype(np.int64)
        low = self.comparison.log.min_physical_offset
        gone = self.comparison.is_lost(offsets) & (offsets >= low)
        is_there = offsets >= low
        head = int(is_there.argmax()) if is_there.any() else len(items)
        if not self._has_begun:
            gone[:head] = True
            self._has_begun = head < len(items)
        return gone

    _has_begun: bool = False
    """Whether an item of a message in the log was met."""

    def _wrong_item(
        self,
        file: IndexFile,
        number: int,
        place: int,
        own: np.void,
        wanted: np.void | None,
        reason: str,
    ) -> Difference:
        position = file.geometry.position_of_item(number)
        messages: tuple[TouchedMessage, ...] = ()
        if wanted is not None:
            offset, stated = int(wanted["physical_offset"]), int(wanted["key_hash"])
            messages = (touched(self.comparison, offset, stated),)
        return attrs.evolve(
            _at(file, position + place, reason, kind="item"),
            size=ITEM_DTYPE.itemsize - place,
            found=item_text(number, own),
            expected="no item" if wanted is None else item_text(number, wanted),
            messages=messages,
            message_count=len(messages),
        )

    def _in_header(
        self, file: IndexFile, first: int, begin: int | None, last: tuple[int, int], used: int
    ) -> Iterator[Difference]:
        header = file.header
        wanted = header._replace(
            end_timestamp=last[0], end_physical_offset=last[1], used_slot_count=used
        )
        if self.comparison.damaged:
            # The last item may be that of a lost message.
            wanted = header._replace(used_slot_count=used)
        elif first == 1 and begin is not None:
            wanted = wanted._replace(
                begin_timestamp=begin,
                begin_physical_offset=int(file.read_items(1, 1)["physical_offset"][0]),
            )
        for name, is_, should in zip(header._fields, header, wanted, strict=True):
            if is_ != should:
                assert HEADER_DTYPE.fields is not None
                kind, position = HEADER_DTYPE.fields[name][:2]
                reason = f"{name} is {is_} where {should} follows from the log"
                yield attrs.evolve(
                    _at(file, position, reason, kind="header"),
                    size=kind.itemsize,
                    found=f"{name} {is_}",
                    expected=f"{name} {should}",
                )

    def _in_slots(
        self, file: IndexFile, wanted: npt.NDArray[np.int32], first: int
    ) -> Iterator[Difference]:
        found = np.frombuffer(
            file.pool.read(file.path, len(wanted) * SLOT_SIZE, HEADER_SIZE), ">i4"
        )
        # The slot of a lost message's item, if that is its newest, is not determined.
        is_gone = (wanted > 0) & (wanted < first) & (found < first)
        differs = np.flatnonzero((found != wanted) & ~is_gone)
        for slot in differs[: self.comparison.limit].tolist():
            position = HEADER_SIZE + slot * SLOT_SIZE
            reason = "the slot leads to another item than its newest"
            yield attrs.evolve(
                _at(file, position, reason, kind="slot"),
                size=SLOT_SIZE,
                found=f"slot {slot}: item {int(found[slot])}",
                expected=f"slot {slot}: item {int(wanted[slot])}",
            )

    def _behind(self, file: IndexFile) -> Iterator[Difference]:
        """Yield the bytes after the last item that are not zero."""
        for number in range(file.header.next_item, file.geometry.item_count, CHUNK):
            count = min(CHUNK, file.geometry.item_count - number)
            data = file.read_items(number, count).view(np.uint8)
            if data.any():
                position = file.geometry.position_of_item(number) + int(data.argmax())
                yield _at(file, position, "nothing in the log leads to this item", kind="item")
                return


def _items(
    keys: HashedKeys, previous: npt.NDArray[np.int32], file: IndexFile
) -> npt.NDArray[np.void]:
    """Return the items of ``keys`` as they stand in ``file``."""
    items = np.empty(len(keys.hashes), ITEM_DTYPE)
    items["key_hash"] = keys.hashes
    items["physical_offset"] = keys.physical_offsets
    items["seconds"] = seconds_of(keys.timestamps, file.header)
    items["previous"] = previous
    return items


def _different(
    left: npt.NDArray[np.void], right: npt.NDArray[np.void], limit: int
) -> Iterator[tuple[int, int]]:
    """Yield row and first byte of the items that differ, ``limit`` at most."""
    size = ITEM_DTYPE.itemsize
    own = np.ascontiguousarray(left).view(np.uint8).reshape(-1, size)
    wanted = np.ascontiguousarray(right).view(np.uint8).reshape(-1, size)
    differs = own != wanted
    for row in np.flatnonzero(differs.any(axis=1))[:limit].tolist():
        yield row, int(differs[row].argmax())


def _at(file: IndexFile, position: int, reason: str, kind: str = "bytes") -> Difference:
    return Difference(f"{DIRECTORY}/{os.path.basename(file.path)}", position, reason, kind=kind)
