"""Finds a queue's extent again, which no file states, and cuts what the log does not have.

Source: RocketMQ ``ConsumeQueue#recover``, ``#truncateDirtyLogicFiles`` and ``#correctMinOffset``
(5.x). Different on purpose: a queue of a closed store is not read unit by unit, its end is found by
halving; pre-blank units do not count as units of a record that ends at 2,147,483,647; what is cut
is cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_consumequeue.layout import PRE_BLANK_SIZE, UNIT_DTYPE, valid_count

if TYPE_CHECKING:
    import numpy as np

    from reput_consumequeue._queue import ConsumeQueue

__all__ = ["correct_min_offset", "extend", "recover", "truncate"]

_CHUNK = 16_384  # units read at a time
_FILES_LOOKED_AT = 3


def recover(queue: ConsumeQueue, *, clean: bool) -> None:
    """Set the extent from the files, and cut what stands behind the first unit that is none."""
    files = queue.files
    bases = files.bases
    queue.min_offset = bases[0] if bases else 0
    if not bases:
        queue.max_offset, queue.max_physical_offset = 0, -1
        return
    start = bases[-1] if clean else bases[max(len(bases) - _FILES_LOOKED_AT, 0)]
    end = start
    for base in bases[bases.index(start) :]:
        count = _end_by_halving(queue, base) if clean else _end_by_reading(queue, base)
        end = base + count
        if count < files.units_per_file:
            break
    queue.max_offset = end
    queue.max_physical_offset = _end_of_record(queue, end - 1)
    if files.shared.writable and (not clean or end < bases[-1]):
        files.clear_from(end)


def _end_by_reading(queue: ConsumeQueue, base: int) -> int:
    units_per_file = queue.files.units_per_file
    done = 0
    while done < units_per_file:
        units = queue.files.read(base + done, min(_CHUNK, units_per_file - done))
        count = valid_count(units)
        done += count
        if count < len(units) or len(units) == 0:
            break
    return done


def _end_by_halving(queue: ConsumeQueue, base: int) -> int:
    low, high = 0, queue.files.units_per_file  # units below low are good, unit high is none
    while low < high:
        middle = (low + high) // 2
        if valid_count(queue.files.read(base + middle, 1)) == 1:
            low = middle + 1
        else:
            high = middle
    return low


def _end_of_record(queue: ConsumeQueue, unit: int) -> int:
    """Physical offset behind the record that ``unit`` points to; -1 where it points to none."""
    if unit < queue.min_offset:
        return -1
    units = queue.files.read(unit, 1)
    if len(units) == 0 or int(units["size"][0]) == PRE_BLANK_SIZE:
        return -1
    return int(units["physical_offset"][0]) + int(units["size"][0])


def truncate(queue: ConsumeQueue, max_physical_offset: int) -> None:
    """Cut the units whose records end behind ``max_physical_offset``."""
    if queue.max_physical_offset <= max_physical_offset:
        return
    low, high = queue.min_offset, queue.max_offset  # units below low stay, unit high goes
    while low < high:
        middle = (low + high) // 2
        if _stays(queue.files.read(middle, 1), max_physical_offset):
            low = middle + 1
        else:
            high = middle
    queue.max_offset = low
    queue.max_physical_offset = _end_of_record(queue, low - 1)
    if queue.files.shared.writable:
        queue.files.clear_from(low)


def _stays(unit: np.ndarray[tuple[int], np.dtype[np.void]], max_physical_offset: int) -> bool:
    if len(unit) == 0:
        return False
    offset, size = int(unit["physical_offset"][0]), int(unit["size"][0])
    return size == PRE_BLANK_SIZE or offset + size <= max_physical_offset


def correct_min_offset(queue: ConsumeQueue, min_physical_offset: int) -> None:
    """Move the queue's minimum to its first unit at ``min_physical_offset`` or behind it."""
    files = queue.files
    if not files.bases or queue.min_offset >= queue.max_offset:
        return
    last = files.read(queue.max_offset - 1, 1)
    if len(last) and not _readable(last, min_physical_offset):
        queue.min_offset = queue.max_offset  # everything that it points to is gone
        return
    low, high = max(queue.min_offset, files.bases[0]), queue.max_offset
    while low < high:
        middle = (low + high) // 2
        if _readable(files.read(middle, 1), min_physical_offset):
            high = middle
        else:
            low = middle + 1
    queue.min_offset = low


def _readable(unit: np.ndarray[tuple[int], np.dtype[np.void]], min_physical_offset: int) -> bool:
    if len(unit) == 0 or int(unit["size"][0]) == PRE_BLANK_SIZE:
        return False
    return int(unit["physical_offset"][0]) >= min_physical_offset


def extend(queue: ConsumeQueue, max_physical_offset: int) -> None:
    """Notice units that another process wrote behind the known end.

    Units of records that the log does not show yet stay unnoticed.
    """
    files = queue.files
    while True:
        if files.base_of(queue.max_offset) is None:
            if queue.max_offset and files.bases and queue.max_offset < files.bases[-1]:
                return
            files.load()
            if files.base_of(queue.max_offset) is None:
                if not (files.bases and queue.max_offset == 0):
                    return
                queue.max_offset = files.bases[0]  # a queue that did not begin with message 0
        units = files.read(queue.max_offset, _CHUNK)
        count = valid_count(units)
        ends = units["physical_offset"][:count] + units["size"][:count].astype(
            UNIT_DTYPE["physical_offset"]
        )
        beyond = (ends > max_physical_offset) & (units["size"][:count] != PRE_BLANK_SIZE)
        if beyond.any():
            count = int(beyond.argmax())
        if count == 0:
            return
        blank = units["size"][:count] == PRE_BLANK_SIZE
        if blank.any() and queue.max_physical_offset < 0:
            queue.min_offset = queue.max_offset + int(blank.sum())
        if not blank.all():
            queue.max_physical_offset = int(ends[count - 1])
        queue.max_offset += count
        if count < len(units):
            return
