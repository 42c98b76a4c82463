"""Answers a whole read at once, from the maps of the store's own files.

Most reads leave nothing to decide: all units are written, all records are in one file of the log,
and each record is the one that its unit means. One kernel call answers such a read. It answers
nothing if anything is in doubt; `read` then looks at the records one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from reput.engine import kernel
from reput.files import read_pieces
from reput.plugin import ReadColumns, ReadResult
from reput.record import DispatchBatch
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT, UNIT_SIZE
from reput_consumequeue.reader.fastpath import sound_columns, sound_messages
from reput_consumequeue.reader.resultbuffers import SHARED_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogView
    from reput.record import MessageView
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

__all__ = ["read_mapped", "whole_columns", "whole_messages"]

_SIZE_AT: Final = 8  # of the size in a place
_RECORD_MAX: Final = 1 << 20  # bytes of a record; a larger one is looked at by itself


def read_mapped(
    queue: ConsumeQueue,
    log: LogView,
    units: bytes,
    extent: tuple[int, int, int],
    max_count: int,
    max_bytes: int,
    as_columns: bool,
) -> ReadResult | ReadColumns | None:
    """Answer `reput_read` for messages that exist; None if the read needs a decision.

    Args:
        queue: the queue.
        log: the log.
        units: the first units, one more than ``max_count`` if the next unit exists: it tells
            whether the last wanted one is a hole unit.
        extent: queue offset of the first unit; and the queue's `min_offset` and `max_offset`.
        max_count: most messages to return.
        max_bytes: most bytes of records; but one record at least.
        as_columns: whether to answer with columns.
    """
    if as_columns and queue.is_light:
        return None  # lists messages of several topics, which the decoder tells apart
    queue_offset, low, high = extent
    wanted = min(max_count, len(units) // UNIT_SIZE)
    mapped = log.map_records(units, UNIT_SIZE, wanted, max_bytes)
    if mapped is None:
        return None
    place = queue.topic_bytes, queue.queue_id, queue_offset, queue.is_light
    limits = wanted, max_bytes, _RECORD_MAX, SHARED_SIZE
    if not as_columns:
        messages = whole_messages(mapped, units, UNIT_SIZE, limits, place)
        if messages is None:
            return None
        stop = queue_offset + len(messages)
        places = range(queue_offset, stop)
        return ReadResult(ReadStatus.FOUND, stop, low, high, messages, places)
    columns = whole_columns(mapped, units, UNIT_SIZE, limits, place)
    if columns is None:
        return None
    window, cut, header, physical_offset, topic_code, queue_offsets = columns
    count = len(queue_offsets)
    end_offset, size, _ = UNIT.unpack_from(units, (count - 1) * UNIT_SIZE)
    batch = DispatchBatch(
        window=window,
        base_offset=0,
        places=cut,
        header=header,
        topic_code=topic_code,
        topics=(queue.topic,),
        end_offset=end_offset + size,
        columns={"physical_offset": physical_offset},
    )
    return ReadColumns(ReadStatus.FOUND, queue_offset + count, low, high, batch, queue_offsets)


@kernel
def whole_messages(
    mapped: tuple[npt.NDArray[np.uint8], int],
    places: bytes,
    stride: int,
    limits: tuple[int, int, int, int],
    place: tuple[bytes, int, int, bool],
) -> tuple[MessageView, ...] | None:
    """Return the messages of a whole read; None if anything is in doubt.

    Args:
        mapped: ``(w,)`` uint8 in which the records are, and the physical offset of its first byte.
        places: see `sound_messages`; one more than are wanted if the next place is known.
        stride: see `sound_messages`.
        limits: how many messages are wanted, all that are known or fewer; most bytes of records,
            but one record at least; most bytes of one record (a larger one is in doubt); and most
            bytes of records that share memory.
        place: ``topic``, ``queue_id``, ``queue_offset`` and ``is_light`` of `sound_messages`.
    """
    (data, base), (wanted, max_bytes, max_size, together) = mapped, limits
    bounds, asked = (base, base + len(data)), (max_size, wanted, max_bytes, together)
    chunks, count = read_pieces(data, *bounds, places, stride, *asked)
    found = sound_messages(chunks, places, stride, *place, -1)
    is_whole = len(found) == count and _is_whole(places, stride, count, limits)
    return tuple(found) if is_whole else None


@kernel
def whole_columns(
    mapped: tuple[npt.NDArray[np.uint8], int],
    places: bytes,
    stride: int,
    limits: tuple[int, int, int, int],
    place: tuple[bytes, int, int, bool],
) -> tuple[npt.NDArray[Any], ...] | None:
    """Return the ``n`` messages of a whole read as columns; None if anything is in doubt.

    The arguments are those of `whole_messages`. All records share memory.

    Returns:
        Records one behind the other, ``(w,)`` uint8; where they and their parts are in there,
        ``(8, n)`` int64, as `reput.record.SpanRow` says; headers, ``(n, 88)`` uint8, as those of a
        `DispatchBatch`; physical offsets, ``(n,)`` int64; zeros, ``(n,)`` int32; and queue offsets,
        ``(n,)`` int64.
    """
    (data, base), (wanted, max_bytes, max_size, _) = mapped, limits
    bounds = base, base + len(data)
    pieces, count = read_pieces(data, *bounds, places, stride, max_size, wanted, max_bytes)
    records = b"".join(pieces)
    cut, headers, offsets = sound_columns(records, places, stride, *place, -1)
    if len(offsets) < count or not _is_whole(places, stride, count, limits):
        return None
    _, _, first, _ = place
    codes, numbers = np.zeros(count, np.int32), np.arange(first, first + count)
    return np.frombuffer(records, np.uint8), cut, headers, offsets, codes, numbers


def _is_whole(places: bytes, stride: int, count: int, limits: tuple[int, int, int, int]) -> bool:
    """Whether a read that found ``count`` messages ends there, at one of its limits."""
    wanted, max_bytes, *_ = limits
    if not 0 < count < wanted:
        return count == wanted > 0
    known = min(count + 1, len(places) // stride)
    sizes = np.ndarray((known,), ">i4", places, _SIZE_AT, (stride,))
    return int(sizes.sum(dtype=np.int64)) > max_bytes
