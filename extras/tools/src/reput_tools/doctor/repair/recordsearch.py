"""Reads a whole log, however damaged, and says which bytes hold no valid record.

The rules are those of recovery at opening (`docs/crash-safety.md`), applied to all of the log and
not only to its last part. Different on purpose: files may be missing in the middle; a closed log
has no unfinished put, so a size of zero before a record is damage; and where recovery would take
records after damage for remainders of a log that was cut, they count if a plugin's files lead to
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.log import Damage, LogWalk, NextRecord
from reput.record import Corruption, CorruptionKind
from reput.record.layout import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC
from reput_tools.doctor.repair.fieldrepair import FieldRepair, repair_record, repaired_batch

if TYPE_CHECKING:
    from reput.log import LogReader
    from reput.record import DispatchBatch

_UNFINISHED: Final = ((0, MAGIC_V1), (0, MAGIC_V2))
_TIMES_KEPT: Final = 3


@attrs.frozen
class RecordSearch:
    """What a log holds."""

    start_offset: int
    """Where the log begins."""
    end_offset: int
    """Where it ends: after the last record that counts."""
    last_record_offset: int
    """Where that record begins; -1 in a log without records."""
    last_store_timestamp: int
    """Its store time, ms; 0 without one. Not that of a single record whose time is far off."""
    max_store_timestamp: int
    """The latest store time of all records, ms."""
    message_count: int
    """Sound records."""
    lost: tuple[Damage, ...]
    """Bytes before the end that hold no valid record, ascending; none crosses a file's end."""
    missing: tuple[int, ...]
    """Files of the log that are missing, by base; they are among ``lost``."""
    mends: tuple[FieldRepair, ...]
    """Records of which one field is damaged that can be told from the others."""
    finding: Corruption | None
    """What stands at the end; None for unwritten space."""


@attrs.define(eq=False)
class _Search:
    log: LogReader
    was_closed: bool
    leads_to: Callable[[int, int], bool]
    watch: Callable[[DispatchBatch], None]
    progress: Callable[[int, int], None]
    end: int = 0
    last_record: int = -1
    count: int = 0
    lost: list[Damage] = attrs.field(factory=list)
    missing: list[int] = attrs.field(factory=list)
    mends: list[FieldRepair] = attrs.field(factory=list)
    finding: Corruption | None = None
    max_timestamp: int = 0
    _times: list[int] = attrs.field(factory=list)

    def run(self) -> None:
        files, start = self.log.files, self.log.files.min_offset
        self.end = start
        reader = self.log.window_reader(check_crc=True, check_record_crc=True)
        walk = LogWalk(reader, start, self)
        for found in walk:
            if isinstance(found, Damage):
                self.lost.append(found)
            else:
                self._take(found)
            self.progress(walk.position - start, files.capacity_end - start)
        while self.lost and self.last_record < self.lost[-1].start_offset:
            # Nothing but a blank follows: the log ends there.
            gone = self.lost.pop()
            self.finding = gone.finding
        self.missing = [base for base in self.missing if base < self.end]
        self.progress(files.capacity_end - start, files.capacity_end - start)

    @property
    def timestamp(self) -> int:
        """Store time of the last record, ms; 0 without one.

        Not that of a single record whose time differs from those around it: a damaged time in the
        future would make all records after the next damage look like remainders.
        """
        if not self._times:
            return 0
        last = self._times[-1]
        return min(last, sorted(self._times)[-2]) if len(self._times) == _TIMES_KEPT else last

    def _take(self, batch: DispatchBatch) -> None:
        if len(batch) == 0:
            return
        self.count += len(batch)
        self.max_timestamp = max(self.max_timestamp, int(batch.store_timestamp.max()))
        self.last_record = int(batch.physical_offset[-1])
        self.end = self.last_record + int(batch.size[-1])
        self._times = [*self._times, *batch.store_timestamp[-_TIMES_KEPT:].tolist()][-_TIMES_KEPT:]
        self.watch(batch)

    def limit(self, position: int) -> None:
        """Read to the end of the files."""

    def past(self, at: int, finding: Corruption | None) -> NextRecord | None:
        """Repair the record at ``at``, or skip what is missing or damaged there."""
        files = self.log.files
        if files.base_of(at) is None:
            return self._missing(at, files.base_after(at))
        if self._is_last_blank(at):
            return None
        mend = repair_record(self.log, at, finding, after=self.timestamp)
        if mend is not None and (self.was_closed or not self._is_unfinished(at)):
            self.mends.append(mend)
            self._take(repaired_batch(self.log, mend))
            return NextRecord(self.end)
        damages = self._damages(at, finding)
        if not damages:
            self.finding = finding
            return None
        return NextRecord(damages[-1].end_offset, [*self._by_file(damages)])

    def _by_file(self, damages: Sequence[Damage]) -> Iterator[Damage]:
        """Yield the parts of damages that reach over missing files: one part for each file."""
        files = self.log.files
        for each in damages:
            start = each.start_offset
            if files.base_of(start) is None:
                following = files.base_after(start)
                start = each.end_offset if following is None else min(following, each.end_offset)
                missing = self._missing(each.start_offset, start)
                yield from missing.damages if missing is not None else ()
            if start < each.end_offset:
                yield attrs.evolve(each, start_offset=start)

    def _missing(self, start: int, following: int | None) -> NextRecord | None:
        if following is None:
            return None
        size, damages = self.log.file_size, []
        for base in range(start, following, size):
            finding = Corruption(base, CorruptionKind.TRUNCATED, "the file is missing")
            end = min(base + size, following)
            damages.append(self.log.finder().damage(finding, end, self.timestamp))
            self.missing.append(base)
        return NextRecord(following, damages)

    def _damages(self, at: int, finding: Corruption | None) -> list[Damage]:
        finder = self.log.finder()
        if self.was_closed or not self._is_unfinished(at):
            damages = finder.damages_at(at, finding, after=self.timestamp)
            if damages:
                return damages
        # Recovery would end the log here. The files of plugins know better where they lead on.
        damages = finder.damages_at(at, finding)
        if not damages:
            return []
        end = damages[-1].end_offset
        return damages if self.leads_to(end, self.log.size_at(end)) else []

    def _is_unfinished(self, at: int) -> bool:
        head = self.log.files.read(at, SIZE_AND_MAGIC.size)
        return len(head) == SIZE_AND_MAGIC.size and SIZE_AND_MAGIC.unpack(head) in _UNFINISHED

    def _is_last_blank(self, at: int) -> bool:
        """Whether a blank closes the last file."""
        files = self.log.files
        base = files.base_of(at)
        if base is None or files.base_after(at) is not None:
            return False
        rest = base + files.file_size - at
        return files.read(at, SIZE_AND_MAGIC.size) == SIZE_AND_MAGIC.pack(rest, BLANK_MAGIC)


def search(
    log: LogReader,
    *,
    was_closed: bool,
    leads_to: Callable[[int, int], bool] = lambda offset, size: False,
    watch: Callable[[DispatchBatch], None] = lambda batch: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RecordSearch:
    """Read all of a log, with every checksum.

    Args:
        log: the log, whose files are loaded; nothing is changed.
        was_closed: whether its last writer closed it.
        leads_to: whether a plugin's files lead to a record at a physical offset, with a size.
        watch: called with all valid records, batch by batch; a batch is valid until it returns.
        progress: called with bytes done and bytes in all.
    """
    if not log.files.bases:
        return RecordSearch(0, 0, -1, 0, 0, 0, (), (), (), None)
    found = _Search(log, was_closed, leads_to, watch, progress)
    found.run()
    return RecordSearch(
        log.files.min_offset,
        found.end,
        found.last_record,
        found.timestamp,
        found.max_timestamp,
        found.count,
        tuple(found.lost),
        tuple(found.missing),
        tuple(each for each in found.mends if each.physical_offset < found.end),
        found.finding,
    )
