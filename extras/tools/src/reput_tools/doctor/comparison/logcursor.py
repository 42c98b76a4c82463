"""One of two logs that are compared: reads it in batches from a place on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_tools.doctor.comparison.rows import NO_ROWS, PLACE, SIZE, RowMaker

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogReader
    from reput.record import DispatchBatch

_DAMAGES_MAX: Final = 100
_PIECE: Final = 1 << 18
_HEAD_SIZE: Final = 8  # bytes of a record, or a blank, that hold its size and its magic


@attrs.define(eq=False)
class LogCursor:
    """One log, and the rows of it that wait for their like in the other log."""

    log: LogReader
    end: int
    """Where reading ends."""
    maker: RowMaker
    position: int
    """Physical offset after what was read; -1 where damage follows."""
    batch: DispatchBatch | None = None
    """What was read last, as long as it is valid."""
    waiting: list[npt.NDArray[np.int64]] = attrs.field(factory=list)
    """``(n, 4)`` rows."""
    waiting_count: int = 0
    damaged: list[tuple[int, str]] = attrs.field(factory=list)
    damage_count: int = 0
    _scan: Iterator[DispatchBatch] | None = None
    _buffer: npt.NDArray[np.uint8] = attrs.field(factory=lambda: np.zeros(0, np.uint8))

    def next(self) -> DispatchBatch | None:
        """Read the next batch, which has rows; None at the end."""
        while True:
            if self._scan is None:
                self._scan = self.log.scan(self.position, self.end)
            self.batch = batch = next(self._scan, None)
            if batch is None:
                self.position = self.end
                return None
            self.position = batch.end_offset
            if batch.finding is not None:
                self.damage_count += 1
                if len(self.damaged) < _DAMAGES_MAX:
                    place = batch.finding.physical_offset, batch.finding.reason.name
                    self.damaged.append(place)
                self.position = -1
            if len(batch):
                return batch

    def skip_to(self, position: int) -> None:
        """Read on from ``position``, the end of a record, as what lies before is known."""
        self.position = position
        self._scan = self.batch = None

    def holds(self, start: int, data: npt.NDArray[np.uint8]) -> bool:
        """Whether the log holds ``data`` at the physical offset ``start``."""
        size = len(data)
        if start + size > self.end:
            return False
        if len(self._buffer) < size:
            self._buffer = np.empty(size, np.uint8)
        if self.log.files.read_into(start, self._buffer.data[:size]) != size:
            return False
        # In pieces that stay in the processor's cache; the first difference ends it.
        return all(
            np.array_equal(self._buffer[at : at + _PIECE], data[at : at + _PIECE])
            for at in range(0, size, _PIECE)
        )

    def follows_blank(self, other: LogCursor, end: int, start: int) -> bool:
        """Whether what stands at ``end``, after a record, leads to ``start`` in both logs."""
        if end == start:
            return True
        head = self.log.read(end, _HEAD_SIZE)
        return len(head) == _HEAD_SIZE and head == other.log.read(end, _HEAD_SIZE)

    # ------------------------------------------------------------------ rows that wait

    def wait(self, rows: npt.NDArray[np.int64]) -> None:
        """Add rows that wait."""
        if len(rows):
            self.waiting.append(rows)
            self.waiting_count += len(rows)

    def take_waiting(self) -> npt.NDArray[np.int64]:
        """Return all rows that wait, which then do not any more."""
        rows = np.concatenate(self.waiting) if self.waiting else NO_ROWS
        self.waiting, self.waiting_count = [], 0
        return rows

    # ------------------------------------------------------------------ bytes of rows

    def in_window(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which rows, ``(n,)``, lie in the last batch."""
        batch = self.batch
        if batch is None or not len(batch):
            return np.zeros(len(rows), np.bool_)
        first, last = batch.start_offset, batch.base_offset + int(batch.start[-1])
        found: npt.NDArray[np.bool_] = (rows[:, PLACE] >= first) & (rows[:, PLACE] <= last)
        return found

    def window(
        self, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the last batch's bytes, and where rows begin in them."""
        assert self.batch is not None
        return self.batch.window, rows[:, PLACE] - self.batch.base_offset

    def fetch(
        self, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Read the records of rows again; bytes that are gone by now read as zeros.

        Returns:
            The bytes, and where each row begins in them.
        """
        sizes = rows[:, SIZE]
        order = np.argsort(rows[:, PLACE], kind="stable")
        place, ends = rows[order, PLACE], rows[order, PLACE] + sizes[order]
        breaks = np.flatnonzero(place[1:] != ends[:-1]) + 1
        first = [0, *breaks.tolist()]
        last = [*(breaks - 1).tolist(), len(rows) - 1]
        pieces = [
            self.log.read(low, high - low).ljust(high - low, b"\0")
            for low, high in zip(place[first].tolist(), ends[last].tolist(), strict=True)
        ]
        starts = np.empty(len(rows), np.int64)
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        return np.frombuffer(b"".join(pieces), np.uint8), starts
