"""Compares the log with the sums of its records; reads, and changes nothing.

What differs is looked at twice, as another process may have cut and rewritten the log meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.files import file_name
from reput_integrity.checksumorigins import UNKNOWN, Origins
from reput_integrity.coverage import first_uncovered, gaps_of, outside_of, parts_outside
from reput_integrity.findings import SumFinding
from reput_integrity.layout import DIRECTORY, DISPUTES_NAME, SUMS_NAME, UNIT_DTYPE
from reput_integrity.recordchecksums import Units, crcs_of

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from reput.errors import CorruptFileError
    from reput.log import LogView, Loss
    from reput_integrity.checksumfiles import ChecksumFiles

_WINDOW = 4 << 20
_LOG = "commitlog"

Read = Callable[[int, int], bytes]
"""Returns bytes of the log: physical offset, size."""


def check(
    path: str | os.PathLike[str],
    start: int | None = None,
    end: int | None = None,
    *,
    follow_links: bool = False,
) -> Iterator[SumFinding]:
    """Yield where the log of the store at ``path`` differs from the sums of its records.

    Opens the store for reading; another process may write it. A store without sums has no findings
    but that its records have none.

    Args:
        path: the store's directory.
        start: physical offset of a record or of a file's beginning; the log's when left out.
        end: physical offset after a record; the end of what has sums when left out.
        follow_links: as for `reput.open`.
    """
    import reput

    with reput.open(path, "r", plugins=[DIRECTORY], follow_links=follow_links) as store:
        yield from store.plugin(DIRECTORY).check(start, end)


@attrs.define(eq=False)
class Checker:
    """Compares parts of one log with its sums; any thread may use it, and a child of a fork."""

    log: LogView
    files: ChecksumFiles
    origins: Callable[[], Origins | None]
    """Reads the origins of the sums; None if nothing is known of them."""
    reach: Callable[[], int]
    """Physical offset below which records must have sums."""
    read: Read | None = None
    """Reads the log instead of ``log.read``."""

    def findings(self, start: int | None = None, end: int | None = None) -> Iterator[SumFinding]:
        """Yield the differences in ``[start, end)``, in the order of the log.

        Args:
            start: physical offset of a record or of a file's beginning; the log's when left out.
            end: physical offset after a record; `reach` when left out.
        """
        low = self.log.min_physical_offset
        first = low if start is None else max(start, low)
        reach = self.reach()  # first: a writer moves the log's end before it
        # Records after `reach` may have sums; then they are compared, too.
        stop = self.log.max_physical_offset
        if stop < (reach if end is None else min(end, reach)):
            yield from self._of_lost_end(stop, reach if end is None else min(end, reach))
        stop = stop if end is None else min(end, stop)
        size = self.files.file_size
        self.files.load()
        if self.files.trouble is not None:
            yield _unsound_disputes(self.files.trouble)
        for base in range(first // size * size, stop, size):
            yield from self._of_file(base, max(base, first), min(base + size, stop))

    def _of_lost_end(self, log_end: int, reach: int) -> Iterator[SumFinding]:
        """Yield a finding for records with sums at which, or before which, the log ends now."""
        size, count, first, last = self.files.file_size, 0, log_end, log_end
        for base in range(log_end // size * size, reach, size):
            for units in self.files.chunks(base):
                gone = units[(units.start >= log_end) & (units.end <= reach)]
                if len(gone):
                    first = first if count else int(gone.start[0])
                    count, last = count + len(gone), int(gone.end[-1])
        if count:
            there = f"the log ends at {log_end}, at a record that is damaged or missing"
            yield self._finding("missing", first, last - first, f"{count} records", there)

    # ------------------------------------------------------------------ one file of the log

    def _of_file(self, base: int, start: int, end: int) -> Iterator[SumFinding]:
        losses = self.log.losses(start, end)
        position, at = start, 0
        for units in self.files.chunks(base):
            wanted = units[(units.start >= start) & (units.end <= end)]
            yield from self._of_unsound(units, at, position, end)
            at += (len(units) + len(units.unsound)) * UNIT_DTYPE.itemsize
            if not len(wanted):
                if len(units) and int(units.start[0]) >= end:
                    break
                continue
            last = int(wanted.end[-1])
            yield from self._of_gaps(wanted, losses, position, last)
            yield from self._of_records(outside_of(losses, wanted))
            position = last
        nothing = Units.none(base)
        yield from self._of_gaps(nothing, losses, position, min(end, self.reach()))

    def _of_unsound(self, units: Units, at: int, start: int, end: int) -> Iterator[SumFinding]:
        """Yield a finding for units that are damaged, if records of the range may be theirs."""
        unsound = units.unsound
        if len(units):
            if int(units.start[0]) >= end or int(units.end[-1]) <= start:
                return
            if int(units.end[-1]) >= self.reach():  # what follows a writer is appending
                unsound = unsound[unsound < at + len(units) * UNIT_DTYPE.itemsize]
        elif start >= min(end, self.reach()):
            return
        if not len(unsound):
            return
        path = f"{DIRECTORY}/{SUMS_NAME}/{file_name(units.base)}"
        count = len(unsound)
        yield SumFinding(
            kind="sums",
            physical_offset=start,
            size=end - start,
            path=path,
            position=int(unsound[0]),
            expected="a unit that matches its check",
            found="other bytes" if count == 1 else f"other bytes, in {count} units",
        )

    def _of_gaps(
        self, units: Units, losses: tuple[Loss, ...], start: int, end: int
    ) -> Iterator[SumFinding]:
        for gap in gaps_of(units, start, end):
            for part in parts_outside(losses, *gap):
                for first, stop in first_uncovered(self.log, *part):
                    if stop > self.reach():
                        return  # the log was cut meanwhile
                    yield self._finding("uncovered", first, stop - first, "a sum", "none")

    # ------------------------------------------------------------------ records

    def _of_records(self, units: Units) -> Iterator[SumFinding]:
        starts, ends = units.start, units.end
        row = 0
        while row < len(units):
            # As many records as one read takes, those after a gap left for the next one.
            stop = int(np.searchsorted(ends, starts[row] + _WINDOW, "right"))
            stop = max(stop, row + 1)
            part = units[row:stop]
            for bad in self._differing(part):
                found = self._second_look(part, bad)
                if found is not None:
                    yield found
            row = stop

    def _differing(self, units: Units) -> npt.NDArray[np.int64]:
        """Return the rows whose record differs from the record that was summed."""
        first, stop = int(units.start[0]), int(units.end[-1])
        data = (self.read or self.log.read)(first, stop - first)
        inside = units.end - first <= len(data)
        starts = units.start[inside] - first
        matches = np.zeros(len(units), bool)
        matches[inside] = crcs_of(data, starts, units.size[inside]) == units.crc[inside]
        return np.flatnonzero(~matches)

    def _second_look(self, units: Units, row: int) -> SumFinding | None:
        start, size, crc = int(units.start[row]), int(units.size[row]), int(units.crc[row])
        again = self.files.read(units.base)
        at = int(np.searchsorted(again.start, start))
        if at >= len(again) or (int(again.start[at]), int(again.size[at])) != (start, size):
            return None  # the sum is gone: the writer has cut the log
        if start + size > self.log.max_physical_offset:
            return None
        crc = int(again.crc[at])
        data = self.log.read(start, size)
        if len(data) < size:
            return self._finding("missing", start, size, f"{size} bytes", f"{len(data)} bytes")
        found = int(crcs_of(data, np.zeros(1, np.int64), np.array([size]))[0])
        if found == crc:
            return None
        return self._finding("record", start, size, f"CRC-32 {crc:08x}", f"{found:08x}")

    def _finding(self, kind: str, start: int, size: int, expected: str, found: str) -> SumFinding:
        base = start // self.files.file_size * self.files.file_size
        origins = None if kind == "uncovered" else self.origins()
        origin, made = (UNKNOWN, None) if origins is None else origins.of(start)
        dispute = self.files.disputes.of(start)
        if dispute is not None and kind != "uncovered":
            origin, made = dispute.origin
        return SumFinding(
            kind=kind,
            physical_offset=start,
            size=size,
            path=f"{_LOG}/{file_name(base)}",
            position=start - base,
            expected=expected,
            found=found,
            origin=origin,
            made=made,
            **self._message_at(start, size),
        )

    def _message_at(self, start: int, size: int) -> dict[str, Any]:
        with _unreadable():
            message = self.log.read_message(start)
            if message is not None:
                keys = message.properties.get("UNIQ_KEY") or message.properties.get("KEYS")
                return {
                    "topic": message.topic,
                    "queue_id": message.queue_id,
                    "queue_offset": message.queue_offset,
                    "key": keys,
                }
        return {}


def _unsound_disputes(trouble: CorruptFileError) -> SumFinding:
    return SumFinding(
        kind="sums",
        physical_offset=0,
        size=0,
        path=f"{DIRECTORY}/{DISPUTES_NAME}",
        position=trouble.position,
        expected="disputes that match their checksum",
        found=trouble.reason,
    )


@contextmanager
def _unreadable() -> Iterator[None]:
    """Take a record that cannot be read for one of which nothing is known."""
    from reput.errors import ReputError

    try:
        yield
    except (ReputError, ValueError, OSError):
        pass
