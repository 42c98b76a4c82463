"""Put the rows of one batch, each exactly once, whatever happens in between.

    <store>/reput/spark/query-<id>/ or write-<id>/
        <batch>-….arrow       segments: rows that wait to be put
        intent.json           the batch that is being put: its segments, and where the log ended

The order, and what a crash leaves at each place:

1. segments, on disk before the driver gets their names: a crash leaves some, swept later;
2. the store's lock, held to the end;
3. a flush of the log, so that the place in the intent stays valid;
4. the intent: from here on the batch is put from these segments, and from no others;
5. the rows, by partition, then by row: a crash leaves some of them in the log. The process
   that settles the batch looks for them after the intent's place, and puts the others. Now and then
   the log is flushed and the intent moved behind what is there, so that this never is much;
6. a flush, and only then the note that all of it is there: what that says is on disk;
7. the intent and the segments go: a crash leaves some, which say nothing any more.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

import reput
from reput.errors import PluginFlushError, PutError, StoreLockedError
from reput.files import Disk, system_clock
from reput.log import LOG_SECTION
from reput_arrow.localpaths import local_path
from reput_arrow.logwriter.writeoptions import WriteOptions
from reput_spark.errors import SparkReputError
from reput_spark.writer.commitjournal import CommitIntent, CommitJournal
from reput_spark.writer.options import SinkOptions
from reput_spark.writer.reconciliation.rowmatching import found_rows
from reput_spark.writer.reconciliation.stamps import stamped, stamped_rows
from reput_spark.writer.rows import messages_of
from reput_spark.writer.segments import Segment, read_segment
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    import numpy.typing as npt


logger = logging.getLogger(__name__)

_LOCK_POLL: Final = 0.05
_STEP_SIZE: Final = 256 << 20
"""Bytes of rows after which an intent is moved."""


@attrs.define(eq=False)
class Opening:
    """Opens the store of a write or a stream; all but the options is for tests."""

    options: SinkOptions | WriteOptions
    disk: Disk = attrs.field(factory=Disk)
    """Bound to nothing: for what is above the store, too."""
    threads: bool = True
    """As of `reput.open`."""
    now: Callable[[], int] = system_clock
    """ms."""
    clock: Callable[[], float] = time.monotonic
    """Seconds; for how long the lock is waited for."""
    wait: Callable[[float], object] = time.sleep
    """Waits so many seconds, until the lock is looked at again."""
    root: str = attrs.field(init=False)
    """The store's directory, absolute."""
    bound: Disk = attrs.field(init=False)
    """File operations below the store's directory."""

    def __attrs_post_init__(self) -> None:
        self.root = local_path(self.options.path)
        self.bound = self.disk.at(self.root, follow_links=self.options.follow_links)

    def open(self) -> reput.Store:
        """Open the store, as soon as no other process has it open.

        Raises:
            SparkReputError: it stays open elsewhere.
        """
        options, give_up = self.options, self.clock() + self.options.lock_timeout
        is_new = inspect_store(self.root, disk=self.bound).manifest is None
        size = {"file_size": options.file_size} if is_new and options.file_size else {}
        plugins = options.plugins if is_new and isinstance(options, SinkOptions) else None
        while True:
            try:
                return reput.open(
                    self.root,
                    plugins=plugins,
                    config={LOG_SECTION: size} if size else {},
                    disk=self.disk,
                    follow_links=options.follow_links,
                    threads=self.threads,
                )
            except StoreLockedError as error:
                if self.clock() >= give_up:
                    raise SparkReputError(
                        "LOCKED",
                        f"{error}; after {options.lock_timeout:g} s of waiting. Spark opens the "
                        "store for each write and each batch of a stream: close it elsewhere, read "
                        'it with mode="r", or wait longer with the option lock_timeout. A batch of '
                        "a stream comes again when the query is started again",
                    ) from error
                self.wait(_LOCK_POLL)


@attrs.define(eq=False)
class Putter:
    """Puts batches into an open store, whose lock it has so."""

    store: reput.Store
    root: str
    notes: CommitJournal
    told: Callable[[int], None] = lambda size: None
    """Called with the bytes of segments that are put, in all."""

    def begin(
        self,
        batch_id: int,
        segments: Sequence[Segment],
        now: int,
        *,
        stamp: str = "",
        name: str = "",
    ) -> CommitIntent:
        """Note that a batch is put from these segments.

        Args:
            batch_id: its number.
            segments: those with rows.
            now: ms.
            stamp: how stamps begin; empty for none.
            name: of the write; empty for a batch of a stream.

        Raises:
            SparkReputError: a segment is gone. Nothing is noted.
        """
        ordered = tuple(sorted(segments, key=lambda each: (each.partition, each.name)))
        for each in ordered:
            if not self.notes.disk.exists(os.path.join(self.notes.directory, each.name)):
                next(read_segment(self.root, each, self.notes.disk))  # says what is wrong
        end = self.store.log.max_physical_offset
        intent = CommitIntent(batch_id, end, now, ordered, 0, end, stamp, name)
        self._flush()
        self.notes.save(intent)
        return intent

    def found(self, intent: CommitIntent) -> npt.NDArray[Any]:
        """Return ``(n,)`` bool: which of the rows that are not done the log has.

        Raises:
            SparkReputError: the log has lost its place.
        """
        log = self.store.log
        if intent.log_end < log.min_physical_offset:
            raise SparkReputError(
                "DATA_LOSS",
                f"{self.notes.directory}: batch {intent.batch_id} was being put behind "
                f"{intent.log_end} when its commit ended, and the log begins at "
                f"{log.min_physical_offset} now: nobody can tell which of its rows were there. "
                "Remove intent.json to put all of them",
            )
        start = min(intent.log_end, log.max_physical_offset)
        if intent.stamp:
            count = intent.row_count - intent.done
            return stamped_rows(log, start, intent.stamp, intent.done, count)
        rows = (batch for _, _, batch in self._rest(intent))
        return found_rows(rows, intent.born_timestamp, log, log.encoder, start)

    def put(self, intent: CommitIntent, found: npt.NDArray[Any] | None = None) -> None:
        """Put the rows of a batch that were not found; all are on disk at the end.

        Raises:
            SparkReputError: the store refuses a row.
        """
        step = 0
        for row, size, batch in self._rest(intent):
            there = None if found is None else found[row - intent.done :]
            # Found rows are before the offset that the intent would be moved to.
            if size - step >= _STEP_SIZE and (there is None or not there.any()):
                self._flush()
                end = self.store.log.max_physical_offset
                self.notes.save(attrs.evolve(intent, done=row, log_end=end))
                step = size
            self._put(batch, intent, row, None if there is None else there[: len(batch)])
            self.told(size)
        self._flush()

    def _rest(self, intent: CommitIntent) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Yield rows that are not done: number of the first, bytes up to the last, the rows."""
        row = size = 0
        for segment in intent.segments:
            first, row = row, row + segment.row_count
            if row > intent.done:
                number = first
                for batch in read_segment(self.root, segment, self.notes.disk):
                    skipped, number = max(intent.done - number, 0), number + len(batch)
                    if skipped < len(batch):
                        share = segment.size * (number - first) // segment.row_count
                        yield number - len(batch) + skipped, size + share, batch.slice(skipped)
            size += segment.size

    def _flush(self) -> None:
        try:
            self.store.flush()
        except PluginFlushError as error:
            # The log is on disk. To fail here would have the caller write the rows once more.
            logger.warning("a plugin is behind root=%s error=%s", self.root, error)

    def _put(
        self,
        batch: pa.RecordBatch,
        intent: CommitIntent,
        first: int,
        there: npt.NDArray[Any] | None,
    ) -> None:
        if there is not None and there.any():
            if intent.stamp:  # each row has its own number: those between two that are there
                for start, end in _runs(~there):
                    self._put(batch.slice(start, end - start), intent, first + start, None)
                return
            batch = batch.filter(pa.array(~there))
        if len(batch) == 0:
            return
        try:
            messages = messages_of(batch, intent.born_timestamp)
            if intent.stamp:
                messages = stamped(messages, intent.stamp, first)
            self.store.put_many(messages)
        except PutError as error:
            raise SparkReputError(
                "JOB",
                f"batch {intent.batch_id}, in the {len(batch)} rows from row {first} on: {error}. "
                "The missing rows are put when the query is started again, or by the next "
                "write",
            ) from error


def _runs(wanted: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Return the half-open ranges of rows that are wanted."""
    borders = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    return list(zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True))
