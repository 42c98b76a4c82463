"""`CommitLog`: appends records, rolls from file to file, and reads records.

One lock orders all appends. Under the lock a message gets its physical offset, its queue offset and
its store time; everything else was encoded before. Readers take no lock: `max_physical_offset`
grows only when a record is whole in the map. What grows belongs to the log's `Appender`.

Source: RocketMQ ``CommitLog``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.errors import (
    CreateMappedFileError,
    MessageTooLargeError,
    PutError,
    ReadOnlyStoreError,
    ServiceNotAvailableError,
)
from reput.files.mapping.ahead import PREFAULT_STEP, Prefaulter
from reput.files.mapping.mapped import MappedFile
from reput.locks import new_lock
from reput.log.reading.reader import LogReader
from reput.log.writing.appender import Appender, append_rows, queue_offsets_of_rows
from reput.log.writing.flusher import GroupCommit
from reput.log.writing.receipts import BatchReceipt, Receipt
from reput.record.encoding.lightqueues import InQueues, in_queues
from reput.record.encoding.one import Encoder, Prepared
from reput.record.ids import pack_host
from reput.record.layout import BLANK_MIN_SIZE, TRANSACTION_COMMIT, TRANSACTION_MASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files.mapping.ahead import FileAllocator
    from reput.files.mapping.mapped import MappedFileQueue
    from reput.files.system.disk import Disk
    from reput.log.config import CommitLogConfig
    from reput.log.damage import Damage
    from reput.log.losses import LossLedger
    from reput.log.reading.beside import LogEnd, Tail
    from reput.log.reading.windows import CheckedRanges
    from reput.log.writing.appender import PutAtOnce, QueueKey
    from reput.log.writing.feeding import Feeding
    from reput.record.encoding.many import PreparedMany

logger = logging.getLogger(__name__)

__all__ = ["CommitLog"]

_LEAST_STEP = 512 << 10  # bytes of pages that are kept present in a new log, at least
_new_receipt = tuple.__new__


class CommitLog(LogReader):
    """The log of one store, open for reading and, after `start_writing`, for appending."""

    def __init__(
        self,
        files: MappedFileQueue,
        config: CommitLogConfig,
        disk: Disk,
        *,
        end: LogEnd,
        ledger: LossLedger | None = None,
        damages: Sequence[Damage] = (),
        allocator: FileAllocator | None = None,
        clock: Callable[[], int] | None = None,
        follows: bool = False,
        tail: Tail | None = None,
        threads: bool = True,
        checked: CheckedRanges | None = None,
        master: str | None = None,
    ) -> None:
        """Open a log whose end is known, and below which everything counts as on disk.

        Args: those of `LogReader`, and
            config: the log's options.
            disk: file operations.
            allocator: makes new files; None for a log that is only read.
            clock: returns now, ms; the system's when left out.
            threads: whether the log may start threads.
            master: whose bytes the log is fed with; None if it takes puts.
        """
        host, limit = pack_host(*config.store_host), config.max_message_size
        encoder = Encoder(host, limit, record_crc=config.record_crc)
        self._appender = Appender(encoder, end.offset, end.last_record_offset, clock)
        super().__init__(
            files,
            config.window_size,
            ledger=ledger,
            end=end,
            damages=damages,
            keeps_records_after_damage=config.recovery == "reput",
            follows=follows,
            appender=None if follows else self._appender,
            tail=tail,
            checked=checked,
        )
        self.config = config
        self.master = master
        """Name of the master of a replica; None in a store that takes puts."""
        self.feeding: Feeding | None = None
        """Takes the master's bytes, in a replica that is open for writing."""
        self.encoder = encoder
        self.store_host = encoder.store_host
        self.flusher = GroupCommit(self, self._appender)
        """Flushes appended bytes."""
        self.wait_flushed = self.flusher.wait
        """See `reput.log.writing.receipts.FlushProgress`."""
        self._disk = disk
        self._allocator = allocator
        # Taken by `with` only: between `acquire` and `try` a signal handler may run and raise.
        # Reentrant, as the handler may call the log on the thread that has the lock.
        self._lock = new_lock()
        # Nanoseconds, so that the system's own function is called, without a Python frame.
        self._now: Callable[[], int] = (
            time.time_ns if clock is None else lambda: clock() * 1_000_000
        )
        self._prefaulter = Prefaulter()
        # Not if every put is flushed: a flush examines all present pages, so that prefaulted pages
        # make it take 700 instead of 160 microseconds.
        self.prefaults = config.flush != "sync" and threads
        """Whether a thread makes pages present ahead of the writer."""
        self._refusal: PutError | None = ReadOnlyStoreError(
            "store", None, None, 'it was opened with mode="r"; open it with mode="w" to put'
        )
        self.unflushed: list[MappedFile] = []
        """Files with bytes that are not on disk yet, oldest first; the last is the active file."""

    # ------------------------------------------------------------------ life cycle

    def start_writing(
        self, queue_offsets: Mapping[tuple[str, int], int], feeding: Feeding | None = None
    ) -> None:
        """Accept appends from now on.

        Args:
            queue_offsets: next queue offset of every (topic, queue id).
            feeding: appends a master's bytes, in a replica, which accepts no puts.
        """
        appender = self._appender
        end_offset = appender.end_offset
        appender.start_queues(queue_offsets)
        appender.allow()
        self.feeding = feeding
        self._refusal = None
        base = self.files.base_of(end_offset)
        if base is not None:
            path = self.files.path(base)
            used = end_offset - base
            self._begin(MappedFile.open(path, base, self.file_size, self._disk, used), end_offset)
        if self.prefaults:
            self._prefaulter.start()
        if self._allocator is not None:
            self._allocator.start()

    def start_puts(self, queue_offsets: Mapping[tuple[str, int], int]) -> None:
        """Accept puts, and no more bytes of a master; see `start_writing`."""
        with self.appending():
            self.raise_refusal()
            if self.feeding is not None:
                self.feeding.drop_rest()
            self._appender.start_queues(queue_offsets)
            self.master = self.feeding = None

    def refuse(self, refusal: PutError) -> None:
        """Refuse all appends from now on; each raises ``refusal``."""
        with self._lock:
            if self._refusal is None:
                self._refusal = refusal
            self._appender.refuse()

    def close(self) -> None:
        """Close the files, without flushing."""
        self.flusher.stop()
        self._prefaulter.stop()
        with self._lock:
            self._appender.refuse()
            self._appender.let_go()
            for file in self.unflushed:
                file.close()
            self._set_unflushed([])

    def end_interrupted_append(self, refusal: PutError) -> None:
        """Let the append that this thread is inside of write nothing, and refuse all others.

        For a signal handler that is about to close the store: other threads may take the lock then.
        """
        with self._lock:
            if self._appender.is_appending:
                self.refuse(refusal)
                self._appender.is_appending = False
                self._appender.let_go()

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        return self.flusher.flushed_offset

    @property
    def last_record_offset(self) -> int:
        """Where the newest record begins; -1 in an empty log."""
        return self._appender.last_record_offset

    @property
    def queue_offsets(self) -> dict[QueueKey, int] | None:
        """The next queue offset of every queue: a copy. None in a replica, which gives none."""
        return self._appender.queue_offsets() if self.master is None else None

    @property
    def is_begun(self) -> bool:
        """Whether there is an active file."""
        return self._appender.file is not None

    @property
    def file_end(self) -> int:
        """Physical offset at which the active file ends."""
        return self._appender.base_offset + self.file_size

    def ask_to_wake(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called by the next append, once."""
        self._appender.ask_to_wake(wake)

    def release_flushed(self, flushed_offset: int) -> None:
        """Close files that end at or below ``flushed_offset``, which are no longer written."""
        with self._lock:
            if self._appender.is_appending:
                return  # called by a signal handler in an append: the next flush closes them
            done = [
                file for file in self.unflushed if file.base_offset + file.size <= flushed_offset
            ]
            self._set_unflushed([file for file in self.unflushed if file not in done])
        for file in done:
            if file is not self._appender.file:
                file.close()

    # ------------------------------------------------------------------ one message

    def put_at_once(self, topics: frozenset[str], properties: frozenset[str]) -> PutAtOnce | None:
        """See `Appender.put_at_once`."""
        return self._appender.put_at_once(self, topics, properties)

    def append(self, prepared: Prepared) -> Receipt:
        """Append one message and return its receipt.

        Raises:
            PutError: the log refuses appends, or there is no room for another file.
        """
        if prepared[10]:
            return self.append_each((prepared,))[0]
        size, message, sys_flag = prepared[0], prepared[4], prepared[9]
        key = message.topic, message.queue_id
        transaction = sys_flag & TRANSACTION_MASK
        # Prepared and rollback records are in no queue: they take no queue offset.
        counts = transaction == 0 or transaction == TRANSACTION_COMMIT
        word = size.to_bytes(4, "big")
        appender = self._appender
        # Not by `appending`, which takes a fifth of the time of a put.
        with self._lock:
            if appender.is_appending:
                raise _inside_of_put()
            try:
                appender.is_appending = True
                offset = appender.end_offset
                if offset + size > appender.record_limit:
                    offset = self._make_room(size, size)
                queue_offset = appender.next_queue_offset(key) if counts else 0
                timestamp = self._now() // 1_000_000
                rest = self.encoder.finish(prepared, queue_offset, offset, timestamp)
                following = {key: queue_offset + 1} if counts else {}
                appender.publish(offset, word, rest, offset, following)
                appender.call_wake()
            except (AttributeError, TypeError, ValueError):
                self.raise_refusal()
                raise
            finally:
                appender.is_appending = False
        return _new_receipt(Receipt, (self, key[0], key[1], queue_offset, offset, size, timestamp))

    def append_each(self, prepared: Sequence[Prepared], *, whole: bool = False) -> list[Receipt]:
        """Append messages of any kind, without other messages in between.

        Args:
            prepared: the messages.
            whole: see `append_many`.

        Raises:
            PutError: a message is refused, and then none is appended; or there is no room for all,
                and then the error says which are stored.
        """
        receipts: list[Receipt] = []
        try:
            with self.appending():
                ahead = ChainMap({}, self._appender.queue_offsets())
                light_max = self.config.max_light_queues or None
                placed = [in_queues(each, ahead, self.encoder, light_max) for each in prepared]
                if len(placed) > 1:
                    for each in placed:
                        self.encoder.finish(each.prepared, 0, 0, 0)  # refuses what does not fit
                        self._require_fits(each.prepared[0])
                size = sum(each.prepared[0] for each in placed)
                has_room = whole and self._make_room_for_all(size, size)
                for each in placed:
                    # One by one, so that after an error the list has those before it.
                    receipts.append(self._append_placed(each, has_room=has_room))  # noqa: PERF401
        except PutError as error:
            BatchReceipt.of(self, receipts).note_in(error)
            raise
        return receipts

    def _append_placed(self, placed: InQueues, *, has_room: bool) -> Receipt:
        """Append a message of any kind, light-queue messages and inner batches included."""
        prepared, queue_offset, following = placed
        message, size = prepared[4], prepared[0]
        if has_room:
            self.raise_refusal()  # a signal handler may have closed the log
        offset = self._appender.end_offset if has_room else self._make_room(size, size)
        timestamp = self._now() // 1_000_000
        rest = self.encoder.finish(prepared, queue_offset, offset, timestamp)
        self._appender.publish(offset, size.to_bytes(4, "big"), rest, offset, following)
        self._appender.call_wake()
        return Receipt(self, message.topic, message.queue_id, queue_offset, offset, size, timestamp)

    # ------------------------------------------------------------------ many messages

    def append_many(self, prepared: PreparedMany, *, whole: bool = False) -> BatchReceipt:
        """Append messages in their order, with one write per chunk and file.

        Args:
            prepared: the messages.
            whole: whether messages that fit into one file are stored in one file: all or none, as
                their room is made before the first byte is written.

        Raises:
            PutError: a message is refused, and then none is appended; or there is no room for all,
                and then the error says which are stored.
        """
        count = len(prepared)
        if count:
            self._require_fits(int(prepared.size.max()))
        receipt = BatchReceipt(
            progress=self,
            topics=prepared.topics,
            queue_ids=prepared.queue_id,
            queue_offsets=np.zeros(count, np.int64),
            physical_offsets=np.full(count, -1, np.int64),
            sizes=prepared.size,
            store_timestamps=np.zeros(count, np.int64),
        )
        try:
            self._append_all(prepared, receipt, whole)
        except PutError as error:
            ends = receipt.physical_offsets + receipt.sizes
            stored = (receipt.physical_offsets >= 0) & (ends <= self._appender.end_offset)
            receipt.first(int(stored.sum())).note_in(error)
            raise
        return receipt

    def _append_all(self, prepared: PreparedMany, receipt: BatchReceipt, whole: bool) -> None:
        with self.appending():
            timestamp = self._now() // 1_000_000
            receipt.store_timestamps[:] = timestamp
            receipt.queue_offsets = queue_offsets_of_rows(self._appender, prepared)
            done, count, ends = 0, len(prepared), prepared.size.cumsum()
            has_room = (
                count > 0
                and whole
                and self._make_room_for_all(int(ends[-1]), prepared.mapped_size(0))
            )
            while done < count:
                if has_room:
                    self.raise_refusal()  # a signal handler may have closed the log
                else:
                    size = int(prepared.size[done])
                    left = int(ends[-1] - ends[done]) + size
                    self._make_room(size, prepared.mapped_size(done), left)
                places = receipt.queue_offsets, receipt.physical_offsets, timestamp
                done = self._append_rows(prepared, done, *places)
                self._appender.call_wake()
                self._prepare_next_file()

    def _append_rows(self, prepared: PreparedMany, done: int, *places: Any) -> int:
        """See `append_rows`; a disk without room is the error that all puts raise."""
        try:
            return append_rows(self._appender, prepared, done, *places)
        except OSError as error:
            file = self._appender.file
            if file is None:
                raise
            raise self._no_space(file, error) from error

    # ------------------------------------------------------------------ bytes of a master

    def publish(self, offset: int, word: bytes, rest: memoryview, last_record_offset: int) -> None:
        """Append whole records for `Feeding`, which holds the lock; see `Appender.publish`."""
        self._appender.publish(offset, word, rest, last_record_offset, {})
        self._appender.call_wake()

    def store(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes of the active file after the log's end, for `Feeding`."""
        position = offset - self._appender.base_offset
        self._appender.file.map[position : position + len(data)] = data  # type: ignore[union-attr]

    # ------------------------------------------------------------------ under the lock

    @contextlib.contextmanager
    def appending(self) -> Iterator[None]:
        """Hold the lock for an append; refuse if this thread is inside of another append."""
        appender = self._appender
        with self._lock:
            if appender.is_appending:
                raise _inside_of_put()
            try:
                appender.is_appending = True
                yield
            except (AttributeError, TypeError, ValueError):
                self.raise_refusal()
                raise
            finally:
                appender.is_appending = False

    def raise_refusal(self) -> None:
        """Raise why the log refuses appends; do nothing while it accepts them."""
        # A new error each time: one object raised by many threads would mix their tracebacks.
        refusal = self._refusal
        if refusal is not None:
            raise type(refusal)(*refusal.args) from refusal.__cause__

    def _make_room(self, size: int, mapped_size: int, left: int = 0) -> int:
        """Return where a record is to begin: at the log's end, or in the next file.

        Args:
            size: bytes of the record, or of all records that are to be in one file.
            mapped_size: bytes that will be written there through the map, for which pages are made
                present.
            left: bytes of all records that will be written there, one after the other.
        """
        appender = self._appender
        # Every put of a replica comes here, as its appender has no room that was made before.
        if self.feeding is not None:
            raise self.feeding.refusal()
        offset = appender.end_offset
        if offset + size > appender.file_limit:
            offset = self._roll(size)
        if offset + mapped_size > appender.record_limit:
            appender.move_record_limit(self.look_ahead(offset, mapped_size))
        if left > mapped_size:
            self._reserve(offset + left)
        return offset

    def _make_room_for_all(self, size: int, mapped_size: int) -> bool:
        """Make room for records in one file, before the first of them; False if none is so large.

        Args:
            size: of all records.
            mapped_size: see `_make_room`.
        """
        has_room = size <= self.file_size - BLANK_MIN_SIZE
        if has_room:
            self._make_room(size, mapped_size, size)
        return has_room

    def look_ahead(self, offset: int, size: int) -> int:
        """Have space and pages for bytes at ``offset`` and after, and the next file if it is near.

        Returns:
            Up to where there is space.
        """
        # Two steps of pages are kept present; the next is requested when the first is used up. A
        # log with little in it takes small steps.
        appender, file = self._appender, self._appender.file
        position = offset - appender.base_offset
        step = min(max(position, _LEAST_STEP), PREFAULT_STEP)
        limit = min(offset + size + step, appender.file_limit)
        self._reserve(max(limit, offset + size))
        if self.prefaults and file is not None:
            end = min(position + size + 2 * step, file.size)
            self._prefaulter.ask(file, position, end)
        self._prepare_next_file()
        return limit

    def _reserve(self, end_offset: int) -> None:
        """Give the active file space for records that end up to ``end_offset`` and for a blank."""
        file = self._appender.file
        if file is None:
            return
        try:
            file.reserve(min(end_offset + BLANK_MIN_SIZE - file.base_offset, file.size))
        except OSError as error:
            raise self._no_space(file, error) from error

    def _no_space(self, file: MappedFile, error: OSError) -> CreateMappedFileError:
        position = self._appender.end_offset - file.base_offset
        return CreateMappedFileError(
            "commit log", file.path, position, f"no space for more: {error}"
        )

    def _prepare_next_file(self) -> None:
        """Have the next file made if half of this file is written, or if files are small."""
        left = self._appender.file_limit - self._appender.end_offset
        if self._allocator is not None and left <= max(self.file_size // 2, 2 * PREFAULT_STEP):
            self._allocator.prepare()

    def _roll(self, size: int) -> int:
        """End the active file with a blank and begin the next; return the offset to write at."""
        self.raise_refusal()
        self._require_fits(size)
        end_offset = self._appender.end_offset
        return self.begin_next_file(end_offset - end_offset % self.file_size)

    def begin_next_file(self, base: int) -> int:
        """Begin the next file, or the first one at ``base``; end the active file with a blank.

        For whoever holds the lock; returns the new file's base.
        """
        self.raise_refusal()
        active = self._appender.file
        if active is not None:
            base = active.base_offset + active.size
            self._prefaulter.forget(active)
        try:
            # The new file first: if there is no room for it, the old file stays active, and smaller
            # messages may still fit there.
            fresh = self._new_file(base)
        except OSError as error:
            if self._appender.file is not active:
                self.raise_refusal()  # a signal handler closed the log
            raise CreateMappedFileError(
                "commit log", self.files.path(base), None, f"no next file: {error}"
            ) from error
        self._begin(fresh, base)
        logger.info("rolled file=%s", fresh.path)
        return base

    def _require_fits(self, size: int) -> None:
        limit = self.file_size - BLANK_MIN_SIZE
        if size > limit:
            raise MessageTooLargeError("record", size, limit, "bytes, in files of this size")

    def _new_file(self, base: int) -> MappedFile:
        if self._allocator is None:
            raise ServiceNotAvailableError("store", None, None, "it is not open for writing")
        self._disk.make_directory(self.files.directory)
        path = self.files.finish_adding(base) or self.files.add(base, self._allocator.take())
        return MappedFile.open(path, base, self.file_size, self._disk)

    def _begin(self, file: MappedFile, end_offset: int) -> None:
        """Write to ``file`` from ``end_offset`` on; close it again where that cannot be."""
        try:
            self._set_unflushed([*self.unflushed, file])
            self._appender.begin_file(file, end_offset)
        except BaseException:
            if self._appender.file is not file:
                self._set_unflushed([each for each in self.unflushed if each is not file])
                file.close()
            raise

    def _set_unflushed(self, files: list[MappedFile]) -> None:
        self.unflushed = files
        self.flusher.cover(files)


def _inside_of_put() -> ServiceNotAvailableError:
    reason = "this thread is inside of another put, whose signal handler or destructor this is"
    return ServiceNotAvailableError("store", None, None, reason)
