"""Pages of messages from queues, by physical offset: one cursor for one queue and for many.

Queues are merged in the order of the log. A queue is opened only when its newest message may be on
the page, so that a topic, or a store, of many queues costs little.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.log import CLOCK_SLACK_MS
from reput_web.readmodel.rows import LostRow, MessagePage, MessageRow, Row, lost_row, row_of

if TYPE_CHECKING:
    from reput import QueueInfo, Store
    from reput_web.readmodel.workbudget import WorkBudget

_READ_SIZE: Final = 1 << 20
_CHUNK_MAX: Final = 64


@attrs.frozen(kw_only=True)
class QueueRange:
    """Which part of each queue is wanted."""

    since: int | None = None
    """Earliest store time, ms."""
    until: int | None = None
    """Latest store time, ms."""
    offset: int | None = None
    """A queue offset: the first message if the oldest come first, else the last one."""
    at: int | None = None
    """The cursor: the page goes on before, or after, this physical offset."""
    is_compacted: bool = False
    """Whether the topic is compacted: its messages have positions in files of their queue, so that
    queues are merged in no order of time."""


def newest_first(
    store: Store, queues: Sequence[QueueInfo], wanted: QueueRange, count: int, budget: WorkBudget
) -> MessagePage:
    """Return the newest ``count`` messages before the cursor, the newest first."""
    waiting = sorted(
        (each for each in queues if each.message_count and each.last_update_timestamp is not None),
        key=lambda each: each.last_update_timestamp or 0,
    )
    chunk = _chunk(count, len(waiting))
    heads: list[tuple[int, int, Row, Iterator[Row]]] = []
    rows: list[Row] = []
    while len(rows) <= count:
        while waiting and (
            not heads
            or wanted.is_compacted
            or _newest(waiting[-1]) + CLOCK_SLACK_MS >= _time_of(heads[0][2])
        ):
            _push(heads, _backward(store, waiting.pop(), wanted, chunk, budget), -1)
        if not heads:
            break
        _, number, row, source = heapq.heappop(heads)
        rows.append(row)
        _push(heads, source, -1, number)
    return _page(rows, count, budget)


def oldest_first(
    store: Store, queues: Sequence[QueueInfo], wanted: QueueRange, count: int, budget: WorkBudget
) -> MessagePage:
    """Return the oldest ``count`` messages after the cursor, the oldest first."""
    chosen = [each for each in queues if each.message_count]
    chunk = _chunk(count, len(chosen))
    heads: list[tuple[int, int, Row, Iterator[Row]]] = []
    for queue in chosen:
        _push(heads, _forward(store, queue, wanted, chunk, budget), 1)
    rows: list[Row] = []
    while heads and len(rows) <= count:
        _, number, row, source = heapq.heappop(heads)
        rows.append(row)
        _push(heads, source, 1, number)
    return _page(rows, count, budget)


def _page(rows: list[Row], count: int, budget: WorkBudget) -> MessagePage:
    shown = rows[:count]
    more = len(rows) > count
    return MessagePage(rows=tuple(shown), next_at=shown[-1].physical_offset if more else None)


def _chunk(count: int, queue_count: int) -> int:
    return min(max(count // max(queue_count, 1) + 1, 4), _CHUNK_MAX)


def _push(
    heads: list[tuple[int, int, Row, Iterator[Row]]],
    source: Iterator[Row],
    sign: int,
    number: int | None = None,
) -> None:
    row = next(source, None)
    if row is not None:
        number = id(source) if number is None else number
        heapq.heappush(heads, (sign * row.physical_offset, number, row, source))


def _newest(queue: QueueInfo) -> int:
    return queue.last_update_timestamp or 0


def _time_of(row: Row) -> int:
    return row.store_timestamp if isinstance(row, MessageRow) else 1 << 62


# --------------------------------------------------------------------------- one queue


def _backward(
    store: Store, queue: QueueInfo, wanted: QueueRange, chunk: int, budget: WorkBudget
) -> Iterator[Row]:
    topic, queue_id = queue.topic, queue.queue_id
    first, end = queue.min_queue_offset, queue.max_queue_offset
    if wanted.since is not None:
        first = max(first, store.offset_by_time(topic, queue_id, wanted.since))
    if wanted.until is not None:
        end = min(end, store.offset_by_time(topic, queue_id, wanted.until + 1))
    if wanted.offset is not None:
        end = min(end, wanted.offset + 1)
    if wanted.at is not None:
        end = min(end, _first_from(store, queue, wanted.at))
    while first < end and not budget.stopped.is_set():
        begin = max(first, end - chunk)
        rows = list(_rows(store, queue, begin, end, chunk, wanted, budget))
        yield from (row for row in reversed(rows) if _is_in(row, wanted))
        end, chunk = begin, min(2 * chunk, _CHUNK_MAX)
        if wanted.is_compacted and not rows:
            end = _end_before_gap(store, queue, first, end)


def _forward(
    store: Store, queue: QueueInfo, wanted: QueueRange, chunk: int, budget: WorkBudget
) -> Iterator[Row]:
    topic, queue_id = queue.topic, queue.queue_id
    first, end = queue.min_queue_offset, queue.max_queue_offset
    if wanted.since is not None:
        first = max(first, store.offset_by_time(topic, queue_id, wanted.since))
    if wanted.until is not None:
        end = min(end, store.offset_by_time(topic, queue_id, wanted.until + 1))
    if wanted.offset is not None:
        first = max(first, wanted.offset)
    if wanted.at is not None:
        first = max(first, _first_from(store, queue, wanted.at + 1))
    rows = _rows(store, queue, first, end, chunk, wanted, budget)
    yield from (row for row in rows if _is_in(row, wanted))


def _is_in(row: Row, wanted: QueueRange) -> bool:
    if isinstance(row, LostRow):
        return True
    time = row.store_timestamp
    return (wanted.since is None or wanted.since <= time) and (
        wanted.until is None or time <= wanted.until
    )


def _rows(
    store: Store,
    queue: QueueInfo,
    begin: int,
    end: int,
    chunk: int,
    wanted: QueueRange,
    budget: WorkBudget,
) -> Iterator[Row]:
    """Yield what stands at queue offsets ``[begin, end)``; messages that were trimmed are not."""
    # A read in a gap of a compacted queue goes on behind it, maybe at the end or after it.
    count = 1 if wanted.is_compacted else chunk
    while begin < end and not budget.stopped.is_set():
        count = min(count, end - begin)
        found = store.read(queue.topic, queue.queue_id, begin, count, _READ_SIZE)
        rows: Iterable[Row] = [
            row_of(message, offset, is_compacted=wanted.is_compacted)
            for message, offset in zip(found.messages, found.queue_offsets, strict=True)
        ]
        if found.holes:
            lost = [lost_row(queue.topic, queue.queue_id, each) for each in found.holes]
            rows = sorted([*rows, *lost], key=_queue_offset)
        yield from (row for row in rows if _queue_offset(row) < end)
        following = found.next_queue_offset
        begin = following if following > begin else begin + count
        count = min(2 * count, _CHUNK_MAX)


def _end_before_gap(store: Store, queue: QueueInfo, first: int, end: int) -> int:
    """Return the queue offset after the newest message in ``[first, end)``; ``first`` if none.

    Reads one message for each step: a compacted queue may have long gaps.
    """

    def has_any(begin: int) -> bool:
        found = store.read(queue.topic, queue.queue_id, begin, 1, 1)
        offsets = [*found.queue_offsets, *(each.queue_offset for each in found.holes)]
        return min(offsets, default=end) < end

    reach = _CHUNK_MAX
    begin = max(first, end - reach)
    while not has_any(begin):
        if begin == first:
            return first
        end, reach = begin, 2 * reach
        begin = max(first, end - reach)
    while end - begin > 1:
        middle = (begin + end) // 2
        if has_any(middle):
            begin = middle
        else:
            end = middle
    return end


def _queue_offset(row: Row) -> int:
    return row.queue_offset or 0


def _first_from(store: Store, queue: QueueInfo, physical_offset: int) -> int:
    """Return the first queue offset whose message is at ``physical_offset`` or later."""
    low, high = queue.min_queue_offset, queue.max_queue_offset
    while low < high:
        middle = (low + high) // 2
        found = store.read(queue.topic, queue.queue_id, middle, 1, 1)
        places = [each.physical_offset for each in found.messages]
        places += [each.physical_offset for each in found.holes]
        if not places or min(places) >= physical_offset:
            high = middle
        else:
            low = middle + 1
    return low
