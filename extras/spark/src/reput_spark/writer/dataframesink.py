"""Commit one DataFrame into a store; see `reput_spark.writer.putter`.

Its rows are put. Rows that keep their hosts and store times, or that no plugin may look at, are
written as whole log files by the driver, as `reput_arrow.export.importer` does it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError, ReputError, UnsafePathError
from reput_arrow.logwriter.publication.commit import abort_write, intent_of, publish_write
from reput_arrow.logwriter.publication.journal import PublishedWrite, load_writes
from reput_arrow.logwriter.publication.publish import Published
from reput_arrow.logwriter.publication.refusals import refuse_overwriting
from reput_arrow.logwriter.staging.segments import write_task
from reput_arrow.logwriter.stagingdirectories import INTENT, forget, sweep
from reput_spark.errors import SparkReputError
from reput_spark.writer.commitjournal import CommitJournal
from reput_spark.writer.interruptedwrites import InterruptedWrites
from reput_spark.writer.putter import Opening, Putter
from reput_spark.writer.reconciliation.stamps import prefix_of
from reput_spark.writer.segments import Segment, directory_of, read_segment
from reput_tools.offline import LocalEngine

if TYPE_CHECKING:
    import pyarrow as pa

    import reput
    from reput_arrow.logwriter.staging.writetasks import WritePlan

logger = logging.getLogger(__name__)


def settle_before(opening: Opening) -> InterruptedWrites:
    """Settle writes that were cut short, before the tasks of this one begin.

    A write that comes again under its name is known so, though its driver died in the middle.

    Returns:
        What became of them.

    Raises:
        SparkReputError: the store stays open elsewhere, or a write cannot be finished.
    """
    earlier = InterruptedWrites(opening)
    earlier.settle()
    return earlier


@attrs.define(eq=False)
class DataFrameSink:
    """One DataFrame into one store; lives on the driver."""

    plan: WritePlan
    opening: Opening
    told: Callable[[int], None] = lambda size: None
    """Called with the bytes of segments that are put, in all."""
    _earlier: InterruptedWrites = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: InterruptedWrites(self.opening), takes_self=True),
    )

    @property
    def name(self) -> str:
        """The name of the write."""
        return self.plan.options.write_id or self.plan.staging

    @property
    def _notes(self) -> CommitJournal:
        return CommitJournal(directory_of(self.plan.root, self.plan.staging), self.opening.bound)

    def commit(self, segments: Sequence[Segment]) -> Published:
        """Put the rows that tasks have kept.

        Returns:
            What became of the write; all of it is on disk.

        Raises:
            SparkReputError: the store stays open elsewhere, somebody has made it meanwhile, it
                refuses a row, or a write before this one cannot be finished.
            UnsafePathError: a link below the store's directory, where none is followed.
        """
        filled = sorted(
            (each for each in segments if each.row_count),
            key=lambda each: (each.partition, each.name),
        )
        options = self.plan.options
        try:
            if options.keep or options.raw:
                self._earlier.settle()
                done = self._as_files(filled)
            else:
                self._earlier.settle_files()
                done = self._put(filled)
        except UnsafePathError:
            raise
        except (CorruptFileError, OSError) as error:
            code = "DAMAGED" if isinstance(error, CorruptFileError) else "JOB"
            raise SparkReputError(code, f"{self.plan.root}: {error}") from error
        return self._earlier.told_in(done)

    def abort(self) -> None:
        """Leave nothing of a write that failed, unless part of it may be in the log."""
        if not self.opening.bound.exists(os.path.join(self._notes.directory, INTENT)):
            abort_write(self.plan)

    # ------------------------------------------------------------------ puts

    def _put(self, segments: Sequence[Segment]) -> Published:
        plan, disk = self.plan, self.opening.bound
        if plan.overwrite:
            refuse_overwriting(plan.root, self.name, disk)
        with self.opening.open() as store:
            self._earlier.settle_in(store)
            known = load_writes(plan.root, disk).get(self.name)
            if known is not None:
                forget(plan.root, plan.staging, disk)
            elif plan.overwrite and store.log.max_physical_offset:
                # It was vacant a moment ago; now nobody else can make a store here.
                refuse_overwriting(plan.root, self.name, disk)
            sweep(plan.root, disk, keep={plan.staging})
            done = known or self._put_all(store, segments)
            size = store.config.file_size
            if plan.options.dispatch:
                self._dispatched(store)
        files = -(-done.end_offset // size) - done.start_offset // size
        return Published(
            record_count=done.record_count,
            file_count=0 if known is not None else files,
            start_offset=done.start_offset,
            end_offset=done.end_offset,
            was_there=known is not None,
        )

    def _put_all(self, store: reput.Store, segments: Sequence[Segment]) -> PublishedWrite:
        plan = self.plan
        putter = Putter(store, plan.root, self._notes, self.told)
        stamp = prefix_of(self.name, 0) if plan.options.stamp else ""
        intent = putter.begin(0, segments, self.opening.now(), stamp=stamp, name=self.name)
        putter.put(intent)
        try:
            return self._earlier.conclude(store, intent, plan.staging)
        except (OSError, ReputError) as error:
            # All is in the log. To fail here would have the caller write it once more.
            logger.warning(
                "written, not cleared up: the next write does it name=%s root=%s error=%s",
                self.name,
                plan.root,
                error,
            )
            return self._earlier.receipt(store, intent)

    def _dispatched(self, store: reput.Store) -> None:
        try:
            store.wait_dispatched()
        except (OSError, ReputError) as error:
            # The next one to open the store dispatches it; for the rest as above.
            logger.warning("written, not dispatched root=%s error=%s", self.plan.root, error)

    # ------------------------------------------------------------------ whole files

    def _as_files(self, segments: Sequence[Segment]) -> Published:
        plan = self.plan
        written = write_task(plan, 0, self._rows(segments), self.opening.disk)
        with LocalEngine(1) as engine:
            return publish_write(
                plan.root,
                intent_of(plan, [written]),
                engine,
                plan.options,
                overwrite=plan.overwrite,
            )

    def _rows(self, segments: Sequence[Segment]) -> Iterator[pa.RecordBatch]:
        size = 0
        for segment in segments:
            yield from read_segment(self.plan.root, segment, self.opening.bound)
            size += segment.size
            self.told(size)
