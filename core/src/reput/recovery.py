"""Finds the end of a log that was closed, or left by a crash, without reading all of it.

Source: RocketMQ ``CommitLog#recoverNormally`` (5.3.3 begins at the last file that the queues reach)
and ``#recoverAbnormally`` (begins at the last file whose first message the checkpoint vouches for).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from reput.batch import Finding, FindingReason
from reput.decode import End
from reput.layout import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC
from reput.logreader import message_at

if TYPE_CHECKING:
    from reput.checkpoint import Checkpoint
    from reput.closerecord import CloseRecord
    from reput.logreader import CommitLogReader

__all__ = ["Recovery", "find_end"]


@attrs.frozen
class Recovery:
    """What opening found at the end of the log."""

    start_offset: int
    """Where reading began: the first byte of a file."""
    end_offset: int
    """Where the valid log ends."""
    message_count: int
    """Records read on the way, every checksum verified."""
    last_store_timestamp: int
    """Store time of the last of them, ms; 0 when there was none."""
    finding: Finding | None
    """What stands at the end, when it is neither unwritten space nor the files' end."""
    last_record_offset: int = -1
    """Where the last record begins; -1 in an empty log."""
    truncated_size: int = 0
    """Bytes of files behind the end that were cut, unwritten space included."""


def find_end(
    log: CommitLogReader,
    checkpoint: Checkpoint,
    closed: CloseRecord | None,
    *,
    clean: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Recovery:
    """Read from a place that is surely good to the first byte that is no part of the log.

    Args:
        log: its files must be loaded; nothing of it is changed.
        checkpoint: what the last writer flushed, for a log that was not closed.
        closed: what the last writer left behind, when it was one of ours.
        clean: whether the last writer closed the log.
        progress: called with bytes done and bytes in all.
    """
    bases = log.files.bases
    if not bases:
        return Recovery(0, 0, 0, 0, None)
    if clean and closed is not None and _is_as_closed(log, closed):
        end, record = closed.end_offset, closed.record_offset
        return Recovery(end, end, 0, closed.last_store_timestamp, None, record)
    start = _start_file(log, bases, None if clean else checkpoint.replay_timestamp)
    reader = log.window_reader(check_crc=True, check_record_crc=True)
    position, count, timestamp, last_record = start, 0, 0, -1
    while True:
        result = reader.read(position)
        batch = result.batch
        if len(batch):
            count += len(batch)
            timestamp = int(batch.store_timestamp[-1])
            last_record = batch.base_offset + int(batch.start[-1])
            last_end = last_record + int(batch.size[-1])
        else:
            last_end = position
        end = batch.end_offset
        if progress is not None:
            progress(end - start, log.files.capacity_end - start)
        if result.end == End.BLANK and log.files.base_of(end) is None:
            # The next file was never made. The log ends in front of the blank, which the next
            # append writes again where it does not fit.
            return Recovery(start, last_end, count, timestamp, None, last_record)
        if result.end in (End.BAD, End.EMPTY) or end == position:
            found = Recovery(start, end, count, timestamp, batch.finding, last_record)
            if clean and closed is not None:
                return _without_changed_record(found, closed)
            is_torn = not clean and result.end == End.EMPTY and end == last_end
            return _without_torn_record(log, found) if is_torn else found
        position = end


def _without_torn_record(log: CommitLogReader, found: Recovery) -> Recovery:
    """``found`` without a last record whose properties end in bytes that were never written.

    The body's checksum does not cover properties. Writers end them with a separator, and pages that
    a crash lost read as zeros, as does what follows the log's end.
    """
    record, end = found.last_record_offset, found.end_offset
    data = log.files.read(record, end - record) if record >= 0 else b""
    message = message_at(data, record)
    if message is None or not message.properties_text.endswith(b"\0"):
        return found
    finding = Finding(record, FindingReason.TORN, "its properties end in zeros")
    return attrs.evolve(found, end_offset=record, finding=finding, last_record_offset=-1)


def _is_as_closed(log: CommitLogReader, closed: CloseRecord) -> bool:
    """Whether the log ends in the record that was written last, and nothing follows it."""
    end, record = closed.end_offset, closed.record_offset
    if record < 0 or log.files.base_of(record) is None:
        return False
    behind = log.files.read(end, SIZE_AND_MAGIC.size)
    if len(behind) == SIZE_AND_MAGIC.size and SIZE_AND_MAGIC.unpack(behind)[1] in (
        MAGIC_V1,
        MAGIC_V2,
    ):
        return False
    return zlib.crc32(log.files.read(record, end - record)) == closed.record_crc


def _without_changed_record(found: Recovery, closed: CloseRecord) -> Recovery:
    """``found`` without its last record, when that is the one that was written last, but changed.

    A log that ends elsewhere is another one, put back from a copy perhaps, and stands as it was
    found.
    """
    same_place = found.last_record_offset == closed.record_offset
    if not same_place or found.end_offset != closed.end_offset:
        return found
    detail = "its bytes are not those that were written"
    finding = Finding(closed.record_offset, FindingReason.RECORD_CRC, detail)
    return attrs.evolve(
        found, end_offset=closed.record_offset, finding=finding, last_record_offset=-1
    )


def _start_file(log: CommitLogReader, bases: tuple[int, ...], until: int | None) -> int:
    """Base of the last file that begins with a record (stored no later than ``until``)."""
    for base in reversed(bases):
        head = log.files.read(base, SIZE_AND_MAGIC.size)
        if len(head) < SIZE_AND_MAGIC.size:
            continue
        _, magic = SIZE_AND_MAGIC.unpack(head)
        if magic not in (MAGIC_V1, MAGIC_V2):
            continue
        if until is None or 0 < log.store_timestamp_in_files(base) <= until:
            return base
    return bases[0]
