"""One index file: its header, its slots, its items; appended to, cut, read.

The slots of the file that is written are kept in memory, as every key goes to another one of them;
those that changed are written when the file is flushed. Items are written at once.

Source: RocketMQ ``IndexFile#putKey``. Different on purpose: header and slots reach the file with
the next flush, and behind the items, so that whoever reads them finds what they point to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_index.files._chain import chain, seconds_of, slots_of, unchain
from reput_index.files._header import Geometry, Header
from reput_index.layout import HEADER_SIZE, ITEM, ITEM_DTYPE, ITEM_SIZE, SLOT_DTYPE, SLOT_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk, FilePool
    from reput_index._keys import Keys

__all__ = ["CHUNK", "IndexFile"]

_PAGE_SHIFT: Final = 10  # slots in a page, as a power of two: 4 KiB
_PAGE: Final = 1 << _PAGE_SHIFT
_GAP: Final = 4  # clean pages that are written again rather than made a write of their own
_RUN: Final = 256  # pages copied at once: for so long a dispatch waits for a flush
CHUNK: Final = 1 << 18
"""Items read at a time, where many are."""


@attrs.define(eq=False)
class IndexFile:
    """One file. Its owner holds a lock around what changes it."""

    path: str
    name: int
    geometry: Geometry
    disk: Disk
    pool: FilePool
    header: Header = attrs.field(factory=Header)
    slots: npt.NDArray[np.int32] | None = None
    """``(slot_count,)``, while the file is written; `load_slots` reads them."""
    is_header_dirty: bool = False
    _dirty: npt.NDArray[np.bool_] | None = None
    """Pages of slots that the file does not have yet."""

    @property
    def item_count(self) -> int:
        """Items that the file holds."""
        return self.header.next_item - 1

    @property
    def is_full(self) -> bool:
        """Whether no further item goes into the file."""
        return self.header.next_item >= self.geometry.item_count

    # ------------------------------------------------------------------ reading

    def read_header(self) -> Header:
        """The header that is in the file."""
        return Header.decode(self.pool.read(self.path, HEADER_SIZE, 0))

    def read_slot(self, slot: int) -> int:
        """Number of the newest item of a slot; 0 or nonsense where there is none."""
        slots = self.slots  # another thread may be putting them away
        if slots is not None:
            return int(slots[slot])
        data = self.pool.read(self.path, SLOT_SIZE, HEADER_SIZE + slot * SLOT_SIZE)
        return int.from_bytes(data, "big", signed=True)

    def read_items(self, first: int, count: int) -> npt.NDArray[np.void]:
        """``(count,)`` of `ITEM_DTYPE`, read-only; what the file has not counts as zero."""
        size = count * ITEM_SIZE
        data = self.pool.read(self.path, size, self.geometry.position_of_item(first))
        return np.frombuffer(data.ljust(size, b"\0"), ITEM_DTYPE)

    def read_item(self, number: int) -> tuple[int, int, int, int]:
        """Key hash, physical offset, seconds and previous item of one item."""
        data = self.pool.read(self.path, ITEM_SIZE, self.geometry.position_of_item(number))
        return ITEM.unpack(data.ljust(ITEM_SIZE, b"\0"))

    def chunks(self, stop: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Items 1 to ``stop`` in pieces, each with the number of its first."""
        for first in range(1, stop, CHUNK):
            yield first, self.read_items(first, min(CHUNK, stop - first))

    def load_slots(self) -> npt.NDArray[np.int32]:
        """Read the slots, to write the file on."""
        if self.slots is not None:
            return self.slots
        slots = np.zeros(self.geometry.slot_count, SLOT_DTYPE)
        buffer = slots.view(np.uint8).data
        if self.header.next_item > 1:
            with self.pool.descriptor(self.path) as descriptor:
                self.disk.read_into(descriptor, buffer, HEADER_SIZE)
        native = slots.astype(np.int32)
        native[(native < 0) | (native >= self.header.next_item)] = 0
        self.set_slots(native)
        assert self._dirty is not None
        self._dirty[:] = False
        return native

    def set_slots(self, slots: npt.NDArray[np.int32]) -> None:
        """Replace all slots; those of the file are not known to be the same."""
        self._dirty = np.ones(-(-self.geometry.slot_count // _PAGE), np.bool_)
        self.slots = slots

    # ------------------------------------------------------------------ appending

    def append(self, keys: Keys) -> int:
        """Add the first of ``keys``, as many as fit; their number."""
        header, geometry = self.header, self.geometry
        first = header.next_item
        count = min(len(keys.hashes), geometry.item_count - first)
        if count <= 0:
            return 0
        slots = self.load_slots()
        hashes, offsets = keys.hashes[:count], keys.physical_offsets[:count]
        timestamps = keys.timestamps[:count]
        slot = slots_of(hashes, geometry.slot_count)
        numbers = np.arange(first, first + count, dtype=np.int32)
        before, previous = chain(slots, slot, numbers)
        items = np.empty(count, ITEM_DTYPE)
        items["key_hash"] = hashes
        items["physical_offset"] = offsets
        items["seconds"] = seconds_of(timestamps, header)
        items["previous"] = previous
        try:
            self.pool.write(self.path, items.view(np.uint8).data, geometry.position_of_item(first))
        except BaseException:
            slots[slot] = before  # as if nothing had been asked
            raise
        assert self._dirty is not None
        if count > len(self._dirty):  # nearly all of them: to find out which takes longer
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
            header.used_slot_count + count - int(np.count_nonzero(previous)),
            first + count,
        )
        return count

    # ------------------------------------------------------------------ cutting

    def stop_below(self, physical_offset: int) -> int:
        """Number of the first item of a record at ``physical_offset`` or behind it."""
        return self.stop_below_among(physical_offset, self.item_count)

    def stop_below_among(self, physical_offset: int, count: int) -> int:
        """Like `stop_below`, of the first ``count`` items only, whatever the header says."""
        low, high = 1, count + 1  # items below low stay, item high goes
        while low < high:
            middle = (low + high) // 2
            if self.read_item(middle)[1] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def undo(self, stop: int, end_timestamp: int) -> None:
        """Take the items from ``stop`` on back, the newest first; the slots are as before them.

        Args:
            stop: number of the first item to go.
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
        """Let the header say that item ``stop`` is the next, and clear what stands there."""
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
        """Have the file's own header count no item that is about to be cleared.

        On disk before the first one is: whoever reads beside us, or finds the file as a second
        crash has left it, would take cleared items that are counted for damage.
        """
        if self.read_header().next_item <= stop:
            return
        self.pool.write(self.path, self.header.encode(), 0)
        self.pool.flush(self.path)
        # Slots in front of the items, too: header and items agree from here on, so that nobody who
        # opens the file after an orderly close would look whether slots lead beyond them.
        for run in self.dirty_runs():
            position, part = self.take_slots(*run)
            self.pool.write(self.path, part, position)

    def clear_items(self, stop: int) -> None:
        """Zero the items from ``stop`` on."""
        with self.pool.descriptor(self.path) as descriptor:
            first, last = self.geometry.position_of_item(stop), self.geometry.file_size
            for start, end in self.disk.data_ranges(descriptor, first, last):
                for at in range(start, end, 1 << 20):
                    size = min(1 << 20, end - at)
                    data = self.disk.read(descriptor, size, at)
                    if data.count(0) != len(data):
                        self.disk.write(descriptor, bytes(size), at)

    # ------------------------------------------------------------------ writing back

    def take_header(self) -> bytes | None:
        """The header, where the file does not have it yet."""
        if not self.is_header_dirty:
            return None
        self.is_header_dirty = False
        return self.header.encode()

    def dirty_runs(self) -> list[tuple[int, int]]:
        """Slots ``[start, stop)`` that the file does not have yet, a few pages in each run."""
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
        """Position and bytes of a run of `dirty_runs`, as it is now; clean from here on."""
        assert self.slots is not None
        assert self._dirty is not None
        self._dirty[start >> _PAGE_SHIFT : stop >> _PAGE_SHIFT] = False
        data = self.slots[start:stop].astype(SLOT_DTYPE)
        return HEADER_SIZE + start * SLOT_SIZE, data.view(np.uint8).data

    def note_dirty(self) -> None:
        """Note that the file may have nothing of what is in memory."""
        self.is_header_dirty = True
        if self._dirty is not None:
            self._dirty[:] = True
