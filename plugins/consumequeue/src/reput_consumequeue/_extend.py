"""The extend files of one queue: what its units have no room for, a bit map of filters above all.

Units are written in front of the queue's units that lead to them, and nothing else says where they
end: behind the unit that the queue's last address leads to. Source: RocketMQ ``ConsumeQueueExt``.
Different on purpose: a message that comes again gets no second unit; messages of light queues have
none, as there; what is cut is cleared; and an opening looks at the last unit only, and not at all.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.gather import fixed_rows
from reput.layout import file_name
from reput_consumequeue._files import unit_file_size
from reput_consumequeue.extendlayout import (
    EXTEND_DTYPE,
    EXTEND_HEAD_SIZE,
    EXTEND_SIZE_MAX,
    FILE_END,
    FILE_END_ROOM,
    addresses_of,
    is_address,
    positions_of,
)
from reput_consumequeue.layout import UNIT_DTYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput_consumequeue._files import FileSet

logger = logging.getLogger(__name__)

__all__ = ["BIT_MAP", "BIT_MAP_SIZE", "ExtendFiles", "ExtendSource", "ExtendUnits"]

BIT_MAP = "bit_map"
"""Column of a batch: ``(n,)`` items of some bytes, a bit map each. Any plugin may compute it."""
BIT_MAP_SIZE = "bit_map_size"
"""Column of a batch: ``(n,)`` bytes of it that count, 0 for no bit map; all of them without it."""

_NEAR = 1 << 16  # units that are not further apart are read together
_STRETCH = 1 << 20  # bytes read at a time


@attrs.frozen(eq=False)
class ExtendSource:
    """What a batch says for the extend units of its messages."""

    physical_offsets: npt.NDArray[np.int64]
    """``(n,)``, ascending."""
    store_timestamps: npt.NDArray[np.int64]
    bit_maps: npt.NDArray[np.uint8]
    """``(n, w)``."""
    bit_map_sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes of each row that count."""

    @classmethod
    def of(cls, batch: DispatchBatch) -> ExtendSource:
        """The columns of a batch, bit maps where somebody computed them."""
        count = len(batch)
        try:
            items = np.ascontiguousarray(batch.column(BIT_MAP))
        except KeyError:
            maps, sizes = np.zeros((count, 0), np.uint8), np.zeros(count, np.int64)
        else:
            maps = items.view(np.uint8).reshape(count, -1)
            try:
                stated = batch.column(BIT_MAP_SIZE).astype(np.int64)
                sizes = np.clip(stated, 0, maps.shape[1])
            except KeyError:
                sizes = np.full(count, maps.shape[1], np.int64)
        return cls(batch.physical_offset, batch.store_timestamp, maps, sizes)


@attrs.frozen(eq=False)
class ExtendUnits:
    """What was read of ``n`` messages, in the order in which it was asked for."""

    tags_codes: npt.NDArray[np.int64]
    """``(n,)``; 0 where it is not known."""
    store_timestamps: npt.NDArray[np.int64]
    """``(n,)`` ms; -1 where the queue's unit has no extend unit."""
    bit_maps: list[bytes | None]
    is_known: npt.NDArray[np.bool_]
    """``(n,)``: False where a unit leads to an extend unit that is not there."""


class ExtendFiles:
    """Extend files of one queue. One thread appends; any may read.

    Attributes:
        bases: byte at which each file begins, ascending; replaced whole.
        end: byte behind the last unit.
        source: what the messages that are being dispatched say; None to write no units.
    """

    def __init__(self, directory: str, shared: FileSet, file_size: int) -> None:
        self.directory = directory
        self.file_size = file_size
        self.bases: tuple[int, ...] = ()
        self.end = 0
        self.source: ExtendSource | None = None
        self._shared = shared
        self._next_end = 0
        self._empty: tuple[int, ...] = ()

    def path(self, base: int) -> str:
        """Path of the file that begins at ``base``."""
        return f"{self.directory}/{file_name(base)}"

    # ------------------------------------------------------------------ opening

    def load(self) -> None:
        """Read the directory; files behind a gap, or of another size, are no files of the queue."""
        found: list[int] = []
        empty: list[int] = []
        for entry in self._shared.disk.list(self.directory):
            size = unit_file_size(entry)
            if size is None:
                continue
            base = int(entry.name)
            if size != self.file_size and size != 0:
                raise CorruptFileError(
                    self.path(base),
                    size,
                    f"the file has {size} bytes where {self.file_size} are expected; remove "
                    "consumequeue and consumequeue_ext to have both built again from the log",
                )
            if not size:
                empty.append(base)  # a power cut took what it held
            elif base % self.file_size == 0:
                found.append(base)
        self.bases = tuple(sorted(found))
        self._empty = tuple(empty)

    def first_lost(self, first: int, last: int) -> int | None:
        """Where the first unit stands that is not there any more; None where nothing is missing.

        Args:
            first: position to which the queue's first address leads.
            last: position to which its last one leads.
        """
        known = set(self.bases)
        for base in range(first - first % self.file_size, last + 1, self.file_size):
            if base not in known:
                return max(base, first)
        if not self.read(addresses_of(np.array([last], np.int64))).is_known[0]:
            return max(last - last % self.file_size, first)
        return None

    def cut_behind(self, last: int | None) -> None:
        """Forget what stands behind the unit at position ``last``; everything when it is None."""
        for base in self._empty:
            self._remove(base)
        self._empty = ()
        if last is None:
            self.clear()
            return
        head = self._head(last)
        self.end = last + int(head["size"])
        for base in reversed(self.bases):
            if base < self.end:
                break
            self._remove(base)
        base = self.end - self.end % self.file_size
        if base in self.bases:
            self._zero_from(base, self.end - base)

    def _head(self, position: int) -> npt.NDArray[np.void]:
        base = position - position % self.file_size
        data = self._read_bytes(base, position - base, EXTEND_HEAD_SIZE)
        return np.frombuffer(data.ljust(EXTEND_HEAD_SIZE, b"\0"), EXTEND_DTYPE, 1)[0]  # type: ignore[no-any-return]

    def _zero_from(self, base: int, position: int) -> None:
        disk, path = self._shared.disk, self.path(base)
        with self._shared.pool.descriptor(path) as descriptor:
            for first, stop in disk.data_ranges(descriptor, position, self.file_size):
                for at in range(first, stop, _NEAR):
                    data = disk.read(descriptor, min(_NEAR, stop - at), at)
                    if data.count(0) != len(data):
                        disk.write(descriptor, bytes(len(data)), at)
                        self._shared.written(path)

    # ------------------------------------------------------------------ writing

    def addressed(self, data: memoryview) -> memoryview:
        """Write extend units for units of the queue, and return those with their addresses.

        The extend files go on from the same place until `keep` says that the units are written.
        """
        self._next_end = self.end
        source = self.source
        if source is None:
            return data
        units = np.frombuffer(data, UNIT_DTYPE).copy()
        offsets = units["physical_offset"].astype(np.int64)
        # Hole units repeat the one behind them, the address included.
        is_first = np.ones(len(units), np.bool_)
        is_first[1:] = offsets[1:] != offsets[:-1]
        rows = np.searchsorted(source.physical_offsets, offsets[is_first])
        sizes = EXTEND_HEAD_SIZE + source.bit_map_sizes[rows]
        fits = sizes <= min(EXTEND_SIZE_MAX, self.file_size - FILE_END_ROOM)
        tags_codes = units["tags_code"][is_first].astype(np.int64)
        positions = self._append(source, rows[fits], sizes[fits], tags_codes[fits])
        tags_codes[fits] = addresses_of(positions)
        units["tags_code"] = tags_codes[np.cumsum(is_first) - 1]
        return units.view(np.uint8).data

    def keep(self) -> None:
        """Note that the units of the queue which lead to what was written are there."""
        self.end = self._next_end

    def _append(
        self,
        source: ExtendSource,
        rows: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        tags_codes: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Write units and return ``(n,)`` positions at which they begin."""
        positions = np.zeros(len(rows), np.int64)
        ends = np.cumsum(sizes)
        first, at = 0, self.end
        while first < len(rows):
            base = at - at % self.file_size
            done = int(ends[first - 1]) if first else 0
            room = base + self.file_size - at - FILE_END_ROOM
            stop = int(np.searchsorted(ends, done + room, "right"))
            if base not in self.bases:
                self._make(base)
            if stop > first:
                positions[first:stop] = at + ends[first:stop] - sizes[first:stop] - done
                part = slice(first, stop)
                data = _encoded(source, rows[part], sizes[part], tags_codes[part])
                self._write(base, at - base, data)
                at += len(data)
            if stop < len(rows):
                self._write(base, at - base, FILE_END)
                at = base + self.file_size
            first = stop
        self._next_end = at
        return positions

    def _write(self, base: int, position: int, data: bytes) -> None:
        path = self.path(base)
        self._shared.pool.write(path, memoryview(data), position)
        self._shared.written(path)

    def _make(self, base: int) -> None:
        self._shared.make_file(
            self.directory, self.path(base), self.file_size, is_first=not self.bases
        )
        with self._shared.lock:
            self.bases = tuple(sorted((*self.bases, base)))

    # ------------------------------------------------------------------ removing

    def clear(self) -> None:
        """Remove all files."""
        for base in reversed(self.bases):
            self._remove(base)
        self.end = 0

    def trim(self, first: int) -> None:
        """Remove whole files below position ``first``, never the last one."""
        while len(self.bases) > 1 and self.bases[0] + self.file_size <= first:
            self._remove(self.bases[0])

    def _remove(self, base: int) -> None:
        path = self.path(base)
        with self._shared.lock:
            self.bases = tuple(other for other in self.bases if other != base)
        self._shared.forget(path)
        self._shared.disk.remove(path)
        self._shared.made(self.directory, is_new=False)
        logger.info("removed file=%s", path)

    # ------------------------------------------------------------------ reading

    def read(self, tags_codes: npt.NDArray[np.int64]) -> ExtendUnits:
        """What stands behind ``(n,)`` tags codes of the queue's units; plain ones stay as they are.

        Source: RocketMQ ``ConsumeQueueExt#get``: an address that leads to no unit leaves the tags
        code unknown, and the filter passes.
        """
        found = ExtendUnits(
            tags_codes.copy(),
            np.full(len(tags_codes), -1, np.int64),
            [None] * len(tags_codes),
            np.ones(len(tags_codes), np.bool_),
        )
        rows = np.flatnonzero(is_address(tags_codes))
        if len(rows) == 0:
            return found
        positions = positions_of(tags_codes[rows])
        found.is_known[rows] = False
        found.tags_codes[rows] = 0
        base = positions - positions % self.file_size
        steps = np.diff(positions)
        is_break = (steps < 0) | (steps > _NEAR) | (np.diff(base) != 0)
        starts = [0, *(np.flatnonzero(is_break) + 1).tolist(), len(rows)]
        for first, stop in pairwise(starts):
            self._read_stretch(int(base[first]), positions[first:stop], rows[first:stop], found)
        return found

    def _read_stretch(
        self,
        base: int,
        positions: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        found: ExtendUnits,
    ) -> None:
        start, last = int(positions[0]), int(positions[-1])
        if last - start > _STRETCH:  # sparse: in two parts, and those again
            middle = len(rows) // 2
            self._read_stretch(base, positions[:middle], rows[:middle], found)
            self._read_stretch(base, positions[middle:], rows[middle:], found)
            return
        wanted = min(last + EXTEND_SIZE_MAX, base + self.file_size) - start
        data = self._read_bytes(base, start - base, wanted)
        if len(data) < EXTEND_HEAD_SIZE:
            return
        window = np.frombuffer(data, np.uint8)
        places = positions - start
        whole = np.flatnonzero(places + EXTEND_HEAD_SIZE <= len(data))
        places, rows = places[whole], rows[whole]
        heads = fixed_rows(window, places, EXTEND_DTYPE)
        sizes = heads["size"].astype(np.int64)
        good = (sizes >= EXTEND_HEAD_SIZE) & (places + sizes <= len(data))
        rows, places, heads, sizes = rows[good], places[good], heads[good], sizes[good]
        found.is_known[rows] = True
        found.tags_codes[rows] = heads["tags_code"]
        found.store_timestamps[rows] = heads["store_timestamp"]
        maps = np.clip(heads["bit_map_size"].astype(np.int64), 0, sizes - EXTEND_HEAD_SIZE)
        for row, place, size in zip(rows.tolist(), places.tolist(), maps.tolist(), strict=True):
            if size:
                at = place + EXTEND_HEAD_SIZE
                found.bit_maps[row] = data[at : at + size]

    def _read_bytes(self, base: int, position: int, size: int) -> bytes:
        shared = self._shared
        try:
            if shared.writable:
                return shared.pool.read(self.path(base), size, position)
            descriptor = shared.disk.open(self.path(base))
        except FileNotFoundError:
            return b""
        try:
            return shared.disk.read(descriptor, size, position)
        finally:
            shared.disk.close(descriptor)


def _encoded(
    source: ExtendSource,
    rows: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    tags_codes: npt.NDArray[np.int64],
) -> bytes:
    """Units end to end."""
    heads = np.zeros(len(rows), EXTEND_DTYPE)
    heads["size"] = sizes
    heads["tags_code"] = tags_codes
    heads["store_timestamp"] = source.store_timestamps[rows]
    heads["bit_map_size"] = sizes - EXTEND_HEAD_SIZE
    starts = np.cumsum(sizes) - sizes
    data = np.zeros(int(sizes.sum()), np.uint8)
    head_bytes = heads.view(np.uint8).reshape(len(rows), EXTEND_HEAD_SIZE)
    data[starts[:, None] + np.arange(EXTEND_HEAD_SIZE)] = head_bytes
    for size in np.unique(sizes).tolist():
        count = size - EXTEND_HEAD_SIZE
        if count:
            alike = np.flatnonzero(sizes == size)
            places = starts[alike][:, None] + EXTEND_HEAD_SIZE + np.arange(count)
            data[places] = source.bit_maps[rows[alike], :count]
    return data.tobytes()
