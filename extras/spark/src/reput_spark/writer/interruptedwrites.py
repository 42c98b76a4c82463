"""Settle writes whose driver ended in the middle: the next write finishes them, or takes them back.

A write any of whose rows is in the log is finished, from its own segments; one of which nothing is
there is taken back, so that a write that failed has written nothing.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import attrs

from reput_arrow.logwriter.publication.journal import PublishedWrite, load_writes, note_write
from reput_arrow.logwriter.publication.publish import Published, settle_earlier
from reput_arrow.logwriter.stagingdirectories import INTENT, forget, is_name, spark_directory
from reput_spark.errors import SparkReputError
from reput_spark.writer.commitjournal import CommitIntent, CommitJournal
from reput_spark.writer.putter import Opening, Putter
from reput_spark.writer.segments import directory_of
from reput_tools.offline import LocalEngine

if TYPE_CHECKING:
    import reput

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class InterruptedWrites:
    """The writes of a store that were cut short."""

    opening: Opening
    finished: list[str] = attrs.field(init=False, factory=list)
    """Names of those that were finished."""
    taken_back: list[str] = attrs.field(init=False, factory=list)
    """Names of those of which nothing was there."""

    def told_in(self, done: Published) -> Published:
        """Return what became of a write, and with it what became of these."""
        return attrs.evolve(
            done,
            finished=(*self.finished, *done.finished),
            taken_back=(*self.taken_back, *done.taken_back),
        )

    def settle(self) -> None:
        """Settle them in a store that is closed.

        Raises:
            SparkReputError: the store stays open elsewhere, or one cannot be finished.
        """
        self.settle_files()
        if self._staged():
            with self.opening.open() as store:
                self.settle_in(store)

    def settle_files(self) -> None:
        """Settle one of whole files, a copy or an import; the store is closed."""
        with LocalEngine(1) as engine:
            finished, taken_back = settle_earlier(
                self.opening.root,
                engine,
                disk=self.opening.disk,
                follow_links=self.opening.options.follow_links,
            )
        self.finished += finished
        self.taken_back += taken_back

    def settle_in(self, store: reput.Store) -> None:
        """Settle those whose rows are put, in the open store."""
        for staging in self._staged():
            notes = CommitJournal(directory_of(self.opening.root, staging), self.opening.bound)
            intent = notes.intent()
            if intent is None or intent.name in load_writes(self.opening.root, self.opening.bound):
                forget(self.opening.root, staging, self.opening.bound)
                continue
            try:
                self._settle(store, intent, notes, staging)
            except SparkReputError as error:
                path = os.path.join(notes.directory, INTENT)
                raise SparkReputError(
                    "DATA_LOSS",
                    f"write {intent.name} was cut short, and cannot be finished: {error.reason} "
                    f"Put back what is gone, or remove {path} to do without it; then write again",
                ) from error

    def conclude(self, store: reput.Store, intent: CommitIntent, staging: str) -> PublishedWrite:
        """Note that all rows of a write are in the log; its segments and its intent go."""
        done = self.receipt(store, intent)
        note_write(self.opening.root, done, self.opening.bound)
        forget(self.opening.root, staging, self.opening.bound)
        return done

    def receipt(self, store: reput.Store, intent: CommitIntent) -> PublishedWrite:
        """Return what is noted of a write whose rows are all in the log."""
        end, now = store.log.max_physical_offset, self.opening.now()
        return PublishedWrite(intent.name, intent.row_count, intent.start, end, now)

    def _staged(self) -> list[str]:
        return [
            entry.name
            for entry in self.opening.bound.list(spark_directory(self.opening.root))
            if is_name(entry.name) and self.opening.bound.exists(os.path.join(entry.path, INTENT))
        ]

    def _settle(
        self, store: reput.Store, intent: CommitIntent, notes: CommitJournal, staging: str
    ) -> None:
        putter = Putter(store, self.opening.root, notes)
        found = putter.found(intent)
        if intent.segments and intent.done == 0 and not found.any():
            logger.warning(
                "took back a write that was cut short name=%s root=%s",
                intent.name,
                self.opening.root,
            )
            self.taken_back.append(intent.name)
            forget(self.opening.root, staging, self.opening.bound)
            return
        logger.warning(
            "finishing a write that was cut short name=%s root=%s rows=%d of=%d",
            intent.name,
            self.opening.root,
            len(found) - int(found.sum()),
            intent.row_count,
        )
        putter.put(intent, found)
        self.conclude(store, intent, staging)
        self.finished.append(intent.name)
