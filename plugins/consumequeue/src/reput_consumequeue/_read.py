"""Reading one queue: units, then the records that they point to.

Source: RocketMQ ``DefaultMessageStore#getMessage`` (5.3.3): every status and next offset of its
table, a read never crosses a file's end (it may go on into the next file while it has found
nothing). Different on purpose: the caller's ``max_count`` and ``max_bytes`` are the limits, there
are no further ones for records that are or are not in memory; a record is returned only when it is
one of the queue that was asked for; and a unit that points at no record of the log costs nothing
but itself, where RocketMQ goes on with the next commit-log file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reput.decode import RECORD_SIZE_MAX
from reput.layout import LIGHT_QUEUE_PREFIX, RECORD_MIN_SIZE
from reput.logreader import message_at
from reput.results import ReadResult
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT_SIZE

if TYPE_CHECKING:
    from reput.context import LogReader
    from reput.view import MessageView
    from reput_consumequeue._queue import ConsumeQueue

__all__ = ["read"]

_SCAN_SIZE = 16_000  # bytes of units that one read looks at, at least (maxFilterMessageSize)
_NEXT_FILES = 1  # further files to look into while nothing was found
_MAX_BYTES_LOWEST, _MAX_BYTES_HIGHEST = 100, 128 * 1024 * 1024
_STRETCH_SIZE = 1 << 20  # neighbouring records are read in one go, up to this
_STRETCH_WASTE = 3  # as long as the bytes between them are not this many times their own


def read(
    queue: ConsumeQueue, log: LogReader, queue_offset: int, max_count: int, max_bytes: int
) -> ReadResult:
    """Answer `reput.hookspecs.reput_read` for one queue."""
    result = _read(queue, log, queue_offset, max_count, max_bytes)
    if result.status is ReadStatus.MESSAGE_WAS_REMOVING and not queue.files.shared.writable:
        # The unit may have been in the middle of being written when it was read.
        result = _read(queue, log, queue_offset, max_count, max_bytes)
    return result


def _read(
    queue: ConsumeQueue, log: LogReader, queue_offset: int, max_count: int, max_bytes: int
) -> ReadResult:
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if queue_offset < low:
        return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
    if queue_offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    if queue_offset > high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    max_bytes = min(max(max_bytes, _MAX_BYTES_LOWEST), _MAX_BYTES_HIGHEST)

    status, next_offset = ReadStatus.NO_MATCHED_MESSAGE, queue_offset
    for _ in range(1 + _NEXT_FILES):
        scan_count = max(_SCAN_SIZE // UNIT_SIZE, max_count)
        units = queue.files.read(next_offset, min(scan_count, high - next_offset))
        if len(units) == 0:
            per_file = queue.files.units_per_file
            roll = next_offset + per_file - next_offset % per_file
            return ReadResult(ReadStatus.OFFSET_FOUND_NULL, roll, low, high)
        messages, places, scanned, removed = _collect(
            queue,
            log,
            next_offset,
            units["physical_offset"].tolist(),
            units["size"].tolist(),
            max_count,
            max_bytes,
        )
        next_offset += scanned
        if messages:
            return ReadResult(
                ReadStatus.FOUND, next_offset, low, high, tuple(messages), tuple(places)
            )
        if removed:
            status = ReadStatus.MESSAGE_WAS_REMOVING
        if (
            next_offset >= high
            or queue.files.base_of(next_offset) is None
            or len(units) >= scan_count
        ):
            break
    return ReadResult(status, next_offset, low, high)


def _collect(
    queue: ConsumeQueue,
    log: LogReader,
    queue_offset: int,
    offsets: list[int],
    sizes: list[int],
    max_count: int,
    max_bytes: int,
) -> tuple[list[MessageView], list[int], int, bool]:
    """Messages of consecutive units; their queue offsets; units looked at; whether one was gone."""
    messages: list[MessageView] = []
    places: list[int] = []
    total = scanned = 0
    removed = False
    skip_below = -1  # after a record that is gone: units before the next commit-log file
    records = _records(log, offsets, sizes, max_count, max_bytes)
    for row, record in enumerate(records):
        offset, size = offsets[row], sizes[row]
        if messages and (len(messages) >= max_count or total + size > max_bytes):
            break
        scanned = row + 1
        if offset < skip_below:
            continue
        message = message_at(record, offset) if len(record) == size else None
        if message is None or not _belongs(message, queue):
            if messages and not queue.files.shared.writable:
                scanned = row  # as above: the next read looks at it again
                break
            removed = True
            if offset < log.min_physical_offset:
                skip_below = offset - offset % log.file_size + log.file_size
            continue
        messages.append(message)
        places.append(queue_offset + row)
        total += size
    return messages, places, scanned, removed


def _records(
    log: LogReader, offsets: list[int], sizes: list[int], max_count: int, max_bytes: int
) -> Iterator[bytes]:
    """Bytes of the record that each unit points to; neighbours are read together."""
    row, count = 0, len(offsets)
    while row < count:
        if not RECORD_MIN_SIZE <= sizes[row] <= RECORD_SIZE_MAX:
            yield b""  # no record's size; nothing is read for it
            row += 1
            continue
        # A stretch ends where its commit-log file does, as a read does.
        file_end = offsets[row] - offsets[row] % log.file_size + log.file_size
        stop = _stretch(offsets, sizes, row, min(count, row + max_count), max_bytes, file_end)
        start = offsets[row]
        data = log.read(start, offsets[stop - 1] + sizes[stop - 1] - start)
        for index in range(row, stop):
            at = offsets[index] - start
            yield data[at : at + sizes[index]]
        row = stop


def _stretch(
    offsets: list[int], sizes: list[int], row: int, stop: int, max_bytes: int, file_end: int
) -> int:
    """End of the run of units from ``row`` on whose records are worth one read."""
    start, wanted = offsets[row], sizes[row]
    if wanted > _STRETCH_SIZE:
        return row + 1
    for index in range(row + 1, stop):
        end = offsets[index] + sizes[index]
        wanted += sizes[index]
        span = end - start
        ascending = offsets[index] >= offsets[index - 1] + sizes[index - 1]
        if not ascending or end > file_end or span > _STRETCH_SIZE or wanted > max_bytes:
            return index
        if span > wanted * (1 + _STRETCH_WASTE) + 65_536:
            return index
    return stop


def _belongs(message: MessageView, queue: ConsumeQueue) -> bool:
    if message.queue_id == queue.queue_id and message.topic_bytes == queue.topic_bytes:
        return True
    return queue.topic.startswith(LIGHT_QUEUE_PREFIX)  # it lists messages of other topics
