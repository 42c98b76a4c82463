"""Finds the end of a log, after a close or a crash, without reading all of it.

If sound records follow damage, the log continues after it. Only damage without
sound records after it is the end.

Source: RocketMQ ``CommitLog#recoverNormally`` (5.3.3 begins at the last file that the queues reach)
and ``#recoverAbnormally`` (begins at the last file whose first message was flushed by the
checkpoint). Different on purpose: after a crash of reput, reading begins where the log was flushed
last. RocketMQ cuts everything after the first damage (``recovery = "rocketmq"`` does so, too), and
accepts records whose properties were not, or not all, written.

Entries of a log that DLedger keeps have consecutive indexes, so that damage cannot be filled as in
a plain log: the log ends at the first damage. After a crash of reput nothing was flushed of what
follows the place that reput noted last, when it flushed or opened the log. Elsewhere a log may be
damaged without a crash, so that sound entries after the damage are not cut here.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.log.losses import Damage
from reput.log.reader.batchreader import border_of
from reput.log.reader.logend import LogEnd
from reput.log.reader.logreader import store_timestamp_of
from reput.log.reader.logwalk import LogWalk, NextRecord
from reput.log.reader.resync import head_at, is_blank
from reput.record.batch import Corruption, CorruptionKind
from reput.record.checksum import SECTOR_SIZE
from reput.record.decode import End
from reput.record.layout import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
)
from reput.record.messageview import message_at

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log.progress import Progress
    from reput.log.reader.batchreader import BatchReader
    from reput.log.reader.ledgerfiles import LedgerFiles
    from reput.log.reader.logreader import LogReader
    from reput.log.recovery.checkpoint import Checkpoint
    from reput.record.batch import DispatchBatch
    from reput.record.entries import LastEntry


@attrs.frozen
class RecoveryReport:
    """What opening found at the end of the log."""

    start_offset: int
    """Where reading began: at the start of a file, or at the end of a record that is on disk."""
    end_offset: int
    """Where the valid log ends."""
    message_count: int
    """Records that were read, with every checksum verified."""
    last_store_timestamp: int
    """Store time of the last of them, ms; 0 if there was none."""
    finding: Corruption | None
    """Corruption at the end; None if unwritten space or the files' end follows the last record."""
    last_record_offset: int = -1
    """Where the last record begins; -1 in an empty log."""
    truncated_size: int = 0
    """Bytes of files after the end that were cut, unwritten space included."""
    damages: tuple[Damage, ...] = ()
    """Damage that sound records follow, ascending; none crosses the end of a file."""
    known: Progress | None = attrs.field(default=None, eq=False, repr=False)
    """A place whose last record was found to be as it was noted, if one was looked for."""
    clear_from: int = attrs.field(default=-1, eq=False, repr=False)
    """Where zeros begin that reach to the end of the last file; -1 if that is not known."""

    @property
    def log_end(self) -> LogEnd:
        """The end, for a log that is opened there."""
        return LogEnd(
            self.end_offset,
            self.last_record_offset,
            self.last_store_timestamp,
            is_damaged=self.finding is not None,
        )


_PHYSICAL_OFFSET = operator.attrgetter("physical_offset")


def find_end(
    log: LogReader,
    checkpoint: Checkpoint,
    closed: Progress | None,
    *,
    clean: bool,
    progress: Callable[[int, int], None] | None = None,
    flushed: Sequence[Progress] = (),
    being_written: bool = False,
    is_replica: bool = False,
) -> RecoveryReport:
    """Read the log from an offset that is certainly sound to the log's end.

    Args:
        log: the log, with its files and its ledger loaded; nothing is changed.
        checkpoint: what the last writer flushed, for a log that was not closed.
        closed: where the log ended when it was closed, if the last writer was reput.
        clean: whether the last writer closed the log.
        progress: called with bytes done and bytes in all.
        flushed: offsets below which reput had flushed the log; ignored if the last record before
            the offset is another one now.
        being_written: whether another process has the log open for writing. A writer writes a
            record's size last, so zeros before records are not damage then.
        is_replica: whether the log ends at the first damage, as its master has the records there
            and after it.
    """
    if not log.files.bases:
        return RecoveryReport(0, 0, 0, 0, None)
    if clean and closed is not None and (record := _as_closed(log, closed)):
        end, timestamp = closed.physical_offset, store_timestamp_of(record)
        return RecoveryReport(end, end, 0, timestamp, None, closed.record_offset, known=closed)
    known, record = (None, b"") if clean else _last_flushed(log, flushed)
    # Beside a writer `Tail` judges the last record: it may be whole in a moment.
    looks_for_torn = log.keeps_records_after_damage and not clean and not being_written
    search = _Search(log, being_written, looks_for_torn, is_replica, progress)
    if known is not None:
        search.begin(known.physical_offset, known.record_offset, store_timestamp_of(record))
    else:
        until = None if clean else checkpoint.replay_timestamp
        bases, visible = log.files.bases, log.files.visible_end
        if visible is not None:
            bases = tuple(base for base in bases if base < visible) or bases[:1]
        search.begin(_start_file(log, bases, until))
    end_kind = search.run()
    found = search.found(known)
    if clean and closed is not None:
        return _without_changed_record(log, found, closed, search.record_before)
    is_new = known is None or found.last_record_offset > known.record_offset
    if looks_for_torn and end_kind == End.EMPTY and is_new:
        return _without_torn_record(log, found, search.record_before)
    return found


_UNFINISHED = ((0, MAGIC_V1), (0, MAGIC_V2))
"""Size and magic at the start of an unfinished put: the first record's size is written last, after
all bytes of the put."""


@attrs.define(eq=False, repr=False)
class _Search:
    """One reading of the log from a sound offset to its end."""

    log: LogReader
    being_written: bool
    looks_for_torn: bool
    """Whether to look for sectors of topics and properties that were not written."""
    is_replica: bool
    progress: Callable[[int, int], None] | None
    start: int = 0
    end: int = 0
    count: int = 0
    timestamp: int = 0
    last_record: int = -1
    record_before: int = -1
    finding: Corruption | None = None
    damages: list[Damage] = attrs.field(factory=list)
    clear_from: int = -1

    def begin(self, start: int, last_record: int = -1, timestamp: int = 0) -> None:
        """Start at ``start``, after the record ``last_record`` of that time if that is given."""
        self.start = self.end = start
        self.last_record, self.timestamp = last_record, max(timestamp, 0)

    def run(self) -> str:
        """Read to the end; return what stands there, a word of `End`."""
        capacity = self.log.files.capacity_end
        walk = LogWalk(self._reader(), self.start, self, self.log.files.visible_end)
        for found in walk:
            if isinstance(found, Damage):
                self.damages.append(found)
            elif len(found):
                self._take(found)
            if self.is_replica and self.damages:
                break
            if self.progress is not None:
                self.progress(walk.position - self.start, capacity - self.start)
        if self.is_replica and self.damages:
            self.end, self.finding = self.damages[0].start_offset, self.damages[0].finding
            self.damages.clear()
            return End.BAD
        self.end, self.finding = walk.position, walk.finding
        return self._without_last_damage(walk.end)

    def _reader(self) -> BatchReader:
        return self.log.window_reader(check_crc=True, check_record_crc=True)

    def _take(self, batch: DispatchBatch) -> None:
        torn = None
        if self.looks_for_torn:
            torn = torn_rows(batch, self.log.files.base_of(batch.base_offset) or 0)
            self.damages += [self._torn(batch, row) for row in torn.tolist()]
            if self.is_replica and len(torn):  # the log ends before the first of them
                batch, torn = batch[: int(torn[0])], None
        sound = batch.physical_offset if torn is None else np.delete(batch.physical_offset, torn)
        self.count += len(sound)
        if len(batch):
            self.timestamp = int(batch.store_timestamp[-1])
        for offset in sound[-2:].tolist():
            self.record_before, self.last_record = self.last_record, offset

    def _torn(self, batch: DispatchBatch, row: int) -> Damage:
        offset, size = batch.base_offset + int(batch.start[row]), int(batch.size[row])
        start = border_of(self.log.files, offset)
        detail = "a sector of its topic or properties reads as zeros"
        finding = Corruption(start, CorruptionKind.TORN, detail)
        end = offset + size
        return self.log.finder().damage(finding, end, int(batch.store_timestamp[row]))

    def limit(self, position: int) -> int | None:
        """Read to the end of the files, unless less is visible."""
        return self.log.files.visible_end

    def past(self, at: int, finding: Corruption | None) -> NextRecord | None:
        """Skip damage that sound records follow, if they were not part of an unfinished put."""
        log = self.log
        if not log.keeps_records_after_damage:
            return None
        if self.is_replica and not self.being_written:
            return None
        if log.ledger is not None and log.ledger.cut_was_begun_at(at):
            return None  # by an opening that was interrupted
        if self.being_written and not log.size_at(at):
            return None
        if head_at(log.files, at) in _UNFINISHED:
            return None  # a kill interrupted a put: sound records after this are part of it
        if finding is None and _is_clear_from(log, at):
            self.clear_from = at
            return None
        damages = log.finder().damages_at(at, finding, after=self.timestamp)
        if not damages:
            return None
        if self.being_written and len(self._reader().read(at).batch):
            return NextRecord(at)  # the record was just being written
        return NextRecord(damages[-1].end_offset, damages)

    def _without_last_damage(self, end_kind: str) -> str:
        """Take damage that no record follows (only a blank, say) for the log's end."""
        while self.damages and self.last_record < self.damages[-1].start_offset:
            damage = self.damages.pop()
            self.end, self.finding, end_kind = damage.start_offset, damage.finding, End.BAD
        return end_kind

    def found(self, known: Progress | None) -> RecoveryReport:
        """Return what was found, after the offset that was ``known``."""
        return RecoveryReport(
            self.start,
            self.end,
            self.count,
            self.timestamp,
            self.finding,
            self.last_record,
            damages=tuple(self.damages),
            known=known,
            clear_from=self.clear_from,
        )


def _is_clear_from(log: LogReader, offset: int) -> bool:
    """Whether zeros alone follow ``offset``, to the end of the last file."""
    base = log.files.base_of(offset)
    if base is None:
        return True
    end = base + log.file_size
    return end == log.files.capacity_end and log.files.last_used(offset, end) == offset


def _last_flushed(log: LogReader, flushed: Sequence[Progress]) -> tuple[Progress | None, bytes]:
    """Return the furthest of ``flushed`` whose last record is as it was flushed, and the record."""
    for place in sorted(flushed, key=_PHYSICAL_OFFSET, reverse=True):
        if record := _record_below(log, place)[0]:
            return place, record
    return None, b""


def _record_below(log: LogReader, place: Progress) -> tuple[bytes, bytes]:
    """Return the last record below ``place``, and the size and magic after the place.

    Without the noted record there, none is returned.
    """
    record, end = place.record_offset, place.physical_offset
    base = log.files.base_of(record)
    if base is None or not record < end <= base + log.file_size:
        return b"", b""
    data = log.files.read(record, end - record + SIZE_AND_MAGIC.size)
    head = data[end - record :]
    # A blank may stand between it and the place.
    data = data[: min(int.from_bytes(data[:4], "big"), end - record)]
    is_same = len(data) >= RECORD_MIN_SIZE and zlib.crc32(data) == place.fingerprint
    return (data if is_same else b""), head


def _without_torn_record(log: LogReader, found: RecoveryReport, before: int) -> RecoveryReport:
    """Return ``found`` without a last record whose topic or properties end in unwritten bytes.

    The body's checksum does not cover topic and properties. A writer ends properties with a
    separator and topics with a letter, while pages that a crash lost read as zeros.
    """
    record, end = found.last_record_offset, found.end_offset
    data = log.files.read(record, end - record) if record >= 0 else b""
    message = message_at(data, record)
    if message is None:
        return found
    is_whole = not message.properties_text.endswith(b"\0")
    if is_whole and not message.topic.endswith("\0"):
        return found
    what = "topic ends" if is_whole else "properties end"
    finding = Corruption(record, CorruptionKind.TORN, f"its {what} in zeros")
    end = border_of(log.files, record)
    return attrs.evolve(found, end_offset=end, finding=finding, last_record_offset=before)


def _as_closed(log: LogReader, closed: Progress) -> bytes:
    """Return the last record of a closed log; nothing if it was changed, or something follows."""
    end, (record, head) = closed.physical_offset, _record_below(log, closed)
    if not record:
        return b""
    # Else the next file begins there, if any does, or an entry.
    is_whole = len(head) == SIZE_AND_MAGIC.size and end < log.files.entries_from
    _, magic = SIZE_AND_MAGIC.unpack(head) if is_whole else head_at(log.files, end)
    # A blank there, too, is what a later writer wrote: it leads to the next file.
    if magic in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC):
        return b""
    # The end must be one that the log can have: the record's end, or the file's end after a blank,
    # if the next file was begun and is empty.
    record_end = closed.record_offset + len(record)
    blank = end - record_end, BLANK_MAGIC
    is_end = end == record_end or (
        is_blank(log.files, record_end) and head_at(log.files, record_end) == blank
    )
    return record if is_end else b""


def _without_changed_record(
    log: LogReader, found: RecoveryReport, closed: Progress, before: int
) -> RecoveryReport:
    """Return ``found`` without its last record if it was changed since the log was closed.

    A log that ends elsewhere, restored from a copy perhaps, is left as it was found.
    """
    same_place = found.last_record_offset == closed.record_offset >= 0
    if not same_place or found.end_offset != closed.physical_offset:
        return found
    data = log.files.read(closed.record_offset, found.end_offset - closed.record_offset)
    if zlib.crc32(data[: int.from_bytes(data[:4], "big")]) == closed.fingerprint:
        return found  # a replica was closed in the middle of a blank
    detail = "its bytes are not the bytes that were written"
    finding = Corruption(closed.record_offset, CorruptionKind.RECORD_CRC, detail)
    end = border_of(log.files, closed.record_offset)
    return attrs.evolve(found, end_offset=end, finding=finding, last_record_offset=before)


def _start_file(log: LogReader, bases: tuple[int, ...], until: int | None) -> int:
    """Return the last file that begins with a record (stored no later than ``until``)."""
    for base in reversed(bases):
        if head_at(log.files, base)[1] not in (MAGIC_V1, MAGIC_V2):
            continue
        if until is None or 0 < log.store_timestamp_in_files(base) <= until:
            return base
    return bases[0]


def torn_rows(batch: DispatchBatch, file_offset: int) -> npt.NDArray[np.int64]:
    """Return the rows of ``batch`` whose topic or properties lack a sector, ascending.

    A topic that lacks a sector ends in a zero byte, as topics are shorter than a sector; no writer
    puts such a topic.

    Args:
        batch: records of one file.
        file_offset: physical offset at which that file begins.
    """
    if len(batch) == 0:
        return np.zeros(0, np.int64)
    window = batch.window
    first = (file_offset - batch.base_offset) % SECTOR_SIZE
    whole = max(len(window) - first, 0) // SECTOR_SIZE
    rest = first + whole * SECTOR_SIZE
    sectors = window[first:rest].view(np.uint64).reshape(whole, SECTOR_SIZE // 8)
    empty = np.flatnonzero(sectors[:, 0] == 0)  # most are not, and are read no further
    empty = empty[~sectors[empty].any(axis=1)]
    borders = first + SECTOR_SIZE * empty
    if rest < len(window) and not window[rest:].any():
        borders = np.append(borders, rest)  # a sector that was read in part
    rows = np.searchsorted(batch.start, borders, side="right") - 1
    borders, rows = borders[rows >= 0], rows[rows >= 0]
    texts = batch.properties_text
    inside = texts.starts[rows] <= borders
    inside &= borders < texts.starts[rows] + texts.sizes[rows]
    is_torn = np.bincount(rows[inside], minlength=len(batch)) > 0
    # Not by `numpy.unique`, whose first call imports `numpy.ma`: that takes longer than a window.
    for code in np.flatnonzero(np.bincount(batch.topic_code)).tolist():
        if batch.topics[code].endswith("\0"):
            is_torn |= batch.topic_code == code
    return np.flatnonzero(is_torn)


_FOLLOWED = (
    "sound entries follow damage, and are not cut off; write with the broker, or make a plain "
    "store by `reput convert`, which keeps them"
)
_ELSEWHERE = (
    "DLedger's index has later entries, in files that are not in this directory "
    "(storePathDLedgerCommitLog?); write with the broker"
)
_EMPTY = "no sound entry is where the log's end was looked for; write with the broker"


def entry_before_end(
    log: LogReader,
    files: LedgerFiles,
    report: RecoveryReport,
    *,
    clean: bool,
    reput_wrote_last: bool,
) -> LastEntry:
    """Return the last entry of the log.

    Args:
        log: the log.
        files: its files.
        report: where it ends.
        clean: whether the last writer closed the log.
        reput_wrote_last: whether no other program has opened the store for writing since: reput
            leaves the units of entries that it cuts.

    Raises:
        CorruptFileError: entries follow the end, or none is before it.
    """
    last, at, finding = files.entry_of(report.last_record_offset), report.end_offset, report.finding
    if last is None:
        raise CorruptFileError(*log.path_of(at), _EMPTY)
    if not reput_wrote_last and files.has_later(last.number):
        raise CorruptFileError(*log.path_of(at), _ELSEWHERE)
    nothing_follows = clean and finding is None
    # After a place that reput had flushed last, all that it appended was not flushed.
    if nothing_follows or report.known is not None:
        return last
    if log.finder().damages_at(at, finding, after=report.last_store_timestamp):
        raise CorruptFileError(*log.path_of(at), _FOLLOWED)
    return last
