"""The extend files of one queue: data that does not fit into its units, above all bit maps.

Extend units are written before the queue's units that lead to them. Their end is recorded only by
the queue: it is after the extend unit to which the queue's last address leads. Source: RocketMQ
``ConsumeQueueExt``. Different on purpose: a message that comes again gets no second extend unit;
messages of light queues have none, as in RocketMQ; a cut zeroes the units that it removes; and an
opening reads at most the last extend unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput_consumequeue.extend.extendsource import ExtendSource
from reput_consumequeue.extend.extendunits import ExtendUnits, read_units
from reput_consumequeue.extend.layout import (
    EXTEND_DTYPE,
    EXTEND_HEAD_SIZE,
    EXTEND_SIZE_MAX,
    FILE_END,
    FILE_END_ROOM,
    addresses_of,
)
from reput_consumequeue.layout import UNIT_DTYPE
from reput_consumequeue.queuefiles import unit_file_size
from reput_consumequeue.recordfiles import RecordFiles

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_consumequeue.recordfiles import FileSet

__all__ = ["ExtendFiles", "ExtendSource", "ExtendUnits"]


class ExtendFiles(RecordFiles):
    """Extend files of one queue. Positions are bytes, as the sizes of extend units vary.

    Attributes:
        end: position after the last extend unit.
        source: data of the messages that are being dispatched; None to write no extend units.
    """

    def __init__(self, directory: str, shared: FileSet, file_size: int) -> None:
        super().__init__(directory, shared, record_size=1, per_file=file_size, depth=2)
        self.end = 0
        self.source: ExtendSource | None = None
        self._next_end = 0
        self._empty: tuple[int, ...] = ()

    # ------------------------------------------------------------------ opening

    def load(self) -> None:
        """Read the directory; ignore names that are not a multiple of the file size.

        Raises:
            CorruptFileError: a file of another size.
        """
        found: list[int] = []
        empty: list[int] = []
        for entry in self.shared.disk.list(self.directory):
            size = unit_file_size(entry)
            if size is None:
                continue
            base = int(entry.name)
            if size != self.file_size and size != 0:
                raise CorruptFileError(
                    self.path(base),
                    size,
                    f"the file has {size} bytes where {self.file_size} are expected; remove "
                    "consumequeue and consumequeue_ext, and both are rebuilt from the log",
                )
            if not size:
                empty.append(base)  # a power cut took its contents
            elif base % self.file_size == 0:
                found.append(base)
        self.bases = tuple(sorted(found))
        self._empty = tuple(empty)

    def first_lost(self, first: int, last: int) -> int | None:
        """Return the position of the first missing extend unit; None where none is missing.

        Args:
            first: position to which the queue's first address leads.
            last: position to which the queue's last address leads.
        """
        known = set(self.bases)
        for base in range(first - first % self.file_size, last + 1, self.file_size):
            if base not in known:
                return max(base, first)
        if not self.read(addresses_of(np.array([last], np.int64))).is_known[0]:
            return max(last - last % self.file_size, first)
        return None

    def cut_behind(self, last: int | None) -> None:
        """Remove everything after the extend unit at ``last``; all extend units if it is None."""
        for base in self._empty:
            self.remove(base)
        self._empty = ()
        if last is None:
            self.clear()
            return
        head = self._head(last)
        self.end = last + int(head["size"])
        for base in reversed(self.bases):
            if base < self.end:
                break
            self.remove(base)
        self.clear_tail(self.end)

    def _head(self, position: int) -> npt.NDArray[np.void]:
        base = position - position % self.file_size
        data = self.read_bytes(base, position - base, EXTEND_HEAD_SIZE)
        return np.frombuffer(data.ljust(EXTEND_HEAD_SIZE, b"\0"), EXTEND_DTYPE, 1)[0]  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ writing

    def addressed(self, data: memoryview) -> memoryview:
        """Write extend units for units of the queue, and return these units with addresses.

        Later calls write from the same position until `keep` confirms that these units are there.
        """
        self._next_end = self.end
        source = self.source
        if source is None:
            return data
        units = np.frombuffer(data, UNIT_DTYPE).copy()
        offsets = units["physical_offset"].astype(np.int64)
        # Hole units repeat the unit after them, including its address.
        is_first = np.ones(len(units), np.bool_)
        is_first[1:] = offsets[1:] != offsets[:-1]
        rows = np.searchsorted(source.physical_offsets, offsets[is_first])
        sizes = source.unit_sizes(rows)
        fits = sizes <= min(EXTEND_SIZE_MAX, self.file_size - FILE_END_ROOM)
        tags_codes = units["tags_code"][is_first].astype(np.int64)
        positions = self._append(source, rows[fits], sizes[fits], tags_codes[fits])
        tags_codes[fits] = addresses_of(positions)
        units["tags_code"] = tags_codes[np.cumsum(is_first) - 1]
        return units.view(np.uint8).data

    def keep(self) -> None:
        """Confirm that the units of the queue which lead to the new extend units are written."""
        self.end = self._next_end

    def _append(
        self,
        source: ExtendSource,
        rows: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        tags_codes: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Write extend units, and return the ``(n,)`` positions at which they begin."""
        positions = np.zeros(len(rows), np.int64)
        ends = np.cumsum(sizes)
        first, at = 0, self.end
        while first < len(rows):
            base = at - at % self.file_size
            done = int(ends[first - 1]) if first else 0
            room = base + self.file_size - at - FILE_END_ROOM
            stop = int(np.searchsorted(ends, done + room, "right"))
            if base not in self.bases:
                self.make(base)
            if stop > first:
                positions[first:stop] = at + ends[first:stop] - sizes[first:stop] - done
                part = slice(first, stop)
                data = source.encoded(rows[part], sizes[part], tags_codes[part])
                self.write_bytes(base, at - base, data)
                at += len(data)
            if stop < len(rows):
                self.write_bytes(base, at - base, FILE_END)
                at = base + self.file_size
            first = stop
        self._next_end = at
        return positions

    # ------------------------------------------------------------------ removing

    def clear(self) -> None:
        """See `RecordFiles.clear`."""
        super().clear()
        self.end = 0

    # ------------------------------------------------------------------ reading

    def read(self, tags_codes: npt.NDArray[np.int64]) -> ExtendUnits:
        """Return what the ``(n,)`` tags codes of the queue's units stand for; see `read_units`."""
        return read_units(tags_codes, self.file_size, self.read_bytes)
