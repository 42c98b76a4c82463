"""The plugin ``integrity``: its options, and its hooks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

import reput
from reput.errors import CorruptFileError, StoreClosedError
from reput.files import OWN_DIRECTORY
from reput_integrity.checksumfiles import ChecksumFiles
from reput_integrity.checksumorigins import Origins
from reput_integrity.disputes import Disputes
from reput_integrity.layout import DIRECTORY, DISPUTES_NAME, ORIGINS_NAME, SUMS_NAME
from reput_integrity.olderchecksums import OlderChecksums
from reput_integrity.recordchecksums import units_of
from reput_integrity.recovery import Recovery

if TYPE_CHECKING:
    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput.record import DispatchBatch
    from reput_integrity.findings import SumFinding
    from reput_integrity.logcheck import Checker
    from reput_integrity.offline.shards import SumsBuilder
    from reput_integrity.olderchecksums import Judged
    from reput_tools.offline import Compared, Comparison, Difference, RecordHints

logger = logging.getLogger(__name__)

_CHECK_SIZE: Final = 16 << 20
"""Bytes of the newest sums that an opening for writing checks, those of a million messages. The
others are checked when the log is compared with them."""
_FRESH_MS: Final = 60_000
"""How long after a record was stored its sum still counts as made when it was written."""


@attrs.frozen(kw_only=True)
class IntegrityConfig:
    """Options of the ``integrity`` plugin; it has none.

    Each opening for writing checks the newest 16 MiB of checksums, which cover a million messages.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "check_size": "a store checks the newest 16 MiB of sums when it is opened",
        "fresh_ms": "a sum made in the minute after its record counts as made when it was written",
    }


@attrs.define(eq=False)
class IntegrityPlugin(reput.Plugin):
    """Keeps a checksum of every whole record, so that any changed bit is found."""

    name: ClassVar[str] = "integrity"
    config_type: ClassVar[type] = IntegrityConfig

    config: IntegrityConfig = attrs.field(factory=IntegrityConfig)
    context: StoreContext = attrs.field(init=False)
    dispatched_to: int = attrs.field(init=False, default=0)
    """Physical offset of the first record whose sum is not in the files."""
    _files: ChecksumFiles | None = attrs.field(init=False, default=None)
    _origins: Origins = attrs.field(init=False, factory=Origins)
    _are_written: bool = attrs.field(init=False, default=True)
    """Whether `_origins` are on disk."""
    _noting: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held for moments, to change `_origins`: records may be trimmed during a dispatch."""

    _older: OlderChecksums | None = attrs.field(init=False, default=None)
    """In a rebuild in one piece, the sums of the store."""

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Find the files that are on disk."""
        self.reput_close()
        self.context = context
        self._files = self._files_in(context)
        self._files.load()
        self._origins, self._are_written = Origins(), True
        self._older = None
        if context.writable and context.sizes_from:
            self._older = OlderChecksums.of(context.sizes_from, context.log, context.disk)

    def _files_in(self, context: StoreContext) -> ChecksumFiles:
        directory = context.directory(DIRECTORY, SUMS_NAME)
        return ChecksumFiles(directory, context.disk, context.log.file_size)

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        """Cut the sums to ``progress``; repair damaged or missing ones."""
        context, files = self.context, self._opened()
        if not context.writable:
            self.dispatched_to = progress
            self._look_as_reader()
            return progress
        directory, flush = context.directory(DIRECTORY), not context.clean
        context.disk.finish_replacing(files.directory, flush=flush)
        context.disk.finish_replacing(directory, ORIGINS_NAME, DISPUTES_NAME, flush=flush)
        end = max(max_physical_offset, context.log.max_physical_offset)
        now = context.clock()
        origins = self._load_origins() if files.bases else Origins()
        low = context.log.min_physical_offset
        is_known = origins is not None and self._has_origins()
        if origins is None:  # of all that is there nobody knows when it was made
            origins = Origins()
            origins.add(low, end, now)
        self._origins = origins
        before = origins.parts
        self.dispatched_to = Recovery(files, origins, context.log, _CHECK_SIZE, now).run(progress)
        if self._older is None:
            # What this process did not see being written it can only sum as it is now.
            origins.add(self.dispatched_to, end, now)
        elif self._older.origins is not None:
            self._origins = origins = self._older.origins  # of what older sums agree with
        origins.keep(low, end)
        files.keep_disputes(low, self.dispatched_to, now)
        self._are_written = is_known and origins.parts == before
        return self.dispatched_to

    def _has_origins(self) -> bool:
        return self.context.disk.exists(self.context.directory(DIRECTORY, ORIGINS_NAME))

    def _load_origins(self) -> Origins | None:
        """Read the file; None if it is missing or damaged."""
        context = self.context
        try:
            return Origins.load(context.directory(DIRECTORY, ORIGINS_NAME), context.disk)
        except CorruptFileError as error:
            logger.warning("nothing is known of when sums were made: %s", str(error))
            return None

    def _look_as_reader(self) -> None:
        path = self.context.directory(DIRECTORY, ORIGINS_NAME)
        try:
            Origins.load(path, self.context.disk)
        except CorruptFileError as error:
            self.context.note_problem(f"{error}; nothing is known of when sums were made")

    # ------------------------------------------------------------------ dispatching

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Write the sums of ``batch``."""
        files, fresh = self._opened(), batch.after(self.dispatched_to)
        if len(fresh):
            if self._older is None:
                self._note_late(fresh)
            for units in units_of(fresh, files.file_size):
                if self._older is not None:
                    self._note_older(self._older.judge(units))
                files.append(units)
                self.dispatched_to = int(units.end[-1])
        self.dispatched_to = max(self.dispatched_to, batch.end_offset)

    def _note_older(self, judged: Judged) -> None:
        """Note, in a rebuild, which sums are new, and which of them older ones deny."""
        files = self._opened()
        self._note(judged.new, self.context.clock())
        if judged.disputes:
            files.disputes = Disputes((*files.disputes.rows, *judged.disputes))
            self._are_written = False

    def _note_late(self, batch: DispatchBatch) -> None:
        """Note records that were stored long ago: their bytes may have changed before this."""
        now = self.context.clock()
        late = np.flatnonzero(now - batch.store_timestamp > _FRESH_MS)
        if len(late):
            end = int(batch.physical_offset[late[-1]] + batch.size[late[-1]])
            self._note(((batch.start_offset, end),), now)

    def _note(self, parts: Sequence[tuple[int, int]], now: int) -> None:
        """Note that the sums of parts of the log are made now."""
        with self._noting:
            for start, end in parts:
                if self._origins.add(start, end, now):
                    self._are_written = False

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Bring sums to disk; before them, which of them were made later."""
        files = self._opened()
        if not self._are_written or (files.bases and not self._has_origins()):
            with self._noting:
                self._are_written, data = True, self._origins.encode()
            try:
                directory = self.context.directory(DIRECTORY)
                self.context.disk.make_directory(directory, durable=True)
                path = self.context.directory(DIRECTORY, ORIGINS_NAME)
                self.context.disk.replace(path, data)
                if self._older is not None and files.disputes.rows:
                    data = files.disputes.encode(self.context.clock())
                    self.context.disk.replace(files.disputes_path, data)
            except BaseException:
                self._are_written = False
                raise
        files.flush()

    # ------------------------------------------------------------------ reading

    def check(self, start: int | None = None, end: int | None = None) -> Iterator[SumFinding]:
        """Yield where the log differs from the sums of its records; see `reput_integrity.check`."""
        return self.checker().findings(start, end)

    def checker(self) -> Checker:
        """Return what compares parts of the log with its sums."""
        from reput_integrity.logcheck import Checker

        context = self.context
        files = self._files_in(context)
        return Checker(context.log, files, self._known_origins, self._reach)

    def contract_state(self) -> list[tuple[int, int, int]]:
        """Return offset, size and CRC of all records: what `reput plugins check` compares.

        Raises:
            CorruptFileError: records have no sound sum.
        """
        files = self._files_in(self.context)
        for finding in self.check():
            if not finding.is_damage:
                path = files.path(finding.physical_offset // files.file_size * files.file_size)
                raise CorruptFileError(path, finding.position, str(finding))
        low, end = self.context.log.min_physical_offset, self.context.log.max_physical_offset
        parts = [files.read(base) for base in self._bases_of(files)]
        return [
            row
            for units in parts
            for row in zip(
                units.start.tolist(), units.size.tolist(), units.crc.tolist(), strict=True
            )
            if low <= row[0] < end
        ]

    def _bases_of(self, files: ChecksumFiles) -> tuple[int, ...]:
        files.load()
        return files.bases

    def _known_origins(self) -> Origins | None:
        if self.context.writable:
            return self._origins
        return self._load_origins()

    def _reach(self) -> int:
        """Return the physical offset below which records have sums."""
        if self.context.writable:
            return self.dispatched_to
        recorded = self.context.recorded()
        return self.dispatched_to if recorded is None else recorded.physical_offset

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return the size of the sums, and how much of the log was summed later."""
        files = self._files_in(self.context)
        files.load()
        origins = self._known_origins()
        later = None if origins is None else sum(each.end - each.start for each in origins.parts)
        return self._scrub_facts() | {
            "file_count": len(files.bases),
            "size": sum(files.size(base) for base in files.bases),
            "summed_to": self._reach(),
            "log_size_summed_later": later,
        }

    def _scrub_facts(self) -> dict[str, object]:
        """Return what the last scrub has found, and when it ended; nothing without one."""
        from reput_integrity.scrub import ScrubState

        path = self.context.directory(OWN_DIRECTORY, "scrub")
        state = ScrubState.load(path, self.context.disk)
        if state.rounds == 0 and state.began is None:
            return {}
        return {
            "scrub_finding_count": state.finding_count,
            "scrub_ended": state.last_ended,
            "scrub_position": state.position,
        }

    # ------------------------------------------------------------------ maintaining

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Remove the sums of files that the log has removed."""
        if self.context.writable:
            self._opened().trim(min_physical_offset)
            self._opened().keep_disputes(min_physical_offset, 1 << 62, self.context.clock())
            with self._noting:
                if self._origins.keep(min_physical_offset, 1 << 62):
                    self._are_written = False

    # ------------------------------------------------------------------ offline tools

    @reput.hookimpl(optionalhook=True)
    def reput_tools_shards(self, context: StoreContext) -> SumsBuilder:
        """Return what builds sums, and judges them by the older ones."""
        from reput_integrity.offline.shards import SumsBuilder

        older = OlderChecksums.of(context.root, context.log, context.disk)
        return SumsBuilder(older, context.clock, context.disk)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_rebuilt_from(self) -> frozenset[str]:
        """Name the directory of the sums: a rebuild reads the older ones."""
        return frozenset({DIRECTORY})

    @reput.hookimpl(optionalhook=True)
    def reput_tools_hints(self, root: str, disk: Disk) -> Iterator[RecordHints]:
        """Yield where records begin, and their sizes."""
        from reput_integrity.offline.hints import leads

        return leads(root, disk)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_compare(
        self, comparison: Comparison, differences: Sequence[Difference]
    ) -> Compared:
        """Compare sums, but neither their origins nor those of records that are known as lost."""
        from reput_integrity.offline.compare import weigh

        return weigh(comparison, differences)

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close files."""
        if self._files is not None:
            self._files.close()
            self._files = None

    def _opened(self) -> ChecksumFiles:
        if self._files is None:
            raise StoreClosedError(self.context.root)
        return self._files
