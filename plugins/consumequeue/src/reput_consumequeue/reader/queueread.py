"""Read one queue: units, then the records that they point to.

Source: RocketMQ ``DefaultMessageStore#getMessage`` (5.3.3): every status and next offset of its
table; a read never crosses a file's end (but continues in the next file if it has found nothing).
Different on purpose: the caller's ``max_count`` and ``max_bytes`` are the limits, with no further
limits for records in or out of memory; a record is returned only if it belongs to the queue asked
for and its body matches its checksum; and a unit without such a record loses only its own message,
where RocketMQ continues with the next commit-log file. The loss is a typed hole of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from reput.files import MAPPED_MIN
from reput.plugin import ReadColumns, ReadResult
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.reader.collector import Collector
from reput_consumequeue.reader.mappedread import MAX_BYTES_HIGHEST, MAX_BYTES_LOWEST, read_mapped
from reput_consumequeue.reader.resultbuffers import ColumnBuffer, MessageBuffer

if TYPE_CHECKING:
    from reput.log import LogView
    from reput_consumequeue.queue.consumequeue import ConsumeQueue
    from reput_consumequeue.queuefiles import QueueFiles
    from reput_consumequeue.reader.readahead import FilterReadAhead

_SCAN_SIZE = 16_000  # bytes of units that one read looks at, at least (maxFilterMessageSize)
_NEXT_FILES = 1  # further files to read while nothing was found
_FIRST_LOOK = 4  # units per wanted message that a filtered read looks at first
_FIRST_LOOK_MIN = 128


def read(
    queue: ConsumeQueue,
    log: LogView,
    queue_offset: int,
    max_count: int,
    max_bytes: int,
    make_scout: Callable[[], FilterReadAhead] | None,
    as_columns: bool,
) -> ReadResult | ReadColumns:
    """Answer `reput_read` for one queue; ``make_scout`` is for a read with a filter.

    `read_loaded` answers most reads without a filter, and is asked first.
    """
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if queue_offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    if queue_offset > high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    max_bytes = min(max(max_bytes, MAX_BYTES_LOWEST), MAX_BYTES_HIGHEST)

    files, at = queue.files, queue_offset
    count = max_count
    if make_scout is not None:
        count = max(_FIRST_LOOK * max_count, _FIRST_LOOK_MIN)  # usually most are not wanted
    # At first no more units than can be returned, as most reads need no others, and the next one,
    # which tells whether the last is a hole unit.
    stop = min(high, queue_offset + max(_SCAN_SIZE // UNIT_SIZE, max_count))
    wanted = min(count, stop - at)
    data = files.read_data(at, min(wanted + 1, high - at))
    if make_scout is None and len(data) >= MAPPED_MIN * UNIT_SIZE:
        answer = read_mapped(queue, log, data, queue_offset, wanted, max_bytes, as_columns)
        if answer is not None:
            return answer
    scout = None if make_scout is None else make_scout()
    kept = ColumnBuffer() if as_columns else MessageBuffer()
    found = Collector(queue, log, max_count, max_bytes, scout, kept)
    file_end, next_files = _end_of_file(files, at), _NEXT_FILES
    while True:
        if not data:
            if found.kept:
                break  # trimmed during the read; the next read says so
            return ReadResult(ReadStatus.OFFSET_FOUND_NULL, _end_of_file(files, at), low, high)
        left = min(wanted, len(data) // UNIT_SIZE)
        if scout is None:
            sound = found.take_sound(at, data, left)
            at, left = at + sound, left - sound
            data = data[sound * UNIT_SIZE :] if left and not found.is_full else b""
        if data:
            units = np.frombuffer(data, UNIT_DTYPE)
            offsets, sizes = units["physical_offset"].tolist(), units["size"].tolist()
            following = -1, 0
            if len(units) > left:
                following = offsets.pop(), sizes.pop()
            rows = None if scout is None else scout.rows(at, units[: len(offsets)], following)
            at += found.take(at, offsets, sizes, following, rows)
        if found.is_full or at >= stop:
            break
        if at >= file_end:
            if found.kept or next_files == 0 or files.base_of(at) is None:
                break
            next_files -= 1
            stop = min(high, at + max(_SCAN_SIZE // UNIT_SIZE, max_count))
            file_end = _end_of_file(files, at)
        wanted = stop - at
        data = files.read_data(at, min(wanted + 1, high - at))
    return kept.answer(found.status, at, low, high, tuple(found.holes))


def _end_of_file(files: QueueFiles, unit: int) -> int:
    """Return the first unit after the file to which ``unit`` belongs, existing or not."""
    return unit + files.per_file - unit % files.per_file
