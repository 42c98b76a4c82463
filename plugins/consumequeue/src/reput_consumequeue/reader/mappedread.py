"""Answers a whole read at once, from the maps of the store's own files.

Most reads leave nothing to decide: all units are written, all records are in one file of the log,
and each record is the one that its unit means. One kernel call answers such a read. It answers
nothing if anything is in doubt; `read` then looks at the records one after the other.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.engine import compiled_of, kernel
from reput.files import MAPPED_MIN, read_pieces
from reput.plugin import ReadColumns, ReadResult
from reput.record import DispatchBatch, SpanRow, cut_window
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.reader.fastpath import sound_columns, sound_messages
from reput_consumequeue.reader.resultbuffers import SHARED_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

    Part = tuple[npt.NDArray[np.uint8], int, int, Callable[[], int]]

MAX_BYTES_LOWEST: Final = 100
MAX_BYTES_HIGHEST: Final = 128 * 1024 * 1024
"""Least and most bytes of records that a read may be asked to return."""

_SIZE_AT: Final = 8  # of the size in a place
_PLACE_SIZE: Final = 12
_RECORD_MAX: Final = 1 << 20  # bytes of a record; a larger one is looked at by itself


def read_loaded(
    queue: ConsumeQueue,
    log: LogView,
    queue_offset: int,
    max_count: int,
    max_bytes: int,
    as_columns: bool,
) -> ReadResult | ReadColumns | None:
    """Answer `reput_read` from parts of the log that are loaded.

    Returns:
        None if the messages do not exist, or the read needs a decision, or bytes that are not
        loaded.
    """
    # The way of most reads: no call and no object that can be spared.
    mapped = log.mapped()
    low, high = queue.min_offset, queue.max_offset
    if not mapped[1] or not low <= queue_offset < high or max_count < MAPPED_MIN:
        return None
    if as_columns and queue.is_light:
        return None  # see `read_mapped`
    files = queue.files
    file = files.file_of(queue_offset)
    if file is None:
        return None
    base, path = file
    if not MAX_BYTES_LOWEST <= max_bytes <= MAX_BYTES_HIGHEST:
        max_bytes = min(max(max_bytes, MAX_BYTES_LOWEST), MAX_BYTES_HIGHEST)
    if max_count > high - queue_offset:
        max_count = high - queue_offset
    stop = base + files.per_file
    known = (high if high < stop else stop) - queue_offset
    try:
        found = files.shared.pool.call(
            path,
            _compiled,
            (queue_offset - base) * UNIT_SIZE,
            (max_count + 1 if max_count < known else known) * UNIT_SIZE,
            UNIT_SIZE,
            mapped,
            (max_count, max_bytes, _RECORD_MAX, SHARED_SIZE),
            (queue.topic_bytes, queue.queue_id, queue_offset, queue.is_light),
            as_columns,
        )
    except FileNotFoundError:  # trimmed in the meantime
        return None
    if found is None or found is NotImplemented:
        return None
    return _answer(queue, queue_offset, low, high, found, as_columns)


def read_mapped(
    queue: ConsumeQueue,
    log: LogView,
    units: bytes,
    queue_offset: int,
    max_count: int,
    max_bytes: int,
    as_columns: bool,
) -> ReadResult | ReadColumns | None:
    """Answer `reput_read` for messages that exist; None if the read needs a decision.

    Args:
        queue: the queue.
        log: the log, of which the wanted part is loaded.
        units: the first units, one more than ``max_count`` if the next unit exists: it tells
            whether the last wanted one is a hole unit.
        queue_offset: of the first unit.
        max_count: most messages to return.
        max_bytes: most bytes of records; but one record at least.
        as_columns: whether to answer with columns.
    """
    if as_columns and queue.is_light:
        return None  # lists messages of several topics, which the decoder tells apart
    low, high = queue.min_offset, queue.max_offset
    found = log.map_records(units, UNIT_SIZE, max_count, max_bytes)
    if found is None:
        return None
    data, first = found
    mapped = first + len(data), ((data, first, 0, int),)  # its file was looked at just now
    place = queue.topic_bytes, queue.queue_id, queue_offset, queue.is_light
    limits = max_count, max_bytes, _RECORD_MAX, SHARED_SIZE
    answer = read_whole(units, 0, len(units), UNIT_SIZE, mapped, limits, place, as_columns)
    return None if answer is None else _answer(queue, queue_offset, low, high, answer, as_columns)


def _answer(
    queue: ConsumeQueue, queue_offset: int, low: int, high: int, found: Any, as_columns: bool
) -> ReadResult | ReadColumns:
    if not as_columns:
        stop = queue_offset + len(found)
        return ReadResult(ReadStatus.FOUND, stop, low, high, found, range(queue_offset, stop))
    window, places, end_offset = found
    count = places.shape[1]
    codes = _one_topic(count)
    batch = DispatchBatch.of_records(window, places, _headers, codes, queue.topic, end_offset)
    stop = queue_offset + count
    return ReadColumns(ReadStatus.FOUND, stop, low, high, batch, range(queue_offset, stop))


def _headers(window: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    header: npt.NDArray[np.uint8]
    _, header, *_ = cut_window(window, 0, False, False, False, False)
    return header


@functools.lru_cache(maxsize=8)
def _one_topic(count: int) -> npt.NDArray[np.int32]:
    """Return the codes of as many messages of one topic; most reads return equally many."""
    codes = np.zeros(count, np.int32)
    codes.setflags(write=False)
    return codes


@kernel
def read_whole(
    source: int | bytes,
    position: int,
    size: int,
    stride: int,
    mapped: tuple[int, Sequence[Part]],
    limits: tuple[int, int, int, int],
    place: tuple[bytes, int, int, bool],
    as_columns: bool,
) -> tuple[Any, ...] | None:
    """Return the ``n`` messages of a whole read; None if anything is in doubt.

    Args:
        source: descriptor of the file of places, or its bytes.
        position: file position of the first place.
        size: bytes of the places, one more of which than are wanted if the next one is known; see
            `sound_messages`.
        stride: see `sound_messages`.
        mapped: see `reput.log.LogView.mapped`; the first part with the first record counts.
        limits: most messages, which end the read as the last place does; most bytes of records, but
            one record at least; most bytes of one record (a larger one is in doubt); and most bytes
            of records that share memory.
        place: ``topic``, ``queue_id``, ``queue_offset`` and ``is_light`` of `sound_messages`.
        as_columns: whether columns are wanted.

    Returns:
        Messages. Or, as columns, which nobody may write: the records one behind the other, ``(w,)``
        uint8; ``(9, n)`` int64: where they and their parts are in there, as `reput.record.SpanRow`
        says, and their physical offsets; and the physical offset after the last record.
    """
    places = _places(source, position, size)
    wanted, max_bytes, max_size, together = limits
    end, parts = mapped
    wanted = min(wanted, len(places) // stride)
    if wanted == 0:
        return None
    first = int.from_bytes(places[:8], "big", signed=True)
    part = next((each for each in parts if each[1] <= first < each[1] + len(each[0])), None)
    if part is None or part[3]() < part[2]:
        return None
    data, base, *_ = part
    asked = base, min(base + len(data), end), places, stride, max_size, wanted, max_bytes
    chunks, count = read_pieces(data, *asked, 0 if as_columns else together)
    if not _is_whole(places, stride, count, wanted, max_bytes):
        return None
    if not as_columns:
        messages = sound_messages(chunks, places, stride, *place, -1)
        return tuple(messages) if len(messages) == count else None
    records = b"".join(chunks)
    cut, _, offsets = sound_columns(records, places, stride, *place, -1)
    if len(offsets) < count:
        return None
    rows = np.vstack((cut, offsets))
    rows.setflags(write=False)
    end = int(offsets[-1] + cut[SpanRow.SIZE, -1])
    return np.frombuffer(records, np.uint8), rows, end


_compiled: Final = compiled_of(read_whole)


def _places(source: int | bytes, position: int, size: int) -> bytes:
    if isinstance(source, bytes):
        found = source[position : position + size]
        return found if len(found) == size else b""
    place = struct.pack(">qi", position, size)
    pieces, _ = read_pieces(source, 0, position + size, place, _PLACE_SIZE, size, 1, size)
    return b"".join(pieces)


def _is_whole(places: bytes, stride: int, count: int, wanted: int, max_bytes: int) -> bool:
    """Whether a read that found ``count`` messages ends there, at one of its limits."""
    if not 0 < count < wanted:
        return count == wanted > 0
    known = min(count + 1, len(places) // stride)
    sizes = np.ndarray((known,), ">i4", places, _SIZE_AT, (stride,))
    return int(sizes.sum(dtype=np.int64)) > max_bytes
