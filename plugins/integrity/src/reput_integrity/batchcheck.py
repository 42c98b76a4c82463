"""Compares batches of a scan with the sums of their records, so that the log is read only once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_integrity.coverage import outside_of
from reput_integrity.recordchecksums import Units, units_of

if TYPE_CHECKING:
    from reput.record import DispatchBatch
    from reput_integrity.findings import SumFinding
    from reput_integrity.logcheck import Checker


@attrs.define(eq=False)
class BatchChecker:
    """Compares the batches of one scan, which come in the order of the log."""

    checker: Checker
    _base: int = -1
    _chunks: Iterator[Units] = attrs.field(factory=lambda: iter(()))
    _units: Units = attrs.field(factory=lambda: Units.none(0))

    def findings(self, batch: DispatchBatch) -> list[SumFinding]:
        """Return the differences between the records of ``batch`` and their sums.

        Records that the scan could not read are not in a batch, and so are not compared.
        """
        found: list[SumFinding] = []
        for now in units_of(batch, self.checker.files.file_size):
            losses = self.checker.log.losses(int(now.start[0]), int(now.end[-1]))
            found += self._compare(outside_of(losses, now))
        return found

    def _compare(self, now: Units) -> Iterator[SumFinding]:
        if not len(now):
            return
        sums = self._sums_until(now.base, int(now.end[-1]))
        row_of = np.searchsorted(sums.position, now.position)
        is_there = row_of < len(sums)
        is_there[is_there] = sums.position[row_of[is_there]] == now.position[is_there]
        rows = np.flatnonzero(is_there)
        others = row_of[rows]
        same = (sums.crc[others] == now.crc[rows]) & (sums.size[others] == now.size[rows])
        for row in rows[~same].tolist():
            yield from self.checker.findings(int(now.start[row]), int(now.end[row]))
        # Records without a sum; whole runs of them, as a scan with gaps has many.
        missing = np.flatnonzero(~is_there)
        for run in np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1):
            if len(run):
                start, end = int(now.start[run[0]]), int(now.end[run[-1]])
                end = min(end, self.checker.reach())
                if start < end:
                    yield from self.checker.findings(start, end)

    def _sums_until(self, base: int, end: int) -> Units:
        """Return units up to physical offset ``end``, at least those not returned before."""
        if base != self._base:
            self._base, self._chunks = base, self.checker.files.chunks(base)
            self._units = Units.none(base)
        parts = [self._units]
        while not len(parts[-1]) or int(parts[-1].end[-1]) < end:
            following = next(self._chunks, None)
            if following is None:
                break
            parts.append(following)
        joined = Units.joined(base, parts)
        taken = int(np.searchsorted(joined.end, end, "right"))
        self._units = joined[taken:]
        return joined[:taken]
