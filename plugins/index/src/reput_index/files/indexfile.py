"""One index file: its header, its slots, its items; appended to, cut, read.

The slots of the file that is written are kept in memory, as nearly every key changes another slot;
changed slots are written when the file is flushed. Items are written at once.

Source: RocketMQ ``IndexFile#putKey``. Different on purpose: header and slots are written at the
next flush, after the items, so that every reader of them finds the items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_index.files.hashchain import make_items, slots_of, unchain
from reput_index.files.header import Geometry, Header
from reput_index.layout import HEADER_SIZE, ITEM, ITEM_DTYPE, ITEM_SIZE, SLOT_DTYPE, SLOT_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk, FilePool
    from reput_index.batchkeys import HashedKeys

_PAGE_SHIFT: Final = 10  # slots in a page, as a power of two: 4 KiB
_PAGE: Final = 1 << _PAGE_SHIFT
_GAP: Final = 4  # clean pages that are rewritten to save a separate write
_RUN: Final = 256  # pages copied at once, while a dispatch has to wait for the flush
CHUNK: Final = 1 << 16
"""Items of one read, where many are read: 1.25 MiB. Their columns take several times as much."""


@attrs.define(eq=False, repr=False)
class IndexFile:
    """One file. Its owner holds a lock for every change of it."""

    path: str
    name: int
    geometry: Geometry
    disk: Disk
    pool: FilePool
    header: Header = attrs.field(factory=Header)
    slots: npt.NDArray[np.int32] | None = None
    """``(slot_count,)`` while the file is written; read by `load_slots`."""
    is_header_dirty: bool = False
    grows: bool = attrs.field(default=False, kw_only=True)
    """Whether the file ends after its last item until it is full."""
    _dirty: npt.NDArray[np.bool_] | None = None
    """Pages of slots that are not in the file yet."""

    @property
    def item_count(self) -> int:
        """Items that the file holds."""
        return self.header.next_item - 1

    @property
    def is_full(self) -> bool:
        """Whether the file has no room for another item."""
        return self.header.next_item >= self.geometry.item_count

    # ------------------------------------------------------------------ reading

    def read_header(self) -> Header:
        """Return the header that is in the file."""
        return Header.decode(self.pool.read(self.path, HEADER_SIZE, 0))

    def read_slot(self, slot: int) -> int:
        """Return the number of a slot's newest item; 0 or nonsense for an empty slot."""
        slots = self.slots  # another thread may be dropping them
        if slots is not None:
            return int(slots[slot])
        data = self.pool.read(self.path, SLOT_SIZE, HEADER_SIZE + slot * SLOT_SIZE)
        return int.from_bytes(data, "big", signed=True)

    def read_items(self, first: int, count: int) -> npt.NDArray[np.void]:
        """Return ``(count,)`` of `ITEM_DTYPE`, read-only; bytes missing in the file are zero."""
        size = count * ITEM_SIZE
        data = self.pool.read(self.path, size, self.geometry.position_of_item(first))
        return np.frombuffer(data.ljust(size, b"\0"), ITEM_DTYPE)

    def read_item(self, number: int) -> tuple[int, int, int, int]:
        """Return key hash, physical offset, seconds and previous item of one item."""
        data = self.pool.read(self.path, ITEM_SIZE, self.geometry.position_of_item(number))
        return ITEM.unpack(data.ljust(ITEM_SIZE, b"\0"))

    def chunks(self, stop: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield items 1 to ``stop`` in chunks, each with the number of its first item."""
        for first in range(1, stop, CHUNK):
            yield first, self.read_items(first, min(CHUNK, stop - first))

    def load_slots(self) -> npt.NDArray[np.int32]:
        """Read the slots into memory, so that the file can be appended to."""
        if self.slots is not None:
            return self.slots
        native = np.zeros(self.geometry.slot_count, np.int32)
        if self.header.next_item > 1:  # a new file's slots are zero, and their memory not there yet
            # In their own place, as a second array of all slots would be 20 MB more.
            with self.pool.descriptor(self.path) as descriptor:
                self.disk.read_into(descriptor, native.view(np.uint8).data, HEADER_SIZE)
            native[:] = native.view(SLOT_DTYPE)
            native[(native < 0) | (native >= self.header.next_item)] = 0
        self.set_slots(native)
        assert self._dirty is not None
        self._dirty[:] = False
        return native

    def set_slots(self, slots: npt.NDArray[np.int32]) -> None:
        """Replace all slots, and write all of them at the next flush."""
        self._dirty = np.ones(-(-self.geometry.slot_count // _PAGE), np.bool_)
        self.slots = slots

    # ------------------------------------------------------------------ appending

    def append(self, keys: HashedKeys) -> int:
        """Append the first of ``keys``, as many as fit, and return how many."""
        header, geometry = self.header, self.geometry
        first = header.next_item
        count = min(len(keys.hashes), geometry.item_count - first)
        if count <= 0:
            return 0
        slots = self.load_slots()
        hashes, offsets = keys.hashes[:count], keys.physical_offsets[:count]
        timestamps = keys.timestamps[:count]
        items, slot, empty_count = make_items(
            slots, hashes, offsets, timestamps, first, header.begin_timestamp
        )
        try:
            self.pool.write(self.path, items.data, geometry.position_of_item(first))
        except BaseException:
            # As if nothing had been appended.
            unchain(slots, slot, items.view(ITEM_DTYPE)["previous"].astype(np.int32))
            raise
        assert self._dirty is not None
        if count > len(self._dirty):  # nearly all pages: finding out which takes longer
            self._dirty[:] = True
        else:
            self._dirty[slot >> _PAGE_SHIFT] = True
        self.is_header_dirty = True
        begin = (header.begin_timestamp, header.begin_physical_offset)
        if first <= 1:
            begin = (int(timestamps[0]), int(offsets[0]))
        self.header = Header(
            begin[0],
            int(timestamps[-1]),
            begin[1],
            int(offsets[-1]),
            header.used_slot_count + empty_count,
            first + count,
        )
        return count

    # ------------------------------------------------------------------ cutting

    def stop_below(self, physical_offset: int) -> int:
        """Return the number of the first item of a record at ``physical_offset`` or above."""
        return self.stop_below_among(physical_offset, self.item_count)

    def stop_below_among(self, physical_offset: int, count: int) -> int:
        """Do as `stop_below`, but in the first ``count`` items, whatever the header says."""
        low, high = 1, count + 1  # items below low stay, item high is cut
        while low < high:
            middle = (low + high) // 2
            if self.read_item(middle)[1] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def undo(self, stop: int, end_timestamp: int) -> None:
        """Undo the items from ``stop`` on, the newest first, and restore their slots.

        Args:
            stop: number of the first item to cut.
            end_timestamp: store time of the message of the last item that stays.
        """
        slots = self.load_slots()
        assert self._dirty is not None
        used = self.header.used_slot_count
        for first in reversed(range(stop, self.header.next_item, CHUNK)):
            items = self.read_items(first, min(CHUNK, self.header.next_item - first))
            slot = slots_of(items["key_hash"].astype(np.int32), self.geometry.slot_count)
            previous = items["previous"].astype(np.int32)
            unchain(slots, slot, previous)
            self._dirty[slot >> _PAGE_SHIFT] = True
            used -= int(np.count_nonzero(previous == 0))
        self.end_at(stop, end_timestamp, used)

    def end_at(self, stop: int, end_timestamp: int, used_slot_count: int) -> None:
        """Make item ``stop`` the next in the header, and zero the file from it on."""
        header = self.header
        if stop <= 1:
            self.header = Header()
        else:
            end = self.read_item(stop - 1)[1]
            self.header = Header(
                header.begin_timestamp,
                end_timestamp,
                header.begin_physical_offset,
                end,
                used_slot_count,
                stop,
            )
        self.is_header_dirty = True
        self._count_no_more_than(stop)
        self.clear_items(stop)

    def _count_no_more_than(self, stop: int) -> None:
        """Make the file's own header count no item that is about to be zeroed.

        The header is flushed before an item is zeroed: a reader in another process, or an opening
        after a second crash, would take zeroed items that are counted for damage.
        """
        if self.read_header().next_item <= stop:
            return
        self.pool.write(self.path, self.header.encode(), 0)
        self.pool.flush(self.path)
        # Slots before the items, too: from here on header and items agree, so that an opening after
        # a proper close would not check whether slots lead beyond the items.
        for run in self.dirty_runs():
            position, part = self.take_slots(*run)
            self.pool.write(self.path, part, position)

    def clear_items(self, stop: int) -> None:
        """Zero the items from ``stop`` on, or cut them if the file grows."""
        with self.pool.descriptor(self.path) as descriptor:
            first, last = self.geometry.position_of_item(stop), self.geometry.file_size
            if self.grows:
                if self.disk.size(descriptor) > first:
                    self.disk.truncate(descriptor, first)
                return
            for start, end in self.disk.data_ranges(descriptor, first, last):
                for at in range(start, end, 1 << 20):
                    size = min(1 << 20, end - at)
                    data = self.disk.read(descriptor, size, at)
                    if data != bytes(len(data)):
                        self.disk.write(descriptor, bytes(size), at)

    # ------------------------------------------------------------------ writing back

    def take_header(self) -> bytes | None:
        """Return the header and mark it as written; None if the file has it already."""
        if not self.is_header_dirty:
            return None
        self.is_header_dirty = False
        return self.header.encode()

    def dirty_runs(self) -> list[tuple[int, int]]:
        """Return slots ``[start, stop)`` that are not in the file yet, a few pages in each run."""
        if self.slots is None or self._dirty is None:
            return []
        pages = np.flatnonzero(self._dirty)
        if len(pages) == 0:
            return []
        runs = np.split(pages, np.flatnonzero(np.diff(pages) > _GAP) + 1)
        return [
            (page << _PAGE_SHIFT, min(page + _RUN, stop) << _PAGE_SHIFT)
            for start, stop in ((int(run[0]), int(run[-1]) + 1) for run in runs)
            for page in range(start, stop, _RUN)
        ]

    def take_slots(self, start: int, stop: int) -> tuple[int, memoryview]:
        """Return position and bytes of a run of `dirty_runs`, and mark it as clean."""
        assert self.slots is not None
        assert self._dirty is not None
        self._dirty[start >> _PAGE_SHIFT : stop >> _PAGE_SHIFT] = False
        data = self.slots[start:stop].astype(SLOT_DTYPE)
        return HEADER_SIZE + start * SLOT_SIZE, data.view(np.uint8).data

    def put_back(self, runs: list[tuple[int, int]]) -> None:
        """Mark runs of `dirty_runs`, and the header, as not written.

        Nothing else, as empty slots that are written take space.
        """
        self.is_header_dirty = True
        if self._dirty is not None:
            for start, stop in runs:
                self._dirty[start >> _PAGE_SHIFT : stop >> _PAGE_SHIFT] = True
