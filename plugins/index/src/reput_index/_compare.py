"""Compare index files with a log that has lost its head.

The number of an item, and so the chain of its slot, depends on all items before it, including those
of messages that the log has lost. So the files cannot have the bytes of an index that begins with
the log. Yet what they say of messages in the log is determined by the log: the items, and the
chains, slots and headers that lead to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.files import FilePool
from reput.plugin import Compared, Comparison, Difference
from reput_index._keys import Keys, KeysOfBatch
from reput_index.files._chain import chain, seconds_between, seconds_of, slots_of
from reput_index.files._file import CHUNK
from reput_index.files._files import IndexFiles
from reput_index.files._header import Geometry
from reput_index.layout import (
    DIRECTORY,
    HEADER_DTYPE,
    HEADER_SIZE,
    ITEM_DTYPE,
    NEXT_ITEM_POSITION,
    SLOT_SIZE,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput_index.files._file import IndexFile

__all__ = ["weigh"]

_FILES_OPEN = 16


def weigh(
    comparison: Comparison, differences: Sequence[Difference], geometry: Geometry
) -> Compared | None:
    """Compare the items of messages that the log has; see `reput.Plugin.weigh`.

    Args:
        comparison: the comparison.
        differences: between the bytes of the files.
        geometry: assumed if no file determines it.

    Returns:
        The differences that count; None, so that bytes are compared, if the log has its head or
        there is no file.
    """
    if comparison.log.min_physical_offset <= 0:
        return None
    disk = comparison.disk
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
        return _Comparer(comparison.log, index).run()
    finally:
        pool.close()


class _KeyStream:
    """The keys of a log in its order, a part at a time."""

    def __init__(self, log: LogView) -> None:
        self._batches = log.scan(log.min_physical_offset, log.max_physical_offset)
        self._keys_of = KeysOfBatch()
        self._rest = _joined([])

    def take(self, count: int) -> Keys:
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
                keys = Keys(hashes.copy(), offsets.copy(), timestamps.copy())
                parts.append(keys)
                have += len(keys.hashes)
        keys = _joined(parts)
        self._rest = keys.behind(count)
        hashes, offsets, timestamps = keys
        return Keys(hashes[:count], offsets[:count], timestamps[:count])


def _joined(parts: Sequence[Keys]) -> Keys:
    if not parts:
        return Keys(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    hashes, offsets, timestamps = zip(*parts, strict=True)
    return Keys(np.concatenate(hashes), np.concatenate(offsets), np.concatenate(timestamps))


@attrs.define(eq=False)
class _Comparer:
    log: LogView
    index: IndexFiles
    gone: int = 0
    """Items of messages that the log has lost."""
    _keys: _KeyStream = attrs.field(init=False)

    def run(self) -> Compared:
        """Compare file by file, up to the first that differs: no later item has its right place."""
        self._keys = _KeyStream(self.log)
        front: IndexFile | None = None
        files = sorted(self.index.files, key=lambda file: file.name)
        for file in files:
            found = next(self._differences(file, front), None)
            if found is not None:
                return Compared((found,), self._not_compared())
            front = file
        if len(self._keys.take(1).hashes):
            reason = "keys that follow from the log are missing after the last item"
            return Compared((_at(files[-1], NEXT_ITEM_POSITION, reason),), self._not_compared())
        return Compared((), self._not_compared())

    def _not_compared(self) -> tuple[str, ...]:
        low = self.log.min_physical_offset
        if not self.gone:
            return ()
        text = f"{self.gone} items of messages below physical offset {low}, where the log begins"
        return (f"{text}: it has lost its head",)

    def _differences(self, file: IndexFile, front: IndexFile | None) -> Iterator[Difference]:
        """Yield the first difference of each kind in one file."""
        slots = np.zeros(file.geometry.slot_count, np.int32)
        first = 0  # number of the first item that the log determines
        used = 0
        last = begin = None
        for number, items in file.chunks(file.header.next_item):
            numbers = np.arange(number, number + len(items), dtype=np.int32)
            # Negative only in a damaged item, which differs wherever it is looked for.
            hashes = items["key_hash"].astype(np.int32) & np.int32(0x7FFFFFFF)
            _, previous = chain(slots, slots_of(hashes, len(slots)), numbers)
            used += int(np.count_nonzero(previous == 0))
            skipped = 0 if first else self._gone_of(items)
            self.gone += skipped
            if skipped == len(items):
                continue
            keys = self._keys.take(len(items) - skipped)
            if not first:
                first = number + skipped
                begin = int(keys.timestamps[0]) if len(keys.hashes) else None
            if len(keys.hashes) < len(items) - skipped:
                position = file.geometry.position_of_item(number + skipped + len(keys.hashes))
                yield _at(file, position, "nothing in the log leads to this item")
                return
            wanted = _items(keys, previous[skipped:], file)
            if number + skipped == 1:
                wanted["seconds"][0] = (
                    items["seconds"][0]  # counted from the end of a removed file
                    if front is None
                    else seconds_between(front.header.end_timestamp, int(keys.timestamps[0]))
                )
            place = _first_difference(items[skipped:], wanted)
            if place is not None:
                position = file.geometry.position_of_item(number + skipped) + place
                yield _at(file, position, "the item is not the one that follows from the log")
                return
            last = int(keys.timestamps[-1]), int(keys.physical_offsets[-1])
        if last is None:
            return
        yield from self._in_header(file, first, begin, last, used)
        yield from self._in_slots(file, slots, first)
        yield from self._behind(file)

    def _gone_of(self, items: npt.NDArray[np.void]) -> int:
        """Return the number of items at the beginning whose messages the log has lost."""
        is_there = items["physical_offset"] >= self.log.min_physical_offset
        return int(is_there.argmax()) if is_there.any() else len(items)

    def _in_header(
        self, file: IndexFile, first: int, begin: int | None, last: tuple[int, int], used: int
    ) -> Iterator[Difference]:
        header = file.header
        wanted = header._replace(
            end_timestamp=last[0], end_physical_offset=last[1], used_slot_count=used
        )
        if first == 1 and begin is not None:
            wanted = wanted._replace(
                begin_timestamp=begin,
                begin_physical_offset=int(file.read_items(1, 1)["physical_offset"][0]),
            )
        for name, is_, should in zip(header._fields, header, wanted, strict=True):
            if is_ != should:
                assert HEADER_DTYPE.fields is not None
                position = HEADER_DTYPE.fields[name][1]
                yield _at(file, position, f"{name} is {is_} where {should} follows from the log")

    def _in_slots(
        self, file: IndexFile, wanted: npt.NDArray[np.int32], first: int
    ) -> Iterator[Difference]:
        found = np.frombuffer(
            file.pool.read(file.path, len(wanted) * SLOT_SIZE, HEADER_SIZE), ">i4"
        )
        # The slot of a lost message's item, if that is its newest, is not determined.
        is_gone = (wanted > 0) & (wanted < first) & (found < first)
        differs = np.flatnonzero((found != wanted) & ~is_gone)
        if len(differs):
            position = HEADER_SIZE + int(differs[0]) * SLOT_SIZE
            yield _at(file, position, "the slot leads to another item than its newest")

    def _behind(self, file: IndexFile) -> Iterator[Difference]:
        """Yield the bytes after the last item that are not zero."""
        for number in range(file.header.next_item, file.geometry.item_count, CHUNK):
            count = min(CHUNK, file.geometry.item_count - number)
            data = file.read_items(number, count).view(np.uint8)
            if data.any():
                position = file.geometry.position_of_item(number) + int(data.argmax())
                yield _at(file, position, "nothing in the log leads to this item")
                return


def _items(keys: Keys, previous: npt.NDArray[np.int32], file: IndexFile) -> npt.NDArray[np.void]:
    """Return the items of ``keys`` as they stand in ``file``."""
    items = np.empty(len(keys.hashes), ITEM_DTYPE)
    items["key_hash"] = keys.hashes
    items["physical_offset"] = keys.physical_offsets
    items["seconds"] = seconds_of(keys.timestamps, file.header)
    items["previous"] = previous
    return items


def _first_difference(left: npt.NDArray[np.void], right: npt.NDArray[np.void]) -> int | None:
    """Return the first byte in which items differ."""
    differs = np.frombuffer(left.tobytes(), np.uint8) != np.frombuffer(right.tobytes(), np.uint8)
    return int(differs.argmax()) if differs.any() else None


def _at(file: IndexFile, position: int, reason: str) -> Difference:
    return Difference(f"{DIRECTORY}/{os.path.basename(file.path)}", position, reason)
