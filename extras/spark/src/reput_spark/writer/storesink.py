"""Commit the batches of a stream into a store; see `reput_spark.writer.putter`.

With the intent there is ``committed.json``: the last batch that was put wholly; those before it
were, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import attrs

import reput
from reput_arrow.logwriter.stagingdirectories import INTENT
from reput_spark.errors import SparkReputError
from reput_spark.writer.commitjournal import CommitIntent, CommitJournal, LastCommit
from reput_spark.writer.options import SinkOptions, check_store
from reput_spark.writer.putter import Opening, Putter
from reput_spark.writer.reconciliation.stamps import prefix_of
from reput_spark.writer.segments import Segment, batch_of_name, directory_of
from reput_tools.offline import inspect_store


@attrs.define(eq=False)
class StoreSink:
    """One stream into one store; lives for one call by Spark."""

    options: SinkOptions
    opening: Opening = attrs.field(
        default=attrs.Factory(lambda self: Opening(self.options), takes_self=True)
    )

    # ------------------------------------------------------------------ what Spark calls

    def commit(self, segments: Sequence[Segment], batch_id: int) -> None:
        """Put the rows of a batch, unless that was done before.

        Raises:
            SparkReputError: the store stays open elsewhere, or refuses the rows.
            UnsafePathError: a link below the store's directory, where none is followed.
        """
        if not segments:
            return  # not even an empty task
        notes = self._notes(_key_of(segments))
        last = notes.committed()
        if last is not None and batch_id <= last.batch_id:
            self._sweep(notes, last.batch_id)
            return
        filled = tuple(each for each in segments if each.row_count)
        if not filled and not self.opening.bound.exists(os.path.join(notes.directory, INTENT)):
            return
        with self.opening.open() as store:
            manifest = inspect_store(self.opening.root, disk=self.opening.bound).manifest
            plugins = () if manifest is None else manifest.plugins
            check_store(self.options, store.config.file_size, plugins)
            self._commit(store, notes, filled, batch_id)

    def abort(self, segments: Sequence[Segment], batch_id: int) -> None:
        """Remove the segments of a batch, but for the segments that an intent names."""
        for key in {each.key for each in segments}:
            notes = self._notes(key)
            intent = notes.intent()
            taken = {each.name for each in intent.segments} if intent is not None else set()
            for each in segments:
                if each.key == key and each.name and each.name not in taken:
                    notes.remove(each.name)
            above = os.path.dirname(notes.directory)
            with contextlib.suppress(OSError):  # another batch's segments are in it
                for empty in (notes.directory, above, os.path.dirname(above)):
                    self.opening.bound.remove_directory(empty)

    # ------------------------------------------------------------------ with the lock

    def _commit(
        self, store: reput.Store, notes: CommitJournal, segments: tuple[Segment, ...], batch_id: int
    ) -> None:
        # Again, with the lock: another driver of the same query may have been at work.
        last = notes.committed()
        done = -1 if last is None else last.batch_id
        intent = notes.intent()
        putter = Putter(store, self.opening.root, notes)
        if intent is not None and intent.batch_id > done:
            # Its rows are in the log in part, from its own segments; the segments of this call
            # may have the same rows in another order, or on other partitions.
            putter.put(intent, putter.found(intent))
            self._end(store, notes, intent)
            done = intent.batch_id
        elif intent is not None:
            notes.remove(INTENT)
        if batch_id > done and segments:
            stamp = prefix_of(segments[0].key, batch_id) if self.options.stamp else ""
            intent = putter.begin(batch_id, segments, self.opening.now(), stamp=stamp)
            putter.put(intent)
            self._end(store, notes, intent)
            done = batch_id
        self._sweep(notes, done)

    def _end(self, store: reput.Store, notes: CommitJournal, intent: CommitIntent) -> None:
        end = store.log.max_physical_offset
        notes.save(LastCommit(intent.batch_id, intent.row_count, intent.start, end))
        notes.remove(INTENT)
        for each in intent.segments:
            notes.remove(each.name)

    # ------------------------------------------------------------------ files

    def _notes(self, key: str) -> CommitJournal:
        return CommitJournal(directory_of(self.opening.root, key), self.opening.bound)

    def _sweep(self, notes: CommitJournal, batch_id: int) -> None:
        """Remove segments of batches up to ``batch_id``, also those still being written."""
        for entry in self.opening.bound.list(notes.directory):
            found = batch_of_name(entry.name)
            if found is not None and found <= batch_id:
                notes.remove(entry.name)


def _key_of(segments: Sequence[Segment]) -> str:
    keys = {each.key for each in segments}
    if len(keys) != 1:
        raise SparkReputError("JOB", f"one batch of {len(keys)} queries: {sorted(keys)}")
    return keys.pop()
