"""Plan a read of one key by the store's index files.

An index file has an item for each key of each message between its first and its last one; the items
of one hash are chained. So between these two places no other record has the key. The log outside of
all files is scanned, except for the part that the plugin of a reput store has finished.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput.log import LOG_SECTION
from reput.record import java_string_hash
from reput_arrow.reader.pruning.derivedfiles import DoubtError
from reput_arrow.reader.pruning.prunedread import KeyPlaces, Pruned, without

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_arrow.logs.openlog import OpenLog
    from reput_arrow.reader.pruning.derivedfiles import DerivedFiles
    from reput_arrow.reader.selection import Selection

PLUGIN: Final = "index"
_CHAIN_MAX: Final = 1 << 14  # items of a chain above which all items are read instead
_BLOCK: Final = 204  # items of one read
_CHUNK: Final = 1 << 17  # items of one read, of all
_PLACES_MAX: Final = 1 << 20  # of one part; with more, scanning is as quick
_PART_COUNT: Final = 1 << 16


def _layout() -> Any:
    try:
        from reput_index import layout
    except ImportError:
        raise DoubtError("reput-index is not installed") from None
    return layout


def plan_key(
    log: OpenLog, beside: DerivedFiles, options: Selection, start: int, end: int
) -> Pruned | None:
    """Plan a read of a key of some topics in ``[start, end)``.

    Returns:
        The plan; None where scanning all of it is as quick.

    Raises:
        DoubtError: the index cannot answer.
    """
    layout = _layout()
    if beside.skipped(PLUGIN):
        raise DoubtError("the index was configured to skip messages")
    vouched = beside.vouched(PLUGIN, log)  # before the files, which a writer may be adding to
    files = _files(beside, layout)
    covered = _covered(log, files, vouched)
    hashes = [
        layout.key_hash(java_string_hash(f"{topic}{layout.TOPIC_END}{options.key}"))
        for topic in sorted(options.topics or ())
    ]
    # Keys of one record may be in two files: so all places, and then the ones in reach.
    places = {
        place
        for file in files
        if file.count and file.begin < end and file.end >= start
        for key_hash in hashes
        for place in file.places(key_hash)
    }
    if len(places) > _PLACES_MAX:
        return None
    ordered = sorted(places.union(file.end for file in files[:-1]))
    parts: list[KeyPlaces] = []
    for low, high in covered:
        parts += _parts(ordered, max(low, start), min(high, end))
    ranges = without(start, end, covered)
    for low, high in ranges:
        _check_border(log, low, start)
        _check_border(log, high, end)
    return Pruned(tuple(parts), tuple(ranges))


def _parts(places: list[int], low: int, high: int) -> Iterator[KeyPlaces]:
    """Yield the places in ``[low, high)``, so many at a time."""
    first, stop = bisect.bisect_left(places, low), bisect.bisect_left(places, high)
    for at in range(first, stop, _PART_COUNT):
        following = at + _PART_COUNT
        begin = low if at == first else places[at]
        end = high if following >= stop else places[following]
        yield KeyPlaces(tuple(places[at : min(following, stop)]), begin, end)


def _check_border(log: OpenLog, offset: int, known: int) -> None:
    if offset != known and log.read_message(offset) is None and log.files.base_of(offset) != offset:
        raise DoubtError(f"no record begins at {offset}, where the index says so")


def _covered(log: OpenLog, files: list[_File], vouched: int | None) -> list[tuple[int, int]]:
    """Return the ranges ``[low, high)`` of the log that files answer for, ascending.

    Further keys of a file's last record may be in the next file, or still to be added: so this
    record is looked at, whatever its keys are, or it is scanned.
    """
    found: list[tuple[int, int]] = []
    for file in files:
        is_last = file is files[-1]
        if file.count < 1:
            if not is_last:
                raise DoubtError(f"{file.path} is empty, and another one follows")
            continue
        low, high = file.begin, file.end
        if not is_last:
            message = log.read_message(file.end)
            if message is None and file.end >= log.min_physical_offset:
                raise DoubtError(f"{file.path}: its last item leads to no record")
            high += 0 if message is None else len(message.record)
        if found and found[-1][0] > low:
            raise DoubtError(f"{file.path} begins before the file before it")
        if found and low <= found[-1][1]:
            low = found.pop()[0]
        found.append((low, max(high, low)))
    last = files[-1]
    if vouched is None or last.is_full or last.has_more:
        return found
    # No file was made after one that is not full. So nothing with a key is after its last item, and
    # before the first one's, if that file was made for the log's first message or an earlier one.
    if last.count >= 1 and vouched > last.end:
        found[-1] = (found[-1][0], vouched)
    first = log.min_physical_offset
    if files[0].name <= _name_of(log.store_timestamp_at(first)):
        before = files[0].begin if files[0].count >= 1 else vouched
        if before > first:
            found[:1] = [(first, found[0][1])] if found else [(first, before)]
    return found


def _name_of(timestamp: int) -> int:
    """Return the name of a file made for a message of that time, ms, as a number; 0 for none."""
    if timestamp < 0:
        return 0
    try:
        time = dt.datetime.fromtimestamp(timestamp // 1_000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return 0
    return int(time.strftime("%Y%m%d%H%M%S")) * 1_000 + timestamp % 1_000


def _files(beside: DerivedFiles, layout: Any) -> list[_File]:
    options = beside.options(PLUGIN)
    slots = options.get("slots_per_file", layout.SLOTS_PER_FILE)
    items = options.get("items_per_file", layout.ITEMS_PER_FILE)
    known = all(type(each) is int and 0 < each < 1 << 31 for each in (slots, items))
    is_last_short = beside.options(LOG_SECTION).get("grows") is True
    found = []
    for name, path, size in beside.files(layout.DIRECTORY):
        if len(name) != layout.NAME_DIGITS or not (name.isascii() and name.isdigit()):
            continue
        full = layout.file_size(slots, items) if known else 0
        if size != full and not (is_last_short and layout.file_size(slots, 1) <= size < full):
            raise DoubtError(f"{path} has {size} bytes, and is of slots and items not known")
        found.append(_File(beside, layout, path, int(name), slots, items))
    if not found:
        raise DoubtError("no index files")
    return found


@attrs.define(eq=False)
class _File:
    """One index file, which may be damaged, and may be written meanwhile."""

    beside: DerivedFiles
    layout: Any
    path: str
    name: int
    slot_count: int
    room: int
    """Items, with item 0, which is never used."""
    count: int = attrs.field(init=False)
    """Items in use; they have the numbers from 1 on."""
    begin: int = attrs.field(init=False)
    """Physical offset of the first item's record."""
    end: int = attrs.field(init=False)
    """Physical offset of the last item's record."""
    has_more: bool = attrs.field(init=False)
    """Whether items come after those that the header counts."""

    def __attrs_post_init__(self) -> None:
        layout = self.layout
        head = self.beside.pool.read(self.path, layout.HEADER_SIZE, 0)
        _, _, self.begin, self.end, _, following = layout.HEADER.unpack(head)
        self.count = max(following, 1) - 1
        if self.count >= self.room:
            raise DoubtError(f"{self.path} counts more items than it has room for")
        more = self._items(self.count + 1, 1) if self.count + 1 < self.room else b""
        self.has_more = bool(more.strip(b"\0"))
        if self.count < 1:
            if self.has_more:
                raise DoubtError(f"{self.path} counts none of its items")
            return
        for number, stated in ((1, self.begin), (self.count, self.end)):
            _, offset, _, _ = layout.ITEM.unpack(self._items(number, 1))
            if offset != stated or not 0 <= self.begin <= self.end:
                raise DoubtError(f"{self.path}: item {number} is not the one of the header")

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another item."""
        return self.count + 1 >= self.room

    def places(self, key_hash: int) -> list[int]:
        """Return the physical offsets of the items of a hash, in no order.

        Raises:
            DoubtError: a chain that is none, or items that are zero.
        """
        slot = key_hash % self.slot_count
        data = self.beside.pool.read(self.path, 4, self.layout.HEADER_SIZE + slot * 4)
        newest = int.from_bytes(data, "big", signed=True)
        # A slot that was lost says nothing, as one without items does: then the items tell.
        found = self._chain(key_hash, slot, newest) if newest else None
        return self._all(key_hash) if found is None else found

    def _chain(self, key_hash: int, slot: int, newest: int) -> list[int] | None:
        """Return the places of a chain's items; None where only all items tell them.

        They do where the chain has more items than `_CHAIN_MAX`, or where its end may be a hole.
        """
        number, above, offset_above = newest, self.room, 1 << 63
        block, first, size = b"", self.room, self.layout.ITEM_SIZE
        found: list[int] = []
        for _ in range(_CHAIN_MAX):
            if number == 0:
                return found if self._is_first(above) else None
            if not 0 < number < above:
                raise DoubtError(f"{self.path}: item {above} leads to item {number}")
            if number < first:
                first = max(number - _BLOCK + 1, 1)
                block = self._items(first, number + 1 - first)
            item = block[(number - first) * size : (number - first + 1) * size]
            stated, offset, _, previous = self.layout.ITEM.unpack(item)
            if stated < 0 or stated % self.slot_count != slot or not 0 <= offset <= offset_above:
                raise DoubtError(f"{self.path}: item {number} is of another chain")
            if number <= self.count:
                if not self.begin <= offset <= self.end:
                    raise DoubtError(f"{self.path}: item {number} is of no message of the file")
                if stated == key_hash:
                    found.append(offset)
            above, offset_above, number = number, offset, previous
        return None

    def _is_first(self, number: int) -> bool:
        """Whether item ``number``, which leads to no other, is surely the first one of its chain.

        Zeros that begin in the last field of an item look like the end of a chain. They go on in
        the following item, which no hole leaves as it was. After the last item zeros are ordinary.

        Raises:
            DoubtError: the following item is zero.
        """
        if number >= self.count:
            return False
        if not self._items(number + 1, 1).strip(b"\0"):
            raise DoubtError(f"{self.path}: item {number + 1} is zero")
        return True

    def _all(self, key_hash: int) -> list[int]:
        """Return the places of all items of a hash, by reading every item."""
        found: list[npt.NDArray[np.int64]] = []
        for first in range(1, self.count + 1, _CHUNK):
            data = self._items(first, min(_CHUNK, self.count + 1 - first))
            items = np.frombuffer(data, self.layout.ITEM_DTYPE)
            offsets = items["physical_offset"]
            if not items["key_hash"].any() or ((items["key_hash"] == 0) & (offsets == 0)).any():
                raise DoubtError(f"{self.path}: items from {first} on are zero")
            found.append(offsets[items["key_hash"] == key_hash].astype(np.int64))
        return np.concatenate(found).tolist() if found else []

    def _items(self, first: int, count: int) -> bytes:
        layout = self.layout
        position = layout.HEADER_SIZE + self.slot_count * 4 + first * layout.ITEM_SIZE
        data = self.beside.pool.read(self.path, count * layout.ITEM_SIZE, position)
        if len(data) < count * layout.ITEM_SIZE:
            raise DoubtError(f"{self.path} ends before item {first + count}")
        return data
