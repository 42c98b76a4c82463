"""Finds the end of a log that was closed, or left by a crash, without reading all of it.

Source: RocketMQ ``CommitLog#recoverNormally`` (5.3.3 begins at the last file that the queues reach)
and ``#recoverAbnormally`` (begins at the last file whose first message the checkpoint vouches for).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from reput.batch import Finding
from reput.decode import End
from reput.layout import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC

if TYPE_CHECKING:
    from reput.checkpoint import Checkpoint
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
    truncated_size: int = 0
    """Bytes of files behind the end that were cut, unwritten space included."""


def find_end(
    log: CommitLogReader,
    checkpoint: Checkpoint,
    *,
    clean: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Recovery:
    """Read from a place that is surely good to the first byte that is no part of the log.

    Args:
        log: its files must be loaded; nothing of it is changed.
        checkpoint: what the last writer flushed, for a log that was not closed.
        clean: whether the last writer closed the log.
        progress: called with bytes done and bytes in all.
    """
    bases = log.files.bases
    if not bases:
        return Recovery(0, 0, 0, 0, None)
    start = _start_file(log, bases, None if clean else checkpoint.replay_timestamp)
    reader = log.window_reader(check_crc=True)
    position, count, timestamp = start, 0, 0
    while True:
        result = reader.read(position)
        batch = result.batch
        if len(batch):
            count += len(batch)
            timestamp = int(batch.store_timestamp[-1])
        end = batch.end_offset
        if progress is not None:
            progress(end - start, log.files.capacity_end - start)
        if result.end == End.BLANK and log.files.base_of(end) is None:
            # The next file was never made. The log ends in front of the blank, which the next
            # append writes again where it does not fit.
            last = batch.base_offset + int(batch.start[-1] + batch.size[-1]) if len(batch) else None
            return Recovery(start, position if last is None else last, count, timestamp, None)
        if result.end in (End.BAD, End.EMPTY) or end == position:
            return Recovery(start, end, count, timestamp, batch.finding)
        position = end


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
