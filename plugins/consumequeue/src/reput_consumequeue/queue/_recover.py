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
    from reput_consumequeue.queue._queue import ConsumeQueue

__all__ = ["correct_min_offset", "extend", "first_beyond", "recover", "truncate"]

_CHUNK = 16_384  # units read at a time
_FIRST_CHUNK = 204  # units read at first: one page, and most queues are short
_FILES_LOOKED_AT = 3


def recover(queue: ConsumeQueue, *, clean: bool, known_offset: int | None = None) -> None:
    """Set the extent from the files, and cut what stands behind the first unit that is none.

    Args:
        queue: whose files were loaded.
        clean: whether the last writer closed it; after a crash the last files are read.
        known_offset: physical offset below which all units are on disk for certain; files that
            begin behind it are read, however many they are.
    """
    files = queue.files
    bases = files.bases
    queue.min_offset = bases[0] if bases else 0
    queue.min_physical_offset = -1
    if not bases:
        queue.max_offset, queue.max_physical_offset = 0, -1
        return
    start = bases[-1] if clean else _first_doubtful(queue, known_offset)
    end = start
    for base in bases[bases.index(start) :]:
        count = _end_by_halving(queue, base) if clean else _end_by_reading(queue, base)
        end = base + count
        if count < files.per_file:
            break
    queue.max_offset = end
    queue.max_physical_offset = _end_of_record(queue, end - 1)
    if files.shared.writable and (not clean or end < bases[-1]):
        files.clear_from(end)


def _first_doubtful(queue: ConsumeQueue, known_offset: int | None) -> int:
    """First unit of the file from which on the files have to be read after a crash."""
    bases = queue.files.bases
    index = max(len(bases) - _FILES_LOOKED_AT, 0)
    while index > 0 and known_offset is not None:
        unit = queue.files.read(bases[index], 1)
        if valid_count(unit) == 1 and int(unit["physical_offset"][0]) < known_offset:
            break
        index -= 1
    return bases[index]


def _end_by_reading(queue: ConsumeQueue, base: int) -> int:
    units_per_file = queue.files.per_file
    done, chunk = 0, _FIRST_CHUNK
    while done < units_per_file:
        units = queue.files.read(base + done, min(chunk, units_per_file - done))
        count = valid_count(units)
        done += count
        if count < len(units) or len(units) == 0:
            break
        chunk = min(chunk * 8, _CHUNK)
    return done


def _end_by_halving(queue: ConsumeQueue, base: int) -> int:
    page = queue.files.read(base, _FIRST_CHUNK)
    low, high = valid_count(page), queue.files.per_file
    if low < len(page):
        return low
    while low < high:  # units below low are good, unit high is none
        middle = (low + high) // 2
        offset, size = queue.files.read_place(base + middle) or (-1, 0)
        if offset >= 0 and size > 0:
            low = middle + 1
        else:
            high = middle
    return low


def _end_of_record(queue: ConsumeQueue, unit: int) -> int:
    """Physical offset behind the record that ``unit`` points to; -1 where it points to none."""
    place = queue.files.read_place(unit) if unit >= queue.min_offset else None
    if place is None or place[1] == PRE_BLANK_SIZE:
        return -1
    return sum(place)


def truncate(queue: ConsumeQueue, max_physical_offset: int) -> None:
    """Cut the units whose records end behind ``max_physical_offset``."""
    if queue.max_physical_offset <= max_physical_offset:
        return
    low = first_beyond(queue, max_physical_offset)
    queue.max_offset = low
    queue.max_physical_offset = _end_of_record(queue, low - 1)
    if queue.files.shared.writable:
        queue.files.clear_from(low)


def first_beyond(queue: ConsumeQueue, max_physical_offset: int) -> int:
    """Queue offset of the first unit whose record ends behind ``max_physical_offset``."""
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
    """Move the queue's minimum to its first unit at ``min_physical_offset`` or behind it.

    Not only the first file is searched, as RocketMQ does, which counts on the files in front of
    that unit having been removed before.
    """
    files = queue.files
    low, high = queue.min_offset, queue.max_offset
    if not files.bases or low >= high or min_physical_offset <= queue.min_physical_offset:
        return
    place = files.read_place(high - 1)
    if place is not None and not _readable(place, min_physical_offset):
        low = high  # everything that it points to is gone
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
    # What comes behind the end of a queue points behind the log's beginning in any case.
    queue.min_physical_offset = min_physical_offset


def _readable(place: tuple[int, int] | None, min_physical_offset: int) -> bool:
    if place is None or place[1] == PRE_BLANK_SIZE:
        return False
    return place[0] >= min_physical_offset


def extend(queue: ConsumeQueue, max_physical_offset: int) -> None:
    """Notice units that another process wrote behind the known end.

    Units of records that the log does not show yet stay unnoticed. One call at a time.
    """
    files = queue.files
    if queue.max_physical_offset >= 0:
        place = files.read_place(queue.max_offset - 1)
        is_cut = queue.max_physical_offset > max_physical_offset  # the log, and not the queue yet
        if is_cut or place is None or sum(place) != queue.max_physical_offset:
            # The writer was opened again, and cut the queue below what was seen of it.
            files.load()
            recover(queue, clean=False)
            truncate(queue, max_physical_offset)
    while True:
        if files.base_of(queue.max_offset) is None:
            files.load()
            if files.base_of(queue.max_offset) is None:
                if not files.bases or queue.max_offset > files.bases[0]:
                    return
                # A queue that did not begin with message 0, or lost its head while we looked away.
                queue.min_offset = queue.max_offset = files.bases[0]
                queue.min_physical_offset = -1
        units = files.read(queue.max_offset, _CHUNK)
        if len(units) == 0:  # its file is gone
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
