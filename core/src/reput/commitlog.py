"""`CommitLog`: appends records, rolls from file to file, reads them back.

One lock orders all appends. Inside it a message gets its place, its queue offset and its store
time; everything else of it was encoded before. Readers take no lock: `max_physical_offset` grows
only when a record is whole in the map.

Source: RocketMQ ``CommitLog``. The size word of a record is written behind all its other bytes, so
that whoever reads the file at that moment, another process too, finds no record rather than half of
one.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.encode import Encoder, Prepared, unpackable
from reput.errors import (
    CreateMappedFileError,
    MessageTooLargeError,
    PutError,
    ReadOnlyStoreError,
    ServiceNotAvailableError,
)
from reput.layout import (
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    INNER_BATCH,
    SIZE_AND_MAGIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)
from reput.logreader import CommitLogReader
from reput.mappedfile import MappedFile
from reput.multidispatch import inner_message_count, with_light_queue_offsets
from reput.prefault import PREFAULT_STEP, Prefaulter
from reput.results import BatchReceipt, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.allocate import FileAllocator
    from reput.columns import PreparedMany
    from reput.config import CommitLogConfig
    from reput.disk import Disk, FilePool
    from reput.flush import LogFlusher

logger = logging.getLogger(__name__)

__all__ = ["CommitLog"]

_new_receipt = tuple.__new__
_join = b"".join
_pack_size = struct.Struct(">i").pack_into


class CommitLog(CommitLogReader):
    """The log of one store, open for reading and, once `start_writing` was called, for writing."""

    def __init__(
        self,
        directory: str,
        config: CommitLogConfig,
        encoder: Encoder,
        disk: Disk,
        pool: FilePool,
        allocator: FileAllocator | None,
        clock: Callable[[], int] | None,
    ) -> None:
        super().__init__(directory, config.file_size, disk, pool, config.window_size)
        self.config = config
        self.encoder = encoder
        self.store_host = encoder.store_host
        self.flusher: LogFlusher
        """Set by the store before anything is appended."""
        self.queue_offsets: dict[tuple[str, int], int] = {}
        """Next queue offset of every (topic, queue id)."""
        self.wake: Callable[[], None] | None = None
        """Called under the lock by the append that finds it set, which then takes it away: how an
        idle reader asks to be woken without every append paying for it."""
        self._allocator = allocator
        self._lock = threading.Lock()
        # Nanoseconds: the system's own function is called without a Python frame in between.
        self._now: Callable[[], int] = (
            time.time_ns if clock is None else lambda: clock() * 1_000_000
        )
        self._file: MappedFile | None = None
        self._map: Any = None
        self.last_record_offset = -1
        """Where the newest record begins; -1 in an empty log."""
        self._base = 0
        self._record_limit = -1
        """An append that ends behind this looks closer, in `_make_room`; with -1 every one does."""
        self._file_limit = -1
        """No record of the active file may end behind this."""
        self._prefaulter = Prefaulter()
        # Not when every put is flushed: pages that are present but not written yet make each flush
        # look at them, 700 microseconds where 160 do.
        self.prefaults = config.flush != "sync"
        """Whether a thread makes pages present ahead of the writer."""
        self._refusal: PutError | None = ReadOnlyStoreError(
            "store", None, None, 'it was opened with mode="r"; open it with mode="w" to put'
        )
        self.unflushed: list[MappedFile] = []
        """Files that hold bytes which are not on disk yet, oldest first; the last is the active."""

    # ------------------------------------------------------------------ life cycle

    def use_allocator(self, allocator: FileAllocator) -> None:
        """Take new files from ``allocator``."""
        self._allocator = allocator

    def start_writing(self, end_offset: int) -> None:
        """Make ``end_offset`` the end of the log and take appends from now on."""
        self._end_offset = end_offset
        self._refusal = None
        base = self.files.base_of(end_offset)
        if base is not None:
            path = self.files.path(base)
            self._use(MappedFile.open(path, base, self.file_size, self._disk))

    def refuse(self, refusal: PutError) -> None:
        """Take no appends any more; every one of them raises ``refusal``."""
        with self._lock:
            if self._refusal is None:
                self._refusal = refusal
            self._record_limit = self._file_limit = -1

    @property
    def refusal(self) -> PutError | None:
        """Why the log takes no appends; None while it does."""
        return self._refusal

    def close(self) -> None:
        """Close files; what was not flushed is not flushed by this."""
        self._prefaulter.stop()
        with self._lock:
            self._record_limit = self._file_limit = -1
            for file in self.unflushed:
                file.close()
            self.unflushed = []
            self._file = self._map = None

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        return self.flusher.flushed_offset

    def ask_to_wake(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called by the next append, once."""
        self.wake = wake

    def wait_flushed(self, physical_offset: int, timeout: float | None) -> bool:
        """See `reput.results.FlushProgress`."""
        return self.flusher.wait(physical_offset, timeout)

    def release_flushed(self, flushed_offset: int) -> None:
        """Close the files that end at or below ``flushed_offset``: nothing writes them any more."""
        with self._lock:
            done = [
                file for file in self.unflushed if file.base_offset + file.size <= flushed_offset
            ]
            self.unflushed = [file for file in self.unflushed if file not in done]
        for file in done:
            if file is not self._file:
                file.close()

    # ------------------------------------------------------------------ one message

    def append(self, prepared: Prepared) -> Receipt:
        """Append one message and return where it stands.

        Raises:
            PutError: the log takes no appends, or there is no room for another file.
        """
        size, head, magic, crc, message, body, topic_part, text, born_host, sys_flag, special = (
            prepared
        )
        if special:
            return self.append_each((prepared,))[0]
        topic, queue_id, born = message.topic, message.queue_id, message.born_timestamp
        key = topic, queue_id
        transaction = sys_flag & TRANSACTION_MASK
        # What follows is `Encoder.finish` once more, in place: one call less and one tuple less to
        # take apart are a tenth of a put. And not `with`: the lock's own methods take half of it.
        self._lock.acquire()
        try:
            offset = self._end_offset
            end_offset = offset + size
            if end_offset > self._record_limit:
                offset = self._make_room(size)
                end_offset = offset + size
            # Prepared and rollback records are no messages of their queue: they take no offset.
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
            position = offset - self._base
            target = self._map
            target[position + 4 : position + size] = rest
            _pack_size(target, position, size)
            if counts:
                self.queue_offsets[key] = queue_offset + 1
            self._end_offset = end_offset
            self.last_record_offset = offset
            if self.wake is not None:
                self._call_wake()
        except struct.error as error:
            raise unpackable(message, str(error)) from None
        finally:
            self._lock.release()
        return _new_receipt(Receipt, (self, topic, queue_id, queue_offset, offset, size, timestamp))

    def append_each(self, prepared: Sequence[Prepared]) -> list[Receipt]:
        """Append messages of any kind, with nobody else's in between."""
        with self._lock:
            return [self._append_locked(each) for each in prepared]

    def _append_locked(self, prepared: Prepared) -> Receipt:
        """The way for all messages: also those that light queues list, or that count as several."""
        message = prepared[4]
        count = inner_message_count(prepared) if prepared[10] else 1
        light: dict[tuple[str, int], int] = {}
        if self.config.light_queues and prepared[10]:
            message, light = with_light_queue_offsets(
                message, prepared[7], self.queue_offsets, self.config.max_light_queues
            )
            prepared = self.encoder.prepare(message)
        key = message.topic, message.queue_id
        counts = prepared[9] & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
        queue_offset = self.queue_offsets.get(key, 0) if counts else 0
        if prepared[9] & INNER_BATCH:
            prepared = self.encoder.with_inner_base(prepared, queue_offset)
        size = prepared[0]
        offset = self._place(size)
        timestamp = self._now() // 1_000_000
        rest = self.encoder.finish(prepared, queue_offset, offset, timestamp)
        position = offset - self._base
        self._map[position + 4 : position + size] = rest
        self._map[position : position + 4] = size.to_bytes(4, "big")
        if counts:
            self.queue_offsets[key] = queue_offset + count
        for light_key, light_offset in light.items():
            self.queue_offsets[light_key] = light_offset + 1
        self._end_offset = offset + size
        self.last_record_offset = offset
        self._call_wake()
        return Receipt(self, message.topic, message.queue_id, queue_offset, offset, size, timestamp)

    # ------------------------------------------------------------------ many messages

    def append_many(self, prepared: PreparedMany) -> BatchReceipt:
        """Append messages in their order, as one stretch of bytes per file."""
        count = len(prepared)
        with self._lock:
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
                self._write(start, data)
                prepared.advance_queue_offsets(self.queue_offsets, slice(done, fits), queue_offsets)
                self._end_offset = start + len(data)
                self.last_record_offset = int(offsets[fits - 1])
                self._call_wake()
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

    def _call_wake(self) -> None:
        wake, self.wake = self.wake, None
        if wake is not None:
            wake()

    def _place(self, size: int) -> int:
        offset = self._end_offset
        return offset if offset + size <= self._file_limit else self._roll(size)

    def _write(self, offset: int, data: bytes) -> None:
        """Write whole records, so that none is there before all are."""
        position, end = offset - self._base, offset - self._base + len(data)
        if offset + len(data) > self._record_limit:
            self._make_room(len(data))
        self._map[position + 4 : end] = memoryview(data)[4:]
        self._map[position : position + 4] = data[:4]

    def _make_room(self, size: int) -> int:
        """Called when a record passes `_record_limit`: more pages are due, or another file."""
        offset = self._end_offset
        if offset + size > self._file_limit:
            return self._roll(size)
        # Two steps are kept present, and the next one is asked for when the first is used up.
        self._record_limit = min(offset + size + PREFAULT_STEP, self._file_limit)
        position = offset - self._base
        end = min(position + size + 2 * PREFAULT_STEP, self.file_size)
        if self.prefaults:
            self._prefaulter.ask(self._map, position, end)
        self._prepare_next_file()
        return offset

    def _prepare_next_file(self) -> None:
        """Have the next file made once half of this one is written, or it is small."""
        left = self._file_limit - self._end_offset
        if self._allocator is not None and left <= max(self.file_size // 2, 2 * PREFAULT_STEP):
            self._allocator.prepare()

    def _roll(self, size: int) -> int:
        """Close the active file with a blank and begin the next one; the offset to write at."""
        if self._refusal is not None:
            # A fresh error each time: one object raised by many threads would mix their traces.
            refusal = self._refusal
            raise type(refusal)(*refusal.args) from refusal.__cause__
        if size + BLANK_MIN_SIZE > self.file_size:
            limit = self.file_size - BLANK_MIN_SIZE
            raise MessageTooLargeError("record", size, limit, "bytes, in files of this size")
        base = self._end_offset
        if self._file is not None:
            base = self._base + self.file_size
        elif base % self.file_size:
            base -= base % self.file_size
        if self._file is not None:
            self._prefaulter.forget(self._map)
        try:
            # The new file first: where there is no room, the old one stays open and smaller
            # messages may still fit into it.
            fresh = self._new_file(base)
        except OSError as error:
            raise CreateMappedFileError(
                "commit log", self.files.path(base), None, f"no next file: {error}"
            ) from error
        if self._file is not None:
            position = self._end_offset - self._base
            left = self.file_size - position
            blank = SIZE_AND_MAGIC.pack(left, BLANK_MAGIC)
            self._map[position + 4 : position + 8] = blank[4:]
            self._map[position : position + 4] = blank[:4]
        self._use(fresh)
        self._end_offset = base
        logger.info("rolled file=%s", fresh.path)
        return base

    def _new_file(self, base: int) -> MappedFile:
        if self._allocator is None:
            raise ServiceNotAvailableError("store", None, None, "it is not open for writing")
        self._disk.make_directory(self.files.directory)
        path = self.files.add(base, self._allocator.take())
        return MappedFile.open(path, base, self.file_size, self._disk)

    def _use(self, file: MappedFile) -> None:
        self.unflushed = [*self.unflushed, file]
        self._file, self._map, self._base = file, file.map, file.base_offset
        self._file_limit = file.base_offset + self.file_size - BLANK_MIN_SIZE
        self._record_limit = -1
