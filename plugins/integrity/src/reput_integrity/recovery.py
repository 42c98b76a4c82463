"""Brings the files of sums in line with the log when a store opens for writing.

A file that is damaged or missing is repaired by itself: valid units stay, and prove what they
always did; only sums of records that have none are made from the log, and noted as made later. To
derive everything after the damage again would make sums of what may have rotted meanwhile.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_integrity.coverage import first_uncovered, gaps_of
from reput_integrity.layout import UNIT_DTYPE
from reput_integrity.recordchecksums import Units, units_of

if TYPE_CHECKING:
    from reput.log import LogView
    from reput_integrity.checksumfiles import ChecksumFiles
    from reput_integrity.checksumorigins import Origins

logger = logging.getLogger(__name__)

_REPAIRED_MAX = 8  # files; each takes as long as reading a file of the log
_ONE = UNIT_DTYPE.itemsize


@attrs.define(eq=False, repr=False)
class Recovery:
    """One recovery; ``origins`` is changed along."""

    files: ChecksumFiles
    origins: Origins
    log: LogView
    check_size: int
    """Bytes of the newest units that are looked at; of older files only the size is."""
    now: int
    """Ms since the epoch."""

    def run(self, progress: int) -> int:
        """Cut the sums to ``progress`` and repair them; return from where records are needed."""
        files, low = self.files, self.log.min_physical_offset
        files.cut(progress)
        files.trim(low)
        if progress <= low:
            return progress
        if not files.bases:
            return low  # the log has records, perhaps, but no sums at all
        unchecked = self.check_size
        first = low // files.file_size * files.file_size
        needed = range(first, progress, files.file_size)
        # The newest first, as these are looked at; of many bad files the oldest decides.
        bad: list[int] = []
        for base in reversed(needed):
            size = files.size(base)
            end = min(base + files.file_size, progress)
            if unchecked > 0 or size == 0 or size % _ONE or base == needed[-1]:
                unchecked -= size
                if not self._is_sound(base, max(base, low), end, is_last=base == needed[-1]):
                    bad.append(base)
        bad.sort()
        if len(bad) > _REPAIRED_MAX:
            # Too long for an opening: the store goes on meanwhile, and sends the records again.
            progress = max(bad[_REPAIRED_MAX], low)
            logger.warning("making sums again from physical_offset=%d files=%d", progress, len(bad))
            files.cut(progress)
        for base in bad[:_REPAIRED_MAX]:
            self._repair(base, max(base, low), min(base + files.file_size, progress))
        return progress

    def _is_sound(self, base: int, start: int, end: int, *, is_last: bool) -> bool:
        """Whether every record in ``[start, end)`` has a sum; a valid last file is cut there."""
        if base not in self.files.bases:
            return not self._uncovered(Units.none(base), start, end)
        units = self.files.read(base)
        inside = units[units.end <= end]
        # The first units may be of records that the log has lost with its head.
        is_run = bool(np.all(units.unsound >= len(inside) * _ONE))
        if not is_last:  # the last one may have sums of what the log has lost since
            is_run &= self.files.size(base) == len(inside) * _ONE
        if not is_run or self._uncovered(inside[inside.start >= start], start, end):
            return False
        if is_last:
            self.files.go_on(base, len(inside))
        return True

    def _uncovered(self, units: Units, start: int, end: int) -> list[tuple[int, int]]:
        gaps = gaps_of(units, start, end)
        return [part for gap in gaps for part in first_uncovered(self.log, *gap)]

    def _repair(self, base: int, start: int, end: int) -> None:
        units = self.files.read(base)
        kept = units[(units.end <= end) & (units.start >= start)]
        parts = [kept]
        for first, stop in gaps_of(kept, start, end):
            for batch in self.log.scan(first, stop):
                made = [each for each in units_of(batch, self.files.file_size) if each.base == base]
                parts += made
                for each in made:
                    self.origins.add(int(each.start[0]), int(each.end[-1]), self.now)
        joined = Units.joined(base, parts)
        order = np.argsort(joined.position, kind="stable")
        whole = Units(
            base, joined.position[order], joined.size[order], joined.crc[order], np.empty(0, int)
        )
        logger.warning(
            "repaired sums file=%s kept=%d made=%d",
            self.files.path(base),
            len(kept),
            len(whole) - len(kept),
        )
        self.files.rewrite(whole)
