"""`DerivedUnits`: the units of one derived queue, where a read expects the files of a queue."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

from reput.files import new_lock
from reput_consumequeue.layout import UNIT, UNIT_SIZE
from reput_consumequeue.queuefiles import QueueFiles

if TYPE_CHECKING:
    from reput_consumequeue.derived.unitspace import UnitSpace
    from reput_consumequeue.recordfiles import FileSet

_BLOCK_UNITS_MIN: Final = 16
_BLOCK_UNITS_MAX: Final = 1_024


class DerivedUnits(QueueFiles):
    """Units in blocks of a `UnitSpace`. One thread writes, any thread may read.

    Units that are missing between two blocks read as hole units: they repeat the first unit of the
    later block. `bases` are the bases that files of the usual size would have.
    """

    def __init__(self, shared: FileSet, space: UnitSpace) -> None:
        super().__init__("", shared)
        self._space = space
        self._lock = new_lock()
        # Of each block: its first unit; its address, the units in it, and the units that fit.
        self._firsts: list[int] = []
        self._blocks: list[tuple[int, int, int]] = []
        self._unused: list[tuple[int, int]] = []

    def read_data(self, unit: int, count: int) -> bytes:
        """See `QueueFiles.read_data`."""
        base = self.base_of(unit)
        if base is None or count <= 0:
            return b""
        stop = min(unit + count, base + self.per_file)
        parts = []
        with self._lock:
            at = bisect.bisect_right(self._firsts, unit) - 1
            while 0 <= at < len(self._blocks) and unit < stop:
                first, (address, known, _) = self._firsts[at], self._blocks[at]
                if unit < first:
                    missing = min(first, stop) - unit
                    parts.append(self._space.read(address, UNIT_SIZE) * missing)
                    unit += missing
                wanted = min(first + known, stop) - unit
                if wanted > 0:
                    begin = address + (unit - first) * UNIT_SIZE
                    parts.append(self._space.read(begin, wanted * UNIT_SIZE))
                    unit += wanted
                at += 1
        return b"".join(parts)

    def read_place(self, unit: int) -> tuple[int, int] | None:
        """See `QueueFiles.read_place`."""
        data = self.read_data(unit, 1)
        if not data:
            return None
        physical_offset, size, _ = UNIT.unpack(data)
        return physical_offset, size

    def write(self, unit: int, data: memoryview, *, begins: bool = False) -> None:
        """Write units from ``unit`` on, in place of the units there and of all later ones.

        Args:
            unit: the first one.
            data: the units.
            begins: whether they are in place of all units.

        Raises:
            OSError: see `UnitSpace.write`.
        """
        with self._lock:
            self._cut(-1 if begins else unit)
            stop, room = unit + len(data) // UNIT_SIZE, _BLOCK_UNITS_MIN
            if self._firsts and self._firsts[-1] + self._blocks[-1][1] == unit:
                address, known, room = self._blocks[-1]
                part = data[: (room - known) * UNIT_SIZE]
                self._space.write(address + known * UNIT_SIZE, part)
                self._blocks[-1] = address, known + len(part) // UNIT_SIZE, room
                data, room = data[len(part) :], min(2 * room, _BLOCK_UNITS_MAX)
            while len(data):
                while room < min(len(data) // UNIT_SIZE, _BLOCK_UNITS_MAX):
                    room *= 2
                part = data[: room * UNIT_SIZE]
                address = self._space.take(room * UNIT_SIZE)
                self._space.write(address, part)
                self._firsts.append(stop - len(data) // UNIT_SIZE)
                self._blocks.append((address, len(part) // UNIT_SIZE, room))
                data = data[len(part) :]
            if begins or not self.bases or stop > self.bases[-1] + self.per_file:
                base = self._firsts[0] - self._firsts[0] % self.per_file
                self.bases = tuple(range(base, stop, self.per_file))

    def _cut(self, unit: int) -> None:
        """Forget the units from ``unit`` on."""
        while self._firsts and self._firsts[-1] >= unit:
            address, _, room = self._blocks.pop()
            self._firsts.pop()
            self._unused.append((address, room * UNIT_SIZE))
        if self._firsts and self._firsts[-1] + self._blocks[-1][1] > unit:
            address, _, room = self._blocks[-1]
            self._blocks[-1] = address, unit - self._firsts[-1], room

    def release(self, min_unit: int) -> None:
        """Give back blocks of units below ``min_unit``: with the next call, as reads may use them.

        The newest block stays, so that the queue's end is known.
        """
        with self._lock:
            for address, size in self._unused:
                self._space.give_back(address, size)
            self._unused.clear()
            at = min(bisect.bisect_right(self._firsts, min_unit), len(self._firsts)) - 1
            if at > 0:
                self._unused += [(each[0], each[2] * UNIT_SIZE) for each in self._blocks[:at]]
                del self._firsts[:at], self._blocks[:at]
