"""`WritableLog`: the files of a log that grows: room for records, rolls, and what is to be flushed.

One lock orders all appends. Readers take no lock: `max_physical_offset` grows only when a record is
whole in the map. What grows belongs to the log's `Appender`.

Source: RocketMQ ``CommitLog``, ``MappedFileQueue``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reput.errors import (
    CreateMappedFileError,
    PutError,
    ServiceNotAvailableError,
)
from reput.files.mappedfile import MappedFile
from reput.files.preallocation import PREFAULT_STEP, Prefaulter
from reput.log.reader.ledgerfiles import LedgerFiles
from reput.log.reader.logreader import StoreLog
from reput.log.writer.appender import Appender, EntryAppender
from reput.log.writer.groupcommit import GroupCommit
from reput.record.encoding.encoder import Encoder
from reput.record.layout import BLANK_MIN_SIZE
from reput.record.messageids import pack_host
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.files.preallocation import FileAllocator
    from reput.files.system.disk import Disk
    from reput.log.config import CommitLogConfig
    from reput.log.losses import LossLedger
    from reput.log.reader.batchreader import CheckedRanges
    from reput.log.reader.logend import LogEnd
    from reput.log.writer.appender import QueueKey
    from reput.record.entries import LastEntry

logger = logging.getLogger(__name__)

_NEXT_STEP = (
    "Earlier messages are stored, this one is not; free space, then put it again "
    "(after a failed put_many, from error.stored_count on)"
)
_LEAST_STEP = 512 << 10  # bytes of pages that are kept present in a new log, at least
_MOST_FLUSHED = 256 << 10
"""The same, at most, if each put is flushed.

The first flush of a page that only has space changes the file's map of blocks, and waits for the
journal of the file system. Pages that were flushed ahead, as zeros, save this: 100 instead of 150
microseconds for each flush on ext4. One flush in many writes the zeros, so the step is small.
"""
_LEAST_GROWTH, _MOST_GROWTH = 32 << 10, 2 << 20  # the same, and at most, if files grow


class WritableLog(StoreLog):
    """A log that is open for reading and, after `start_writing`, for appending."""

    def __init__(
        self,
        files: MappedFileQueue,
        config: CommitLogConfig,
        disk: Disk,
        *,
        end: LogEnd,
        ledger: LossLedger | None = None,
        allocator: FileAllocator,
        clock: Callable[[], int] | None = None,
        threads: bool = True,
        checked: CheckedRanges | None = None,
        master: str | None = None,
        last_entry: LastEntry | None = None,
    ) -> None:
        """Open a log whose end is known, and below which everything counts as on disk.

        Args: those of `StoreLog`, and
            disk: file operations.
            allocator: makes new files.
            clock: returns now, ms; the system's when left out.
            threads: whether the log may start threads.
            last_entry: of a log that DLedger keeps, to append entries after it; None to append
                plain records.
        """
        host, limit = pack_host(*config.store_host), config.max_message_size
        encoder = Encoder(host, limit, record_crc=config.record_crc, take_turns=self._take_turns)
        place = end.offset, end.last_record_offset, clock, config.default_queue_count
        self._appender = (
            Appender(encoder, *place)
            if last_entry is None
            else EntryAppender(last_entry, encoder, *place)
        )
        self.gap = self._appender.gap
        """Bytes of the log before each record."""
        super().__init__(
            files,
            config,
            ledger=ledger,
            end=end,
            checked=checked,
            master=master,
            appender=self._appender,
        )
        self.encoder = encoder
        self.store_host = encoder.store_host
        self.flusher = GroupCommit(self, self._appender)
        """Flushes appended bytes."""
        self.wait_flushed = self.flusher.wait
        """See `reput.log.writer.receipts.FlushProgress`."""
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
        self._prefaults = threads
        self._flushes_puts = config.flush == "sync"
        self._refusal: PutError | None = ServiceNotAvailableError(
            "store", None, None, "it is not open for writing"
        )
        self.unflushed: list[MappedFile] = []
        """Files with bytes that are not on disk yet, oldest first; the last is the active file."""
        self._covered_size = 0
        """Bytes that the active file had when the flusher was last given it."""

    def start_writing(self, queue_offsets: Mapping[QueueKey, int]) -> None:
        """Accept appends from now on.

        Args:
            queue_offsets: next queue offset of every (topic, queue id).
        """
        appender = self._appender
        end_offset = appender.end_offset
        appender.start_queues(queue_offsets)
        appender.allow()
        self._refusal = None
        base = self.files.base_of(end_offset)
        if base is not None:
            path = self.files.path(base)
            used = end_offset - base
            size, grows = self.file_size, self.files.grows
            file = MappedFile.open(path, base, size, self._disk, used, grows=grows)
            self._begin(file, end_offset)
        if self._prefaults:
            self._prefaulter.start()
        self._allocator.start()

    def note_dispatched(self) -> None:
        """Note for a broker that it has nothing to dispatch; for a log that DLedger keeps.

        A broker of 5.x begins at the entry that DLedger's checkpoint calls committed, and doubles
        the key of a last message that is in the index already.
        """
        files, appender = self.files, self._appender
        if isinstance(files, LedgerFiles) and isinstance(appender, EntryAppender):
            files.note_committed(appender.last_entry.number)

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
    def appender(self) -> Appender:
        """Where the log ends, which `reput.log.writer.appender.rows_of_messages` needs."""
        return self._appender

    def _take_turns(self, topic: str, count: int) -> tuple[int, int]:
        return self._appender.take_turns(topic, count)

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        return self.flusher.flushed_offset

    def flush_facts(self) -> dict[str, Any]:
        """See `StoreLog.flush_facts`."""
        return self.flusher.waits.facts()

    @property
    def last_record_offset(self) -> int:
        """Where the newest record begins; -1 in an empty log."""
        return self._appender.last_record_offset

    @property
    def is_begun(self) -> bool:
        """Whether there is an active file."""
        return self._appender.file is not None

    @property
    def file_end(self) -> int:
        """Physical offset at which the active file ends."""
        return self._appender.base_offset + self.file_size

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

    # ------------------------------------------------------------------ under the lock

    @contextlib.contextmanager
    def appending(self) -> Iterator[None]:
        """Hold the lock for an append; refuse if this thread is inside of another append."""
        appender = self._appender
        with self._lock:
            if appender.is_appending:
                raise inside_of_put()
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

    # ------------------------------------------------------------------ files

    def begin_next_file(self, base: int) -> int:
        """Begin the next file, or the first one at ``base``; end the active file with a blank.

        The caller holds the lock; returns the new file's base.
        """
        self.raise_refusal()
        active = self._appender.file
        if active is not None:
            base = active.base_offset + active.size
            self._prefaulter.forget(active)
        try:
            if active is not None:
                active.fill()  # before a file follows it
            # The new file first: if there is no room for it, the old file stays active, and smaller
            # messages may still fit there.
            fresh = self._new_file(base)
        except OSError as error:
            if self._appender.file is not active:
                self.raise_refusal()  # a signal handler closed the log
            reason = f"the log needs this file next: {error.strerror or error}. {_NEXT_STEP}"
            path = self.files.path(base)
            raise CreateMappedFileError("commit log", path, None, reason) from error
        self._begin(fresh, base)
        logger.info("rolled file=%s", fresh.path)
        return base

    def _new_file(self, base: int) -> MappedFile:
        self._disk.make_directory(self.files.directory)
        path = self.files.finish_adding(base) or self.files.add(base, self._allocator.take())
        size, grows = self.file_size, self.files.grows
        return MappedFile.open(path, base, size, self._disk, grows=grows)

    def _begin(self, file: MappedFile, end_offset: int) -> None:
        """Write to ``file`` from ``end_offset`` on; close it again where that cannot be."""
        try:
            self._covered_size = 0
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

    # ------------------------------------------------------------------ space

    def look_ahead(self, offset: int, size: int) -> int:
        """Have space and pages for bytes at ``offset`` and after, and the next file if it is near.

        Returns:
            Up to where there is space.
        """
        # Two steps of pages are kept present; the next is requested when the first is used up. A
        # log with little in it takes small steps.
        appender, file = self._appender, self._appender.file
        position = offset - appender.base_offset
        least, most = _LEAST_STEP, PREFAULT_STEP
        if self.files.grows:
            least, most = _LEAST_GROWTH, _MOST_GROWTH
        if self._flushes_puts:
            most = min(most, _MOST_FLUSHED)
        step = min(max(position, least), most)
        limit = min(offset + size + step, appender.file_limit)
        self._reserve(max(limit, offset + size))
        if self._prefaults and file is not None:
            # Pages alone do not make a small store larger.
            end = min(position + size + 2 * step, file.reserved if file.grows else file.size)
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
        if file.grows and file.reserved != self._covered_size:
            self._covered_size = file.reserved
            self.flusher.cover(self.unflushed)

    def _no_space(self, file: MappedFile, error: OSError) -> CreateMappedFileError:
        position = self._appender.end_offset - file.base_offset
        what = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        reason = f"{what}; the file cannot grow after byte {position}. {_NEXT_STEP}"
        return CreateMappedFileError("commit log", file.path, None, reason)

    def _prepare_next_file(self) -> None:
        """Have the next file made if half of this file is written, or if files are small."""
        left = self._appender.file_limit - self._appender.end_offset
        if left <= max(self.file_size // 2, 2 * PREFAULT_STEP):
            self._allocator.prepare()


def inside_of_put() -> ServiceNotAvailableError:
    """Return the error of a put inside of another one."""
    reason = "this thread is inside of another put, whose signal handler or destructor this is"
    return ServiceNotAvailableError("store", None, None, reason)
