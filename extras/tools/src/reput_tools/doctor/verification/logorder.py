"""The order of a log as columns: queue offsets queue by queue, and store times.

A queue's messages stand in the log in the order of their queue offsets, without gaps; store times
do not go back. What one split shows is small, and joins with what the next one shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import inner_counts, queue_keys, queue_of_key
from reput.record.layout import INNER_BATCH, TRANSACTION_COMMIT
from reput_tools.offline.fillers import filler_count

if TYPE_CHECKING:
    from reput.record import DispatchBatch

_BREAKS_MAX: Final = 1_000
"""Breaks of each kind that one split keeps; those after them are counted."""
_BACK_MS: Final = 1_000
"""A clock that goes back by less is none that was set: machines correct theirs all the time."""


@attrs.define
class QueueRun:
    """Messages of one queue, in the order of the log."""

    first_offset: int
    """Queue offset of the first message."""
    first_place: int
    """Physical offset of its record."""
    last_offset: int
    last_place: int
    count: int = 0
    is_batched: bool = False
    """Whether a message stands for several queue offsets, so that gaps mean nothing."""
    max_offset: int = 0
    """Queue offset after the highest one."""


@attrs.frozen
class OrderBreak:
    """A message whose queue offset does not follow that of the message before it."""

    topic: str
    queue_id: int
    expected: int
    """Queue offset that follows."""
    found: int
    before: int
    """Physical offset of the message before it in the queue."""
    place: int
    """Physical offset of the message."""


@attrs.frozen
class TimeBreak:
    """A record whose store time is before that of the record before it."""

    place: int
    before: int
    """Physical offset of the record before it."""
    found: int
    """Store time, ms."""
    expected: int
    """Store time of the record before it, ms."""


@attrs.define
class LogOrder:
    """The order of one stretch of a log; for one process, and sent to another when complete."""

    queues: dict[tuple[str, int], QueueRun] = attrs.field(factory=dict)
    breaks: list[OrderBreak] = attrs.field(factory=list)
    times: list[TimeBreak] = attrs.field(factory=list)
    break_count: int = 0
    """Breaks of queue offsets in all, with those that are not kept."""
    time_count: int = 0
    message_count: int = 0
    filler_count: int = 0
    first_time: tuple[int, int] | None = None
    """Physical offset and store time of the first record."""
    last_time: tuple[int, int] | None = None

    def add(self, batch: DispatchBatch) -> None:
        """Add the next batch of the log."""
        if not len(batch):
            return
        self.message_count += len(batch)
        self.filler_count += filler_count(batch)
        self._add_times(batch)
        transaction = batch.transaction
        rows = np.flatnonzero((transaction == 0) | (transaction == TRANSACTION_COMMIT))
        if not len(rows):
            return
        group = queue_keys(batch.topic_code[rows], batch.queue_id[rows])
        order = np.argsort(group, kind="stable")
        group, places = group[order], batch.physical_offset[rows][order]
        offsets = batch.queue_offset[rows][order]
        same = group[1:] == group[:-1]
        starts = np.concatenate([[0], np.flatnonzero(~same) + 1])
        ends = np.concatenate([starts[1:], [len(group)]]) - 1
        batched: set[int] = set()
        flags = batch.sys_flag[rows]
        if (flags & INNER_BATCH).any():
            batched = set(group[(flags[order] & INNER_BATCH) != 0].tolist())
        following = offsets + inner_counts(batch)[rows][order]
        highest = np.maximum.reduceat(following, starts)
        for code, first, last, high in zip(
            group[starts].tolist(), starts.tolist(), ends.tolist(), highest.tolist(), strict=True
        ):
            topic, queue_id = queue_of_key(code)
            self._add_run(
                (batch.topics[topic], queue_id),
                QueueRun(
                    int(offsets[first]),
                    int(places[first]),
                    int(offsets[last]),
                    int(places[last]),
                    last - first + 1,
                    code in batched,
                    high,
                ),
            )
        for at in np.flatnonzero(same & (np.diff(offsets) != 1)).tolist():
            code = int(group[at])
            if code not in batched:
                topic, queue_id = queue_of_key(code)
                self._break(
                    (batch.topics[topic], queue_id),
                    int(offsets[at]) + 1,
                    int(offsets[at + 1]),
                    int(places[at]),
                    int(places[at + 1]),
                )

    def _add_run(self, key: tuple[str, int], run: QueueRun) -> None:
        known = self.queues.get(key)
        if known is None:
            self.queues[key] = run
            return
        batched = known.is_batched or run.is_batched
        if run.first_offset != known.last_offset + 1 and not batched:
            expected = known.last_offset + 1
            self._break(key, expected, run.first_offset, known.last_place, run.first_place)
        known.last_offset, known.last_place = run.last_offset, run.last_place
        known.count += run.count
        known.is_batched = batched
        known.max_offset = max(known.max_offset, run.max_offset)

    def _break(
        self, key: tuple[str, int], expected: int, found: int, before: int, place: int
    ) -> None:
        self.break_count += 1
        if len(self.breaks) < _BREAKS_MAX:
            self.breaks.append(OrderBreak(*key, expected, found, before, place))

    def _add_times(self, batch: DispatchBatch) -> None:
        times, places = batch.store_timestamp, batch.physical_offset
        first = int(places[0]), int(times[0])
        if self.first_time is None:
            self.first_time = first
        else:
            self._join_times(first)
        back = np.flatnonzero(np.diff(times) < -_BACK_MS)
        self.time_count += len(back)
        for row in back[: max(_BREAKS_MAX - len(self.times), 0)].tolist():
            self.times.append(
                TimeBreak(
                    int(places[row + 1]), int(places[row]), int(times[row + 1]), int(times[row])
                )
            )
        self.last_time = int(places[-1]), int(times[-1])

    def _join_times(self, first: tuple[int, int]) -> None:
        assert self.last_time is not None
        place, time = self.last_time
        if first[1] - time < -_BACK_MS:
            self.time_count += 1
            if len(self.times) < _BREAKS_MAX:
                self.times.append(TimeBreak(first[0], place, first[1], time))

    def join(self, after: LogOrder) -> None:
        """Add what the stretch after this one shows."""
        for key, run in after.queues.items():
            self._add_run(key, run)
        self.breaks += after.breaks[: max(_BREAKS_MAX - len(self.breaks), 0)]
        self.break_count += after.break_count
        if after.first_time is not None:
            if self.last_time is not None:
                self._join_times(after.first_time)
            self.last_time = after.last_time
            self.first_time = self.first_time or after.first_time
        self.times += after.times[: max(_BREAKS_MAX - len(self.times), 0)]
        self.time_count += after.time_count
        self.message_count += after.message_count
        self.filler_count += after.filler_count


def join(parts: list[LogOrder]) -> LogOrder:
    """Return the order of a whole log from its parts, in their order."""
    whole = LogOrder()
    for each in parts:
        whole.join(each)
    return whole
