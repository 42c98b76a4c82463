"""Commit the batches of a stream into a store: each row once, whatever happens in between.

    <store>/reput/spark/query-<id>/
        <batch>-….arrow       segments: rows that wait to be put
        intent.json           the batch that is being put: its segments, and where the log ended
        committed.json        the last batch that was put wholly; those before it were, too

The order, and what a crash leaves at each place:

1. segments, on disk before their names are told: a crash leaves some that the next commit removes;
2. the store's lock, held to the end;
3. what is in the log already is brought to disk, so that the place in the intent stays one;
4. the intent: from here on the batch is put from these segments, and from no others;
5. the rows, by partition, then by row: a crash leaves some of them in the log. The next commit
   looks after the intent's place which ones, and puts the others;
6. a flush, and only then ``committed.json``: what it says is on disk;
7. the intent and the segments go: a crash leaves some, which say nothing any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import numpy as np

import reput
from reput.errors import CorruptFileError, PutError, StoreLockedError
from reput.files import Disk
from reput.log import LOG_SECTION
from reput.offline import look
from reput_spark.errors import SparkReputError
from reput_spark.writing.stream.matching import found_rows, messages_of
from reput_spark.writing.stream.options import SinkOptions, check_store
from reput_spark.writing.stream.segments import Segment, batch_of_name, directory_of, read_segment

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Committed", "Intent", "StoreSink"]

_FORMAT: Final = 1
_LOCK_POLL: Final = 0.05
_T = TypeVar("_T")


@attrs.frozen
class Intent:
    """A batch that is being put."""

    batch_id: int
    log_end: int
    """Physical offset from which on its rows come."""
    born_timestamp: int
    """Of rows that do not say when they were born, ms."""
    segments: tuple[Segment, ...]


@attrs.frozen
class Committed:
    """The last batch that was put; all before it were, too."""

    batch_id: int
    row_count: int
    log_start: int
    """Physical offset from which on its rows come."""
    log_end: int
    """Physical offset below which all its rows are."""


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
        directory = directory_of(self.options.path, _key_of(segments))
        last = self._load_committed(directory)
        if last is not None and batch_id <= last.batch_id:
            self._sweep(directory, last.batch_id)
            return
        filled = tuple(each for each in segments if each.row_count)
        if not filled and not self._disk.exists(os.path.join(directory, "intent.json")):
            return
        with self._opened() as store:
            manifest = look(self.options.path, disk=self._disk).manifest
            plugins = () if manifest is None else manifest.plugins
            check_store(self.options, store.config.file_size, plugins)
            self._commit(store, directory, filled, batch_id)

    def abort(self, segments: Sequence[Segment], batch_id: int) -> None:
        """Remove the segments of a batch, but for those that an intent names."""
        for key in {each.key for each in segments}:
            directory = directory_of(self.options.path, key)
            intent = self._load_intent(directory)
            taken = {each.name for each in intent.segments} if intent is not None else set()
            for each in segments:
                if each.key == key and each.name and each.name not in taken:
                    self._remove(os.path.join(directory, each.name))
            above = os.path.dirname(directory)
            with contextlib.suppress(OSError):  # another batch's segments are in it
                for empty in (directory, above, os.path.dirname(above)):
                    self._disk.remove_directory(empty)

    # ------------------------------------------------------------------ with the lock

    def _opened(self) -> reput.Store:
        """Open the store, as soon as no other process has it open."""
        give_up = self.clock() + self.options.lock_timeout
        is_new = look(self.options.path, disk=self._disk).manifest is None
        config: dict[str, dict[str, Any]] = {}
        if is_new and self.options.file_size is not None:
            config[LOG_SECTION] = {"file_size": self.options.file_size}
        while True:
            try:
                return reput.open(
                    self.options.path,
                    plugins=self.options.plugins if is_new else None,
                    config=config,
                    disk=self.disk,
                    follow_links=self.options.follow_links,
                    threads=self.threads,
                )
            except StoreLockedError as error:
                if self.clock() >= give_up:
                    raise SparkReputError(
                        "LOCKED",
                        f"{error}; after {self.options.lock_timeout:g} s of waiting. A stream into "
                        "a store opens it for each batch: close it elsewhere, read it with "
                        'mode="r", or wait longer with the option lock_timeout. The batch comes '
                        "again when the query is started again",
                    ) from error
                self.wait(_LOCK_POLL)

    def _commit(
        self, store: reput.Store, directory: str, segments: tuple[Segment, ...], batch_id: int
    ) -> None:
        # Again, with the lock: another driver of the same query may have been at work.
        last = self._load_committed(directory)
        done = -1 if last is None else last.batch_id
        intent = self._load_intent(directory)
        if intent is not None and intent.batch_id > done:
            # Its rows are in the log in part, from its own segments; those that this call brings
            # may have the same rows in another order, or on other partitions.
            self._finish(store, directory, intent)
            done = intent.batch_id
        elif intent is not None:
            self._remove(os.path.join(directory, "intent.json"))
        if batch_id > done and segments:
            intent = self._begin(store, directory, segments, batch_id)
            self._put(store, intent, None)
            self._end(store, directory, intent)
            done = batch_id
        self._sweep(directory, done)

    def _begin(
        self, store: reput.Store, directory: str, segments: tuple[Segment, ...], batch_id: int
    ) -> Intent:
        ordered = tuple(sorted(segments, key=lambda each: (each.partition, each.name)))
        for each in ordered:
            if not self._disk.exists(os.path.join(directory, each.name)):
                next(read_segment(self.options.path, each, self._disk))  # says what is wrong
        intent = Intent(batch_id, store.log.max_physical_offset, self.now(), ordered)
        store.flush()
        self._save(directory, "intent.json", intent)
        return intent

    def _finish(self, store: reput.Store, directory: str, intent: Intent) -> None:
        """Put what is missing of a batch whose commit did not end."""
        log = store.log
        if intent.log_end < log.min_physical_offset:
            raise SparkReputError(
                "DATA_LOSS",
                f"{directory}: batch {intent.batch_id} was being put behind {intent.log_end} when "
                f"its commit ended, and the log begins at {log.min_physical_offset} now: nobody "
                "can tell which of its rows were there. Remove intent.json to put all of them",
            )
        rows = self._batches(intent)
        start = min(intent.log_end, log.max_physical_offset)
        found = found_rows(rows, intent.born_timestamp, log, log.encoder, start)
        self._put(store, intent, found)
        self._end(store, directory, intent)

    def _put(self, store: reput.Store, intent: Intent, found: np.ndarray[Any, Any] | None) -> None:
        """Put the rows, but for those that were found."""
        first = 0
        for batch in self._batches(intent):
            rows = batch.num_rows
            if found is not None:
                import pyarrow as pa

                batch = batch.filter(pa.array(~found[first : first + rows]))
            if batch.num_rows:
                try:
                    store.put_many(messages_of(batch, intent.born_timestamp))
                except PutError as error:
                    raise SparkReputError(
                        "JOB",
                        f"batch {intent.batch_id}, in the {rows} rows from row {first} on: "
                        f"{error}. What is missing of the batch is put when the query is started "
                        "again",
                    ) from error
            first += rows

    def _batches(self, intent: Intent) -> Iterator[pa.RecordBatch]:
        for segment in intent.segments:
            yield from read_segment(self.options.path, segment, self._disk)

    def _end(self, store: reput.Store, directory: str, intent: Intent) -> None:
        store.flush()
        row_count = sum(each.row_count for each in intent.segments)
        end = store.log.max_physical_offset
        done = Committed(intent.batch_id, row_count, intent.log_end, end)
        self._save(directory, "committed.json", done)
        self._remove(os.path.join(directory, "intent.json"))
        for each in intent.segments:
            self._remove(os.path.join(directory, each.name))

    # ------------------------------------------------------------------ files

    def _sweep(self, directory: str, batch_id: int) -> None:
        """Remove segments of batches up to ``batch_id``, also those still being written."""
        for entry in self._disk.list(directory):
            found = batch_of_name(entry.name)
            if found is not None and found <= batch_id:
                self._remove(entry.path)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(path)

    def _save(self, directory: str, name: str, value: Intent | Committed) -> None:
        text = json.dumps({"format": _FORMAT, **attrs.asdict(value)}, indent=1)
        self._disk.replace(os.path.join(directory, name), text.encode())

    def _load_committed(self, directory: str) -> Committed | None:
        return self._load(os.path.join(directory, "committed.json"), lambda data: Committed(**data))

    def _load_intent(self, directory: str) -> Intent | None:
        def made(data: dict[str, Any]) -> Intent:
            segments = tuple(Segment(**each) for each in data.pop("segments"))
            return Intent(**data, segments=segments)

        return self._load(os.path.join(directory, "intent.json"), made)

    def _load(self, path: str, make: Callable[[dict[str, Any]], _T]) -> _T | None:
        if not self._disk.exists(path):
            return None
        try:
            data = json.loads(self._disk.read_file(path))
            if data.pop("format") != _FORMAT:
                raise ValueError(f"another format than {_FORMAT}")
            return make(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(
                path,
                0,
                f"not what a stream has written: {error}. It says which batches are in the store: "
                "put back the right one, or begin a new query with a checkpoint of its own",
            ) from error


def _key_of(segments: Sequence[Segment]) -> str:
    keys = {each.key for each in segments}
    if len(keys) != 1:
        raise SparkReputError("JOB", f"one batch of {len(keys)} queries: {sorted(keys)}")
    return keys.pop()
