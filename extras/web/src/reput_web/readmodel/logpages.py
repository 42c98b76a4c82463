"""Pages of messages from the log itself: every record, in both directions, and searches in it.

Records have no marks of their beginning, so a window that is read backward begins anywhere: the log
finds the next valid record from there, as it does after damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_web.readmodel.rows import LostRow, MessagePage, Row, row_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput import DispatchBatch, Store
    from reput_web.readmodel.workbudget import WorkBudget

    Choose = Callable[[DispatchBatch], npt.NDArray[np.bool_]]

_WINDOW_MIN: Final = 256 << 10
_WINDOW_MAX: Final = 16 << 20
_PROBE_SIZE: Final = 1 << 20
_FIRST_SIZE: Final = 16 << 10


@attrs.frozen(kw_only=True)
class LogRange:
    """Which records are wanted."""

    start: int
    """Physical offset of the first byte."""
    end: int
    """Physical offset after the last byte."""
    choose: Choose
    """Says which rows of a batch are wanted: ``(n,)``."""
    with_damage: bool = True
    """Whether damage of the log is shown."""


def every_row(batch: DispatchBatch) -> npt.NDArray[np.bool_]:
    """Choose every record."""
    return np.ones(len(batch), np.bool_)


def oldest_first(store: Store, wanted: LogRange, count: int, budget: WorkBudget) -> MessagePage:
    """Return the first ``count`` records that are chosen, in the order of the log."""
    rows: list[Row] = []
    position = wanted.start
    for batch in store.scan(wanted.start, wanted.end):
        rows += _wanted_rows(batch, wanted, wanted.start)
        budget.spend(max(batch.end_offset - position, 0))
        position = max(position, batch.end_offset)
        if len(rows) > count or budget.is_spent:
            break
    else:
        position = wanted.end
    left = max(wanted.end - position, 0)
    if len(rows) > count:
        return _full(rows[:count], budget, left, _after)
    return MessagePage(
        rows=tuple(rows),
        next_at=position if left else None,
        is_unfinished=left > 0,
        searched_size=budget.read_count,
        left_size=left,
    )


def newest_first(store: Store, wanted: LogRange, count: int, budget: WorkBudget) -> MessagePage:
    """Return the last ``count`` records that are chosen, the last one first."""
    rows: list[Row] = []
    end, size = wanted.end, _WINDOW_MIN
    for begin, first, found in _windows_backward(store, wanted, size):
        rows += reversed(found)
        budget.spend(end - begin)
        end = first
        if len(rows) > count or budget.is_spent:
            break
    left = max(end - wanted.start, 0)
    if len(rows) > count:
        return _full(rows[:count], budget, left, lambda row: row.physical_offset)
    return MessagePage(
        rows=tuple(rows),
        next_at=end if left else None,
        is_unfinished=left > 0,
        searched_size=budget.read_count,
        left_size=left,
    )


def _full(
    rows: list[Row], budget: WorkBudget, left: int, cursor: Callable[[Row], int]
) -> MessagePage:
    return MessagePage(
        rows=tuple(rows),
        next_at=cursor(rows[-1]),
        searched_size=budget.read_count,
        left_size=left,
    )


def _after(row: Row) -> int:
    return row.physical_offset + max(row.size, 1)


def _windows_backward(
    store: Store, wanted: LogRange, size: int
) -> Iterator[tuple[int, int, list[Row]]]:
    """Yield windows from the end on: where each begins, its first record, and its rows."""
    end = wanted.end
    while end > wanted.start:
        begin = max(wanted.start, end - size, _file_start(store, end))
        first, rows = end, []
        for batch in store.scan(begin, end):
            if len(batch):
                first = min(first, int(batch.physical_offset[0]))
            rows += _wanted_rows(batch, wanted, begin)
        is_whole = begin in (wanted.start, _file_start(store, end))
        if first == end and not is_whole:
            size *= 2  # no record begins here: it is larger than the window, or damaged
            continue
        first = begin if is_whole else first
        yield begin, first, rows
        end, size = first, min(2 * size, _WINDOW_MAX)


def _file_start(store: Store, end: int) -> int:
    """Return where the log file begins that holds the byte before ``end``."""
    starts = [each for each in store.log.file_offsets if each < end]
    return starts[-1] if starts else store.log.min_physical_offset


def _wanted_rows(batch: DispatchBatch, wanted: LogRange, begin: int) -> list[Row]:
    rows: list[Row] = [
        row_of(batch.message(row)) for row in np.flatnonzero(wanted.choose(batch)).tolist()
    ]
    finding = batch.finding
    # A window may begin inside of a record.
    if finding is not None and wanted.with_damage and finding.physical_offset != begin:
        rows.append(LostRow(physical_offset=finding.physical_offset, size=0, reason=str(finding)))
    return rows


def log_place_of(store: Store, timestamp: int) -> int:
    """Return where the first record is that was stored at a time or later: a physical offset.

    Store times are taken as ascending, and read at about thirty places of the log.
    """
    low, high = store.log.min_physical_offset, store.log.max_physical_offset
    while high - low > _PROBE_SIZE:
        middle = (low + high) // 2
        found = _first_at(store, middle, high)
        if found is None:
            high = middle
        elif found[1] >= timestamp:
            high = min(found[0], high - 1)
        else:
            low = found[0]
    for batch in store.scan(low):
        later = np.flatnonzero(batch.store_timestamp >= timestamp)
        if len(later):
            return int(batch.physical_offset[later[0]])
        if batch.end_offset > high:
            break
    return record_from(store, high)


def record_from(store: Store, physical_offset: int) -> int:
    """Return where the first record at an offset or after it begins; the log's end without one."""
    end = store.log.max_physical_offset
    found = _first_at(store, max(physical_offset, store.log.min_physical_offset), end)
    return end if found is None else found[0]


def _first_at(store: Store, start: int, end: int) -> tuple[int, int] | None:
    """Return offset and store time of the first record in a range of the log."""
    size = _FIRST_SIZE
    while start < end:
        for batch in store.scan(start, min(start + size, end)):
            if len(batch):
                return int(batch.physical_offset[0]), int(batch.store_timestamp[0])
        if start + size >= end:
            return None
        size *= 4
    return None
