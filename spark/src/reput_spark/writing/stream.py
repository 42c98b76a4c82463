"""Commit the batches of a stream into a store; see `reput_spark.writing.putting`.

Beside the intent stands ``committed.json``: the last batch that was put wholly; those before it
were, too.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence

import attrs

import reput
from reput.files import Disk
from reput.offline import look
from reput_export.writing.directories import INTENT
from reput_spark.errors import SparkReputError
from reput_spark.writing.notes import Committed, Intent, Notes
from reput_spark.writing.options import SinkOptions, check_store
from reput_spark.writing.putting import Opening, Putter
from reput_spark.writing.segments import Segment, batch_of_name, directory_of
from reput_spark.writing.settling.stamps import prefix_of

__all__ = ["StoreSink"]


@attrs.define(eq=False)
class StoreSink:
    """One stream into one store; lives for one call of Spark's."""

    options: SinkOptions
    disk: Disk = attrs.field(factory=Disk)
    """Bound to nothing: for what is above the store, too."""
    threads: bool = True
    """As of `reput.open`."""
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    """ms."""
    clock: Callable[[], float] = time.monotonic
    """Seconds; for how long the lock is waited for."""
    wait: Callable[[float], object] = time.sleep
    """Waits so many seconds, until the lock is looked at again."""
    _disk: Disk = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._disk = self.disk.at(self.options.path, follow_links=self.options.follow_links)

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
        if not filled and not self._disk.exists(os.path.join(notes.directory, INTENT)):
            return
        options = self.options
        opening = Opening(
            root=options.path,
            follow_links=options.follow_links,
            lock_timeout=options.lock_timeout,
            plugins=options.plugins,
            file_size=options.file_size,
            disk=self.disk,
            threads=self.threads,
            clock=self.clock,
            wait=self.wait,
        )
        with opening.open() as store:
            manifest = look(options.path, disk=self._disk).manifest
            plugins = () if manifest is None else manifest.plugins
            check_store(options, store.config.file_size, plugins)
            self._commit(store, notes, filled, batch_id)

    def abort(self, segments: Sequence[Segment], batch_id: int) -> None:
        """Remove the segments of a batch, but for those that an intent names."""
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
                    self._disk.remove_directory(empty)

    # ------------------------------------------------------------------ with the lock

    def _commit(
        self, store: reput.Store, notes: Notes, segments: tuple[Segment, ...], batch_id: int
    ) -> None:
        # Again, with the lock: another driver of the same query may have been at work.
        last = notes.committed()
        done = -1 if last is None else last.batch_id
        intent = notes.intent()
        putter = Putter(store, self.options.path, notes)
        if intent is not None and intent.batch_id > done:
            # Its rows are in the log in part, from its own segments; those that this call brings
            # may have the same rows in another order, or on other partitions.
            putter.put(intent, putter.found(intent))
            self._end(store, notes, intent)
            done = intent.batch_id
        elif intent is not None:
            notes.forget_intent()
        if batch_id > done and segments:
            stamp = prefix_of(segments[0].key, batch_id) if self.options.stamp else ""
            intent = putter.begin(batch_id, segments, self.now(), stamp=stamp)
            putter.put(intent)
            self._end(store, notes, intent)
            done = batch_id
        self._sweep(notes, done)

    def _end(self, store: reput.Store, notes: Notes, intent: Intent) -> None:
        end = store.log.max_physical_offset
        notes.save(Committed(intent.batch_id, intent.row_count, intent.start, end))
        notes.forget_intent()
        for each in intent.segments:
            notes.remove(each.name)

    # ------------------------------------------------------------------ files

    def _notes(self, key: str) -> Notes:
        return Notes(directory_of(self.options.path, key), self._disk)

    def _sweep(self, notes: Notes, batch_id: int) -> None:
        """Remove segments of batches up to ``batch_id``, also those still being written."""
        for entry in self._disk.list(notes.directory):
            found = batch_of_name(entry.name)
            if found is not None and found <= batch_id:
                notes.remove(entry.name)


def _key_of(segments: Sequence[Segment]) -> str:
    keys = {each.key for each in segments}
    if len(keys) != 1:
        raise SparkReputError("JOB", f"one batch of {len(keys)} queries: {sorted(keys)}")
    return keys.pop()
