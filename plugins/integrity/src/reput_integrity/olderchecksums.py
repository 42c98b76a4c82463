"""What sums that are there say of sums that a rebuild makes: which are new, which are denied."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput_integrity.checksumfiles import ChecksumFiles
from reput_integrity.checksumorigins import Origins
from reput_integrity.coverage import outside_of
from reput_integrity.disputes import Dispute, Disputes
from reput_integrity.layout import DIRECTORY, ORIGINS_NAME, SUMS_NAME
from reput_integrity.recordchecksums import Units

if TYPE_CHECKING:
    from reput.files import Disk
    from reput.log import LogView

_RUNS_MAX = 1_000


@attrs.frozen
class Judged:
    """What older sums say of newer ones of one file; plain values."""

    new: tuple[tuple[int, int], ...]
    """Parts of the log, as physical offsets, whose records had no sound sum before."""
    disputes: tuple[Dispute, ...]


@attrs.define(eq=False, repr=False)
class OlderChecksums:
    """The older sums of a store whose sums are being rebuilt; they go on to count."""

    files: ChecksumFiles
    log: LogView
    origins: Origins | None
    """None if nothing is known of them, so that all sums count as new."""
    _last: Units | None = None

    @classmethod
    def of(cls, root: str, log: LogView, disk: Disk) -> Self:
        """Return the sums of the store in ``root``, which may have none."""
        files = ChecksumFiles(os.path.join(root, DIRECTORY, SUMS_NAME), disk, log.file_size)
        files.load()
        origins = None
        if files.bases:
            try:
                origins = Origins.load(os.path.join(root, DIRECTORY, ORIGINS_NAME), disk)
            except CorruptFileError:
                pass  # not known, then
        return cls(files, log, origins)

    def judge(self, newer: Units) -> Judged:
        """Return what is to be noted of newer sums of records of one file."""
        if not len(newer):
            return Judged((), ())
        older = self._read(newer.base)
        start, end = int(newer.start[0]), int(newer.end[-1])
        sound = outside_of(self.log.losses(start, end), older)
        known = self.files.disputes
        found = Disputes.between(sound, newer, self.origins)
        disputes = tuple(known.of(each.start) or each for each in found)
        if self.origins is None:
            return Judged(((start, end),), disputes)
        return Judged(tuple(_ranges_without(newer, older)), disputes)

    def _read(self, base: int) -> Units:
        if self._last is None or self._last.base != base:
            is_there = base in self.files.bases
            self._last = self.files.read(base) if is_there else Units.none(base)
        return self._last


def _ranges_without(newer: Units, older: Units) -> list[tuple[int, int]]:
    """Return the ranges of the log whose records have newer sums only."""
    rows = np.searchsorted(older.position, newer.position)
    has_older = rows < len(older)
    has_older[has_older] = (older.position[rows[has_older]] == newer.position[has_older]) & (
        older.size[rows[has_older]] == newer.size[has_older]
    )
    new = np.flatnonzero(~has_older)
    runs = np.split(new, np.flatnonzero(np.diff(new) > 1) + 1) if len(new) else []
    if len(runs) > _RUNS_MAX:
        runs = [new]  # what lies between them then counts as new, too
    return [(int(newer.start[run[0]]), int(newer.end[run[-1]])) for run in runs]
