"""`CommitLog`: appends records, rolls from file to file, and reads records.

One lock orders all appends. Under the lock a message gets its physical offset, its queue offset and
its store time; everything else was encoded before. Readers take no lock: `max_physical_offset`
grows only when a record is whole in the map.

Source: RocketMQ ``CommitLog``. A record's size word is written after all its other bytes, so that a
reader, also in another process, sees no record rather than half a record.
"""

from __future__ import annotations

import contextlib
import logging
import struct
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
from reput.files.mapping.mapped import MappedFile
from reput.files.mapping.prefault import PREFAULT_STEP, Prefaulter
from reput.locks import let_go_wholly, new_lock
from reput.log.reading.reader import LogReader
from reput.log.writing.flusher import GroupCommit
from reput.log.writing.receipts import BatchReceipt, Receipt
from reput.record.encoding.lightqueues import InQueues, in_queues
from reput.record.encoding.one import Encoder, Prepared, unpackable
from reput.record.ids import pack_host
from reput.record.layout import (
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    SIZE_AND_MAGIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files.mapping.allocate import FileAllocator
    from reput.files.mapping.mapped import MappedFileQueue
    from reput.files.system.disk import Disk
    from reput.log.config import CommitLogConfig
    from reput.log.losses import LossLedger
    from reput.log.reading.holes import DamagedRange
    from reput.log.reading.reader import LogEnd
    from reput.record.encoding.many import PreparedMany

logger = logging.getLogger(__name__)

__all__ = ["CommitLog", "encoder_of"]

_new_receipt = tuple.__new__
_join = b"".join
_pack_size = struct.Struct(">i").pack_into


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
        holes: Sequence[DamagedRange] = (),
        allocator: FileAllocator | None = None,
        clock: Callable[[], int] | None = None,
        follows: bool = False,
        threads: bool = True,
    ) -> None:
        """Open a log whose end is known, and below which everything counts as on disk.

        Args:
            files: the log's files, loaded.
            config: the log's options.
            disk: file operations.
            end: where the log ends.
            ledger: the known losses.
            holes: damaged ranges before the end, which scans skip.
            allocator: makes new files; None for a log that is only read.
            clock: returns now, ms; the system's when left out.
            follows: whether another process may be writing.
            threads: whether the log may start threads.
        """
        super().__init__(
            files,
            config.window_size,
            ledger=ledger,
            end=end,
            holes=holes,
            keeps_records_after_damage=config.recovery == "reput",
            follows=follows,
        )
        self.config = config
        self.encoder = encoder_of(config)
        self.store_host = self.encoder.store_host
        self.flusher = GroupCommit(self, end.offset)
        """Flushes appended bytes."""
        self._disk = disk
        self.queue_offsets: dict[tuple[str, int], int] = {}
        """Next queue offset of every (topic, queue id)."""
        self.wake: Callable[[], None] | None = None
        """Set by an idle reader. The next append calls and clears it, under the lock, so that other
        appends do not pay for it."""
        self._allocator = allocator
        # Taken by `with` only (but see `append`): between `acquire` and `try` a signal handler may
        # run and raise. Reentrant, as the handler may call the log on the thread that has the lock.
        self._lock = new_lock()
        self._is_appending = False
        """Whether the thread that has the lock is inside of an append. Only its own signal handlers
        and destructors see it set."""
        self._is_closed = False
        # Nanoseconds, so that the system's own function is called, without a Python frame.
        self._now: Callable[[], int] = (
            time.time_ns if clock is None else lambda: clock() * 1_000_000
        )
        self._file: MappedFile | None = None
        self._map: Any = None
        self.last_record_offset = end.last_record_offset
        """Where the newest record begins; -1 in an empty log."""
        self._base = 0
        self._record_limit = -1
        """Appends that end after this offset take the slow path (`_make_room`: roll, refuse). -1
        sends every append there."""
        self._file_limit = -1
        """No record of the active file may end after this offset."""
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

    def start_writing(self, queue_offsets: Mapping[tuple[str, int], int]) -> None:
        """Accept appends from now on.

        Args:
            queue_offsets: next queue offset of every (topic, queue id).
        """
        end_offset = self._end_offset
        self.queue_offsets = dict(queue_offsets)
        self._refusal = None
        base = self.files.base_of(end_offset)
        if base is not None:
            path = self.files.path(base)
            self._use(MappedFile.open(path, base, self.file_size, self._disk), end_offset)
        if self.prefaults:
            self._prefaulter.start()
        if self._allocator is not None:
            self._allocator.start()

    def refuse(self, refusal: PutError) -> None:
        """Refuse all appends from now on; each raises ``refusal``."""
        with self._lock:
            if self._refusal is None:
                self._refusal = refusal
            self._record_limit = self._file_limit = -1

    @property
    def refusal(self) -> PutError | None:
        """Why the log refuses appends; None while it accepts them."""
        return self._refusal

    def close(self) -> None:
        """Close the files, without flushing."""
        self._prefaulter.stop()
        with self._lock:
            self._record_limit = self._file_limit = -1
            for file in self.unflushed:
                file.close()
            self.unflushed = []
            self._file = self._map = None
            self._is_closed = True

    @contextlib.contextmanager
    def lock_let_go(self, refusal: PutError) -> Iterator[None]:
        """Release the lock during the ``with`` block, if this thread holds it in an append.

        For a signal handler that closes the store in the middle of a put, and so waits for threads
        that may need the lock. That put, and all later ones, are refused.
        """
        depth = let_go_wholly(self._lock)
        if not depth:
            yield
            return
        self._lock.acquire()  # for a moment: no thread may append before `refuse` was called
        self.refuse(refusal)
        self._is_appending = False
        self._lock.release()
        try:
            yield
        finally:
            self._map = None  # so that the interrupted append cannot write
            self._is_closed = True
            for _ in range(depth):
                self._lock.acquire()

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        return self.flusher.flushed_offset

    def ask_to_wake(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called by the next append, once."""
        self.wake = wake

    def wait_flushed(self, physical_offset: int, timeout: float | None) -> bool:
        """See `reput.log.writing.receipts.FlushProgress`."""
        return self.flusher.wait(physical_offset, timeout)

    def release_flushed(self, flushed_offset: int) -> None:
        """Close files that end at or below ``flushed_offset``, which are no longer written."""
        with self._lock:
            if self._is_appending:
                return  # called by a signal handler in an append: the next flush closes them
            done = [
                file for file in self.unflushed if file.base_offset + file.size <= flushed_offset
            ]
            self.unflushed = [file for file in self.unflushed if file not in done]
        for file in done:
            if file is not self._file:
                file.close()

    # ------------------------------------------------------------------ one message

    def append(self, prepared: Prepared) -> Receipt:
        """Append one message and return its receipt.

        Raises:
            PutError: the log refuses appends, or there is no room for another file.
        """
        size, head, magic, crc, message, body, topic_part, text, born_host, sys_flag, special = (
            prepared
        )
        if special:
            return self.append_each((prepared,))[0]
        topic, queue_id, born = message.topic, message.queue_id, message.born_timestamp
        key = topic, queue_id
        transaction = sys_flag & TRANSACTION_MASK
        # `Encoder.finish` is repeated here inline: saving one call and one tuple is a tenth of a
        # put. Not `with` either: the lock's own methods take half the time. A signal handler that
        # raises runs inside of `acquire`, which then has taken nothing, or after it has returned.
        lock = self._lock
        try:
            lock.acquire()
            if self._is_appending:
                raise _inside_of_put()
            try:
                self._is_appending = True
                offset = self._end_offset
                end_offset = offset + size
                if end_offset > self._record_limit:
                    offset = self._make_room(size)
                    end_offset = offset + size
                # Prepared and rollback records are in no queue: they take no queue offset.
                counts = transaction == 0 or transaction == TRANSACTION_COMMIT
                queue_offset = self.queue_offsets.get(key, 0) if counts else 0
                timestamp = self._now() // 1_000_000
                rest = _join(
                    (
                        head.pack(
                            magic,
                            crc,
                            queue_id,
                            message.flag,
                            queue_offset,
                            offset,
                            sys_flag,
                            timestamp if born is None else born,
                            born_host,
                            timestamp,
                            self.store_host,
                            message.reconsume_times,
                            message.prepared_transaction_offset,
                            len(body),
                        ),
                        body,
                        topic_part,
                        len(text).to_bytes(2, "big"),
                        text,
                    )
                )
                word = size.to_bytes(4, "big")
                position = offset - self._base
                target = self._map
                # Up to the last assignment there is no call, so no signal handler runs
                # (`reput.flags`): the record is written and counted, or neither.
                target[position + 4 : position + size] = rest
                target[position : position + 4] = word
                if counts:
                    self.queue_offsets[key] = queue_offset + 1
                self._end_offset = end_offset
                self.last_record_offset = offset
                if self.wake is not None:
                    self._call_wake()
            except struct.error as error:
                raise unpackable(message, str(error)) from None
            except (TypeError, ValueError):
                self._require_map()
                raise
            finally:
                self._is_appending = False
            lock.release()
        except BaseException:
            if lock._is_owned():  # type: ignore[attr-defined]  # `threading.Condition` uses it, too
                lock.release()
            raise
        return _new_receipt(Receipt, (self, topic, queue_id, queue_offset, offset, size, timestamp))

    def append_each(self, prepared: Sequence[Prepared]) -> list[Receipt]:
        """Append messages of any kind, without other messages in between.

        Raises:
            PutError: a message is refused; then none is appended.
        """
        with self._appending():
            ahead = ChainMap({}, self.queue_offsets)
            light_max = self.config.max_light_queues if self.config.light_queues else None
            placed = [in_queues(each, ahead, self.encoder, light_max) for each in prepared]
            if len(placed) > 1:
                for each in placed:
                    self.encoder.require_fields_fit(each.prepared)
                    self._require_fits(each.prepared[0])
            return [self._append_placed(each) for each in placed]

    def _append_placed(self, placed: InQueues) -> Receipt:
        """Append a message of any kind, light-queue messages and inner batches included."""
        prepared, queue_offset, following = placed
        message, size = prepared[4], prepared[0]
        offset = self._place(size)
        timestamp = self._now() // 1_000_000
        rest = self.encoder.finish(prepared, queue_offset, offset, timestamp)
        self._publish(offset, size.to_bytes(4, "big"), rest, offset, following)
        return Receipt(self, message.topic, message.queue_id, queue_offset, offset, size, timestamp)

    # ------------------------------------------------------------------ many messages

    def append_many(self, prepared: PreparedMany) -> BatchReceipt:
        """Append messages in their order, with one write per chunk and file."""
        count = len(prepared)
        if count:
            self._require_fits(int(prepared.size.max()))
        with self._appending():
            timestamp = self._now() // 1_000_000
            queue_offsets = prepared.assign_queue_offsets(self.queue_offsets)
            ends = prepared.size.cumsum()
            offsets = ends - prepared.size
            done = 0
            while done < count:
                start = self._place(int(prepared.size[done]))
                written = int(ends[done - 1]) if done else 0
                fits = int(ends.searchsorted(self._file_limit - start + written, "right"))
                fits = min(fits, done + prepared.chunk_count)
                offsets[done:fits] += start - written
                data = prepared.encode(slice(done, fits), queue_offsets, offsets, timestamp)
                if start + len(data) > self._record_limit:
                    self._make_room(len(data))
                following = prepared.following_offsets(slice(done, fits), queue_offsets)
                last = int(offsets[fits - 1])
                self._publish(start, data[:4], memoryview(data)[4:], last, following)
                self._prepare_next_file()
                done = fits
        return BatchReceipt(
            progress=self,
            topics=prepared.topics,
            queue_ids=prepared.queue_id,
            queue_offsets=queue_offsets,
            physical_offsets=offsets,
            sizes=prepared.size,
            store_timestamps=np.full(count, timestamp),
        )

    # ------------------------------------------------------------------ under the lock

    @contextlib.contextmanager
    def _appending(self) -> Iterator[None]:
        """Hold the lock for an append; refuse if this thread is inside of another append."""
        with self._lock:
            if self._is_appending:
                raise _inside_of_put()
            try:
                self._is_appending = True
                yield
            except (TypeError, ValueError):
                self._require_map()
                raise
            finally:
                self._is_appending = False

    def _publish(
        self,
        offset: int,
        word: bytes,
        rest: bytes | memoryview,
        last_record_offset: int,
        following: Mapping[tuple[str, int], int],
    ) -> None:
        """Write whole records so that readers see all of them or none, and count them.

        Args:
            offset: where the records begin.
            word: their first four bytes.
            rest: their other bytes.
            last_record_offset: where the last of them begins.
            following: next queue offsets of their queues.
        """
        position = offset - self._base
        size = len(rest)
        target = self._map
        # As in `append`: there is no call from here on but `update`, which ends before any signal
        # handler runs. The first magic is written first: a copy that a kill interrupts may lack its
        # head (C libraries write the unaligned part last), and after a record without magic the
        # next opening would take sound records for acknowledged ones.
        target[position + 4 : position + 8] = rest[:4]
        target[position + 4 : position + 4 + size] = rest
        target[position : position + 4] = word
        self._end_offset = offset + 4 + size
        self.last_record_offset = last_record_offset
        self.queue_offsets.update(following)
        self._call_wake()

    def _require_map(self) -> None:
        """Raise the refusal if this thread's signal handler closed the log in the append."""
        if self._is_closed:
            self._raise_refusal()

    def _raise_refusal(self) -> None:
        # A new error each time: one object raised by many threads would mix their tracebacks.
        refusal = self._refusal
        if refusal is not None:
            raise type(refusal)(*refusal.args) from refusal.__cause__

    def _call_wake(self) -> None:
        wake, self.wake = self.wake, None
        if wake is not None:
            try:
                wake()
            except BaseException:
                self.wake = wake  # the reader may still be asleep
                raise

    def _place(self, size: int) -> int:
        offset = self._end_offset
        return offset if offset + size <= self._file_limit else self._roll(size)

    def _make_room(self, size: int) -> int:
        """Prefault more pages, or roll, for a record that ends after `_record_limit`."""
        offset = self._end_offset
        if offset + size > self._file_limit:
            return self._roll(size)
        # Two steps of pages are kept present; the next is requested when the first is used up.
        limit = min(offset + size + PREFAULT_STEP, self._file_limit)
        if self._refusal is None:  # which a signal handler may have set
            self._record_limit = limit
        position = offset - self._base
        end = min(position + size + 2 * PREFAULT_STEP, self.file_size)
        if self.prefaults:
            self._prefaulter.ask(self._map, position, end)
        self._prepare_next_file()
        return offset

    def _prepare_next_file(self) -> None:
        """Have the next file made if half of this file is written, or if files are small."""
        left = self._file_limit - self._end_offset
        if self._allocator is not None and left <= max(self.file_size // 2, 2 * PREFAULT_STEP):
            self._allocator.prepare()

    def _roll(self, size: int) -> int:
        """End the active file with a blank and begin the next; return the offset to write at."""
        self._raise_refusal()
        self._require_fits(size)
        base = self._end_offset
        if self._file is not None:
            base = self._base + self.file_size
        elif base % self.file_size:
            base -= base % self.file_size
        if self._file is not None:
            self._prefaulter.forget(self._map)
        try:
            # The new file first: if there is no room for it, the old file stays active, and smaller
            # messages may still fit there.
            fresh = self._new_file(base)
        except OSError as error:
            self._require_map()
            raise CreateMappedFileError(
                "commit log", self.files.path(base), None, f"no next file: {error}"
            ) from error
        try:
            self._use(fresh, base)
        except BaseException:
            if self._file is not fresh:
                fresh.close()
            raise
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

    def _use(self, file: MappedFile, end_offset: int) -> None:
        """Write to ``file`` from ``end_offset`` on; end the previous file with a blank."""
        position = self._end_offset - self._base
        blank = SIZE_AND_MAGIC.pack(max(self.file_size - position, 0), BLANK_MAGIC)
        unflushed = [*self.unflushed, file]
        self._raise_refusal()
        # As in `append`: no call from here on, so that all of this happens or nothing.
        if self._file is not None:
            self._map[position + 4 : position + 8] = blank[4:]
            self._map[position : position + 4] = blank[:4]
        self.unflushed = unflushed
        self._file, self._map, self._base = file, file.map, file.base_offset
        self._file_limit = file.base_offset + self.file_size - BLANK_MIN_SIZE
        self._record_limit = -1
        self._end_offset = end_offset


def encoder_of(config: CommitLogConfig) -> Encoder:
    """Return the encoder that ``config`` describes."""
    return Encoder(
        pack_host(config.store_address, config.store_port),
        config.max_message_size,
        record_crc=config.record_crc,
    )


def _inside_of_put() -> ServiceNotAvailableError:
    reason = "this thread is inside of another put, whose signal handler or destructor this is"
    return ServiceNotAvailableError("store", None, None, reason)
