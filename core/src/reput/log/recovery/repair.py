"""Repairs a log: copies and notes what is lost, fills damaged ranges, and cuts the tail.

The order of the steps:

1. bytes that will be overwritten or cut are copied to ``reput/lost+found``, and the copy flushed;
2. the ledger notes them as pending, and is flushed: nothing is lost without an entry;
3. damaged ranges are overwritten, and flushed;
4. the tail is cut, later files first;
5. the ledger notes that all of this is done.

After a crash between two steps the next opening finds the same damage, or a part of it, and the
pending entry, with which it continues.

A damaged range is filled with filler records, or a blank, of exactly its size. Then any reader of
RocketMQ's format can read the whole log. A filler is a rolled-back message of the topic
`FILLER_TOPIC`, so that no consume queue and no index lists it. A range that ends with its file
becomes a blank.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from reput.files.filenames import OWN_DIRECTORY, file_name
from reput.files.mappedfilequeue import unused_path
from reput.files.system.flushing import is_disk_full
from reput.log.losses import CUT, FILLED, Loss
from reput.log.reader.resync import head_at, is_blank
from reput.record.batch import Corruption, CorruptionKind
from reput.record.encoding.encoder import encode_filler
from reput.record.layout import (
    BLANK_MAGIC,
    CRC_PROPERTY_SIZE,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
)
from reput.record.messageids import pack_host
from reput.signalsafe import PeriodicThread

if TYPE_CHECKING:
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.files.system.disk import Disk
    from reput.log.config import CommitLogConfig
    from reput.log.losses import Damage, LossLedger
    from reput.log.reader.logreader import LogReader
    from reput.log.recovery.endsearch import RecoveryReport

logger = logging.getLogger(__name__)

_COPY_SIZE: Final = 1 << 20
_BESIDE_MIN: Final = 4 << 20  # bytes to flush; for fewer a thread saves nothing
_THREADS_MAX: Final = 4
_FILLER_MAX: Final = 4 << 20
"""Most bytes of one filler record, so that readers need not hold more at once."""
_LAST_MIN: Final = RECORD_MIN_SIZE + CRC_PROPERTY_SIZE


def repair(
    log: LogReader,
    recovery: RecoveryReport,
    ledger: LossLedger,
    root: str,
    disk: Disk,
    *,
    config: CommitLogConfig,
    clean: bool,
    is_replica: bool = False,
) -> RecoveryReport:
    """Make the log end where ``recovery`` says, without damage.

    Args:
        log: the log, which nothing else reads or writes now.
        recovery: what `find_end` found in it.
        ledger: the ledger of the same store, open for writing.
        root: the store's directory.
        disk: file operations.
        config: has what is written into fillers.
        clean: whether the last writer closed the log, and so left nothing after its end.
        is_replica: whether a record that was not written whole is not a loss, as its master has it;
            and whether a part of a blank may stand after the end of a closed log.

    Returns:
        ``recovery`` with the size that was cut.

    Raises:
        OSError: there is no room for the copy, or the disk fails; only bytes that were copied may
            have been cut or overwritten.
    """
    is_last = log.files.base_of(recovery.end_offset) in (None, *log.files.bases[-1:])
    is_in_blank = is_replica and log.size_at(recovery.end_offset) > 0
    nothing_follows = clean and recovery.finding is None and is_last and not is_in_blank
    is_clear = recovery.clear_from == recovery.end_offset
    if not recovery.damages and (nothing_follows or is_clear):
        ledger.finish()
        cut = 0 if clean else log.files.capacity_end - recovery.end_offset
        return attrs.evolve(recovery, truncated_size=cut)
    directory = os.path.join(root, OWN_DIRECTORY, "lost+found")
    return _Repair(log, ledger, directory, disk, config, is_replica).run(recovery)


@attrs.define(eq=False, repr=False)
class _Repair:
    log: LogReader
    ledger: LossLedger
    directory: str
    disk: Disk
    config: CommitLogConfig
    is_replica: bool

    def run(self, recovery: RecoveryReport) -> RecoveryReport:
        log, end = self.log, recovery.end_offset
        behind = log.files.capacity_end - end
        pending = list(self.ledger.pending)
        losses = [
            self._with_copy(Loss.of(damage, FILLED), damage.end_offset)
            for damage in recovery.damages
        ]
        losses += self._tail(recovery)
        later = {
            base: self._kept_path(base, pending)
            for base in log.files.bases
            if base > end and log.files.last_used(base, base + log.file_size) > base
        }
        for base, path in later.items():
            losses.append(self._cut_file(base, path))
        known = self.ledger.begin(losses)
        host = pack_host(*self.config.store_host)
        for damage, loss in zip(recovery.damages, known, strict=False):
            has_crc = self.config.record_crc or log.must_have_crc(damage.start_offset)
            fill(log.files, self.disk, damage, loss, host, record_crc=has_crc)
            logger.warning("filled damage size=%d %s", loss.size, damage.finding)
        if recovery.finding is not None:
            logger.warning("truncated damaged tail position=%d %s", end, recovery.finding)
        log.files.truncate(end, later)
        self.ledger.finish()
        return attrs.evolve(recovery, truncated_size=behind)

    # ------------------------------------------------------------------ what is lost

    def _tail(self, recovery: RecoveryReport) -> list[Loss]:
        """Return the loss of bytes after the end in the same file; none for zeros or a blank."""
        log, start = self.log, recovery.end_offset
        base = log.files.base_of(start)
        if base is None:
            return []
        file_end = base + log.file_size
        used = log.files.last_used(start, file_end)
        finding = recovery.finding
        if finding is None and (used == start or is_blank(log.files, start)):
            return []
        if self.is_replica and not log.size_at(start):
            return []
        if finding is None or not log.size_at(start):
            finding = Corruption(start, CorruptionKind.TORN, "its size was not written")
        size, magic = head_at(log.files, start)
        end = used if magic == BLANK_MAGIC else min(max(used, start + size), file_end)
        loss = Loss.of(log.finder().damage(finding, end), CUT)
        return [self._with_copy(loss, used)]

    def _cut_file(self, base: int, path: str) -> Loss:
        kept = os.path.basename(path)
        end = base + self.log.file_size
        return Loss(base, end, "cut", "it stood behind the end", action=CUT, kept=kept)

    # ------------------------------------------------------------------ copies

    def _kept_path(self, base: int, pending: list[Loss]) -> str:
        """Return where a later file is moved: as an interrupted opening planned, or a new path."""
        self.disk.make_directory(self.directory)
        for loss in pending:
            if loss.action == CUT and loss.start_offset == base and loss.kept:
                return os.path.join(self.directory, loss.kept)
        return unused_path(self.disk, self.directory, file_name(base))

    def _with_copy(self, loss: Loss, end: int) -> Loss:
        """Copy the bytes of ``loss`` up to ``end``, less trailing zeros; return the loss, named."""
        start, files = loss.start_offset, self.log.files
        if self.ledger.interrupted(loss) is not None:
            return loss  # copied by the interrupted opening, when all bytes were still there
        end = files.last_used(start, end)
        if end == start:
            return loss
        self.disk.make_directory(self.directory)
        fresh = os.path.join(self.directory, ".new")
        descriptor = self.disk.create_fresh(fresh)
        try:
            self.disk.truncate(descriptor, end - start)  # zeros take no space
            for first, stop in files.data_ranges(start, end):
                for at in range(first, stop, _COPY_SIZE):
                    data = files.read(at, min(_COPY_SIZE, stop - at))
                    self.disk.write(descriptor, data, at - start)
            self.disk.flush(descriptor)
        finally:
            self.disk.close(descriptor)
        path = self._path_for_copy(fresh, file_name(start), end - start)
        self.disk.rename(fresh, path)
        self.disk.flush_directory(self.directory)
        return attrs.evolve(loss, kept=os.path.basename(path))

    def _path_for_copy(self, fresh: str, name: str, size: int) -> str:
        """Return an unused path, or the path of the same copy by an interrupted opening."""
        path, number = os.path.join(self.directory, name), 1
        while self.disk.exists(path):
            if _same(self.disk, path, fresh, size):
                return path
            number += 1
            path = os.path.join(self.directory, f"{name}-{number}")
        return path


@attrs.define(eq=False, repr=False)
class Reflush:
    """Writes bytes of the log again and flushes them, beside other work if they are many.

    A flush mostly waits for the disk, so that the bytes of another file are written meanwhile.

    What recovery read may be only in the page cache. A flush alone does not prove otherwise: after
    a failed flush the system may take the bytes for written.
    """

    _disk: Disk
    _left: list[tuple[str, int, int]]
    """Path of each file that is not flushed yet, and its file positions ``[start, end)``."""
    _unclaimed: list[tuple[str, int, int]] = attrs.field(init=False)
    """Those of them that no thread has begun to write."""
    _threads: list[PeriodicThread] = attrs.field(init=False, factory=list)
    _failures: list[BaseException] = attrs.field(init=False, factory=list)
    _is_given_up: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._unclaimed = [*self._left]

    @classmethod
    def of(cls, log: LogReader, start: int, end: int, disk: Disk) -> Reflush:
        """Return what writes the log's bytes ``[start, end)``, after `start` or in `wait`."""
        return cls(
            disk,
            [
                (log.files.path(base), max(start - base, 0), min(end - base, log.file_size))
                for base in log.files.bases
                if base <= end and start < base + log.file_size
            ],
        )

    def start(self) -> None:
        """Begin on threads of its own, if that is worth a thread."""
        if sum(end - start for _, start, end in self._left) < _BESIDE_MIN:
            return
        for _ in self._left[:_THREADS_MAX]:
            self._threads.append(PeriodicThread("reput-reflush", 0, self._round))
            with contextlib.suppress(RuntimeError):  # no thread can be started now
                self._threads[-1].start()

    def stop(self) -> None:
        """End the threads, though not all is on disk."""
        self._is_given_up = True
        self._end()

    def _end(self) -> None:
        """End each thread after the file that it writes."""
        for thread in self._threads:
            thread.stop()

    def wait(self) -> None:
        """Return when all is on disk.

        Raises:
            OSError: it may not be on disk. If the disk was full, the next call goes on; otherwise
                nothing is flushed again.
        """
        if self._failures:
            self._end()
            if all(map(is_disk_full, self._failures)):
                self._failures.clear()
                self._unclaimed = [*self._left]
        self._write_unclaimed()
        self._end()
        self._unclaimed = [*self._left]  # what an exception of a signal handler interrupted
        self._write_unclaimed()
        for failure in sorted(self._failures, key=is_disk_full):  # a full disk last
            raise failure

    def _write_unclaimed(self) -> None:
        while self._round():
            pass

    def _round(self) -> bool:
        """Write one file; return whether that was done, so that the next one may follow."""
        if self._failures or not self._unclaimed:
            return False
        try:
            file = self._unclaimed.pop(0)
        except IndexError:  # another thread was faster
            return False
        try:
            self._write(*file)
        except BaseException as error:  # raised by `wait`
            self._failures.append(error)
            return False
        self._left.remove(file)
        return True

    def _write(self, path: str, start: int, end: int) -> None:
        disk, buffer = self._disk, memoryview(bytearray(min(_COPY_SIZE, end - start)))
        descriptor = disk.open(path, write=True)
        try:
            for at in range(start, end, _COPY_SIZE):
                if self._is_given_up:
                    raise InterruptedError("the store was not opened")
                piece = buffer[: end - at]
                size = disk.read_into(descriptor, piece, at)
                disk.write(descriptor, piece[:size], at)
            disk.flush(descriptor)
        finally:
            disk.close(descriptor)


def _same(disk: Disk, path: str, other_path: str, size: int) -> bool:
    descriptor = disk.open(path)
    try:
        if disk.size(descriptor) != size:
            return False
        other = disk.open(other_path)
        try:
            return all(
                disk.read(descriptor, _COPY_SIZE, at) == disk.read(other, _COPY_SIZE, at)
                for at in range(0, size, _COPY_SIZE)
            )
        finally:
            disk.close(other)
    finally:
        disk.close(descriptor)


# --------------------------------------------------------------------------- fillers


def fillers(
    damage: Damage, file_end: int, facts: bytes, store_host: bytes, *, record_crc: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield physical offset and bytes of everything to be written, ascending."""
    position, end = damage.start_offset, damage.end_offset
    if end == file_end:
        # After its first eight bytes a blank has no meaning: the bytes there may stay.
        yield position, SIZE_AND_MAGIC.pack(end - position, BLANK_MAGIC)
        return
    while position < end:
        size = min(end - position, _FILLER_MAX)
        if 0 < end - position - size < _LAST_MIN:
            size -= _LAST_MIN  # the last filler must not be smaller than a record can be
        yield (
            position,
            encode_filler(
                size, position, damage.store_timestamp, facts, store_host, record_crc=record_crc
            ),
        )
        position += size


def fill(
    files: MappedFileQueue,
    disk: Disk,
    damage: Damage,
    loss: Loss,
    store_host: bytes,
    *,
    record_crc: bool,
) -> None:
    """Overwrite ``damage``; on disk when this returns. The bytes depend on ``loss`` only."""
    base = files.base_of(damage.start_offset)
    assert base is not None
    descriptor = disk.open(files.path(base), write=True)
    try:
        for position, data in fillers(
            damage, base + files.file_size, _facts(loss), store_host, record_crc=record_crc
        ):
            disk.write(descriptor, data, position - base)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)


def _facts(loss: Loss) -> bytes:
    facts = {
        "lost": [loss.start_offset, loss.end_offset],
        "reason": loss.reason,
        "detail": loss.detail,
        "topic": loss.topic,
        "queue_id": loss.queue_id,
        "queue_offset": loss.queue_offset,
        "kept": loss.kept,
        "timestamp": loss.timestamp,
    }
    return json.dumps(facts).encode()
