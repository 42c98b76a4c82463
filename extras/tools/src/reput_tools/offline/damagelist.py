"""Lists the damage of a log, record by record, during a scan of the whole log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record import RECORD_SIZE_MAX, Corruption, CorruptionKind, Decoder
from reput.record.layout import RECORD_MIN_SIZE

if TYPE_CHECKING:
    from reput.log import Damage, LogReader
    from reput.record import DispatchBatch


def find_damages(log: LogReader, end_finding: Corruption | None = None) -> list[Damage]:
    """Read all of a log, verify every checksum, and return the damages in the log's order.

    Args:
        log: the log.
        end_finding: corruption that opening took for the log's end; no sound record follows it.
    """
    collector = DamageCollector(log)
    for batch in log.scan(check_crc=True):
        collector.add(batch)
    collector.add_end(end_finding)
    return collector.damages


@attrs.define(eq=False)
class DamageCollector:
    """Collects the damages that a scan with checksums meets; for one thread."""

    log: LogReader
    damages: list[Damage] = attrs.field(factory=list)
    """In the order of the log."""
    _decoder: Decoder = attrs.field(
        factory=lambda: Decoder(check_crc=True, check_record_crc=True), init=False
    )

    def add(self, batch: DispatchBatch) -> None:
        """Add the damage at which ``batch`` ends, if it ends at damage."""
        finding = batch.finding
        if finding is None:
            return
        start = finding.physical_offset
        known = next((each for each in self.log.damages if each.start_offset == start), None)
        later = (each.start_offset for each in self.log.damages if each.start_offset > start)
        stop = min(later, default=self.log.max_physical_offset)
        damage = known or self.log.damage_at(start, stop, finding)
        self.damages += self._parts(start, damage.end_offset, finding)

    def add_end(self, finding: Corruption | None) -> None:
        """Add damage that no sound record follows, up to the last byte that is not zero."""
        if finding is None:
            return
        start, files = finding.physical_offset, self.log.files
        base = files.base_of(start)
        if base is None:
            return
        used = files.last_used(start, base + files.file_size)
        self.damages += self._parts(start, max(used, start + 1), finding)

    # ------------------------------------------------------------------ record by record

    def _parts(self, start: int, end: int, finding: Corruption) -> Iterator[Damage]:
        """Yield a damage for each record whose borders are readable, and one for the rest.

        Damaged records that follow each other are one damaged range: the log continues after them.
        """
        position, current = start, finding
        while position < end:
            size = self._record_size(position, end)
            if not size:
                break
            yield self._damage(position, position + size, current)
            position += size
            current = self._finding_at(position, end) or current
        while position < end:  # damage across the end of a file is two damages
            base = self.log.files.base_of(position)
            stop = end if base is None else min(end, base + self.log.files.file_size)
            yield self._damage(position, max(stop, position + 1), current)
            position = max(stop, position + 1)
            detail = f"no sound record before {end}"
            current = Corruption(position, CorruptionKind.BAD_MAGIC, detail)

    def _record_size(self, position: int, end: int) -> int:
        """Return the size of a record at ``position`` whose lengths add up; 0 if none does."""
        size = self.log.size_at(position)
        if not RECORD_MIN_SIZE <= size <= min(RECORD_SIZE_MAX, end - position):
            return 0
        found = Decoder().decode(self._bytes(position, size), position).batch
        return size if len(found) == 1 else 0

    def _finding_at(self, position: int, end: int) -> Corruption | None:
        size = self.log.size_at(position)
        if not RECORD_MIN_SIZE <= size <= min(RECORD_SIZE_MAX, end - position):
            detail = f"no sound record before {end}"
            return Corruption(position, CorruptionKind.BAD_MAGIC, detail)
        self._decoder.requires_record_crc = self.log.must_have_crc(position)
        return self._decoder.decode(self._bytes(position, size), position).batch.finding

    def _bytes(self, position: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.frombuffer(self.log.files.read(position, size), np.uint8)

    def _damage(self, start: int, end: int, finding: Corruption) -> Damage:
        found = Corruption(start, finding.reason, finding.detail)
        return self.log.finder().damage(found, end)
