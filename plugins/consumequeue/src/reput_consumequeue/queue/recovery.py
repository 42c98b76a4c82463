"""Recover a queue's extent, which no file states, and cut what the log does not have.

Source: RocketMQ ``ConsumeQueue#recover``, ``#truncateDirtyLogicFiles`` and ``#correctMinOffset``
(5.x). Different on purpose: after a proper close a queue is not read unit by unit, its end is found
by halving; pre-blank units do not count as units of a record that ends at 2,147,483,647; cut units
are zeroed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_consumequeue.layout import PRE_BLANK_SIZE, UNIT_DTYPE, valid_count

if TYPE_CHECKING:
    import numpy as np

    from reput_consumequeue.queue.consumequeue import ConsumeQueue
    from reput_consumequeue.queuefiles import Units

_CHUNK = 16_384  # units of one read
_FIRST_CHUNK = 204  # units of the first read: one page, and most queues are short
_FILES_LOOKED_AT = 3


def recover(queue: ConsumeQueue, *, clean: bool, known_offset: int | None = None) -> None:
    """Set the extent from the files, and cut everything after the first invalid unit.

    Args:
        queue: with its files loaded.
        clean: whether the last writer closed it; after a crash the last files are read.
        known_offset: physical offset below which all units are on disk for certain; all files that
            begin above it are read.
    """
    files = queue.files
    bases = files.bases
    queue.min_offset = bases[0] if bases else 0
    queue.min_physical_offset = -1
    if not bases:
        queue.max_offset, queue.max_physical_offset = 0, -1
        return
    start = bases[-1] if clean else _first_doubtful(queue, known_offset)
    end, page = start, None
    for base in bases[bases.index(start) :]:
        page = files.read(base, _FIRST_CHUNK)
        if base == queue.min_offset and valid_count(page[:1]) and not _is_pre_blank(page[0]):
            queue.min_physical_offset = int(page["physical_offset"][0])
        count = _end_by_halving(queue, base, page) if clean else _end_by_reading(queue, base, page)
        end = base + count
        if count < files.per_file:
            break
    queue.max_offset = end
    queue.max_physical_offset = _end_of_record(queue, end - 1, page, base)
    if files.shared.writable and (not clean or end < bases[-1]):
        files.clear_from(end)


def _first_doubtful(queue: ConsumeQueue, known_offset: int | None) -> int:
    """Return the first unit of the first file that has to be read after a crash."""
    bases = queue.files.bases
    index = max(len(bases) - _FILES_LOOKED_AT, 0)
    while index > 0 and known_offset is not None:
        unit = queue.files.read(bases[index], 1)
        if valid_count(unit) == 1 and int(unit["physical_offset"][0]) < known_offset:
            break
        index -= 1
    return bases[index]


def _end_by_reading(queue: ConsumeQueue, base: int, units: Units) -> int:
    units_per_file = queue.files.per_file
    done, chunk = 0, _FIRST_CHUNK
    while True:
        count = valid_count(units)
        done += count
        if count < len(units) or len(units) == 0 or done >= units_per_file:
            return done
        chunk = min(chunk * 8, _CHUNK)
        units = queue.files.read(base + done, min(chunk, units_per_file - done))


def _end_by_halving(queue: ConsumeQueue, base: int, page: Units) -> int:
    low, high = valid_count(page), queue.files.per_file
    if low < len(page):
        return low
    while low < high:  # units below low are valid, unit high is not
        middle = (low + high) // 2
        offset, size = queue.files.read_place(base + middle) or (-1, 0)
        if offset >= 0 and size > 0:
            low = middle + 1
        else:
            high = middle
    return low


def _end_of_record(queue: ConsumeQueue, unit: int, page: Units | None = None, base: int = 0) -> int:
    """Return the physical offset after the record that ``unit`` points to; -1 without one.

    The unit need not be read if it is one of ``page``, which begins at ``base``.
    """
    if page is not None and base <= unit < base + len(page):
        place: tuple[int, int] | None = page[unit - base].item()[:2]
    else:
        place = queue.files.read_place(unit) if unit >= queue.min_offset else None
    if place is None or place[1] == PRE_BLANK_SIZE:
        return -1
    return sum(place)


def truncate(queue: ConsumeQueue, max_physical_offset: int) -> None:
    """Cut the units whose records end above ``max_physical_offset``."""
    if queue.max_physical_offset <= max_physical_offset:
        return
    low = first_beyond(queue, max_physical_offset)
    queue.max_offset = low
    if low == queue.min_offset:
        queue.min_physical_offset = -1  # its next first unit is another one
    queue.max_physical_offset = _end_of_record(queue, low - 1)
    if queue.files.shared.writable:
        queue.files.clear_from(low)


def first_beyond(queue: ConsumeQueue, max_physical_offset: int) -> int:
    """Return the first queue offset whose record ends above ``max_physical_offset``."""
    low, high = queue.min_offset, queue.max_offset  # units below low stay, unit high goes
    while low < high:
        middle = (low + high) // 2
        if _stays(queue.files.read_place(middle), max_physical_offset):
            low = middle + 1
        else:
            high = middle
    return low


def _stays(place: tuple[int, int] | None, max_physical_offset: int) -> bool:
    if place is None:
        return False
    offset, size = place
    return size == PRE_BLANK_SIZE or offset + size <= max_physical_offset


def correct_min_offset(queue: ConsumeQueue, min_physical_offset: int) -> None:
    """Move the queue's minimum to its first unit at or above ``min_physical_offset``.

    All files are searched. RocketMQ searches only the first file, and relies on earlier files
    having been removed before.
    """
    files = queue.files
    low, high = queue.min_offset, queue.max_offset
    if not files.bases or low >= high or min_physical_offset <= queue.min_physical_offset:
        return
    place = None
    if queue.max_physical_offset <= min_physical_offset:  # else its last record is in the log
        place = files.read_place(high - 1)
    if place is not None and not _readable(place, min_physical_offset):
        low = high  # all records that its units point to are gone
    else:
        low = max(low, files.bases[0])
        if _readable(files.read_place(low), min_physical_offset):
            high = low
        while low < high:
            middle = (low + high) // 2
            if _readable(files.read_place(middle), min_physical_offset):
                high = middle
            else:
                low = middle + 1
    queue.min_offset = low
    # Later units point above the log's beginning in any case.
    queue.min_physical_offset = min_physical_offset


def _is_pre_blank(unit: np.void) -> bool:
    return int(unit["size"]) == PRE_BLANK_SIZE


def _readable(place: tuple[int, int] | None, min_physical_offset: int) -> bool:
    if place is None or place[1] == PRE_BLANK_SIZE:
        return False
    return place[0] >= min_physical_offset


def extend(queue: ConsumeQueue, max_physical_offset: int) -> None:
    """Notice units that another process wrote after the known end.

    Units whose records the log does not show yet stay unnoticed. One call at a time.
    """
    files = queue.files
    if queue.max_physical_offset >= 0:
        place = files.read_place(queue.max_offset - 1)
        is_cut = (
            queue.max_physical_offset > max_physical_offset
        )  # the log is cut, not the queue yet
        if is_cut or place is None or sum(place) != queue.max_physical_offset:
            # The writer was opened again, and cut the queue below the end that was seen.
            files.load()
            recover(queue, clean=False)
            truncate(queue, max_physical_offset)
    while True:
        if files.base_of(queue.max_offset) is None:
            files.load()
            if files.base_of(queue.max_offset) is None:
                if not files.bases or queue.max_offset > files.bases[0]:
                    return
                # The queue did not begin with message 0, or its oldest units were removed since
                # the last look.
                queue.min_offset = queue.max_offset = files.bases[0]
                queue.min_physical_offset = -1
        units = files.read(queue.max_offset, _CHUNK)
        if len(units) == 0:  # the file is gone
            files.load()
            if files.base_of(queue.max_offset) is not None:
                return
            continue
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
