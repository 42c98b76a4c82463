"""Messages as rows of numbers: which queue, which queue offset, where in the log, how large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import queue_keys, queue_of_key
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_tools.doctor.groupedaggregates import GroupedAggregates
from reput_tools.offline.fillers import filler_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

CODE, OFFSET, PLACE, SIZE = range(4)
"""Columns of rows: queue (`QueueCodes`), queue offset, physical offset, bytes of the record."""
NO_ROWS: Final = np.zeros((0, 4), np.int64)


@attrs.define(eq=False)
class QueueCodes:
    """Numbers of queues, shared by both stores."""

    has_hidden: bool = False
    """Whether there are messages that are in no queue."""

    queues: list[tuple[str, int, bool]] = attrs.field(factory=list)
    """By number: topic, queue id, whether messages with this number are in the queue."""
    _numbers: dict[tuple[str, int, bool], int] = attrs.field(factory=dict)

    def number(self, topic: str, queue_id: int, in_queue: bool) -> int:
        """Return the number of a queue."""
        key = topic, queue_id, in_queue
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.queues)
            self.queues.append(key)
            self.has_hidden |= not in_queue
        return found


@attrs.define(eq=False)
class RowMaker:
    """Makes rows of the batches of one store, and keeps the ranges of its queues."""

    codes: QueueCodes
    ranges: GroupedAggregates = attrs.field(
        factory=lambda: GroupedAggregates((np.add, np.minimum, np.maximum), -1, rows_max=1 << 22)
    )
    """By number of the queue: messages, least and highest queue offset."""
    count: int = 0
    _ordinals: dict[int, int] = attrs.field(factory=dict)

    def rows(self, batch: DispatchBatch) -> npt.NDArray[np.int64]:
        """Return ``(n, 4)`` rows of the messages, in the order of the log.

        Records that fill losses have no row.

        The transaction bits of a prepared or a rolled back message keep it out of its queue, and
        its queue offset says nothing; such messages get ordinals among their like instead.
        """
        rows = np.empty((len(batch), 4), np.int64)
        transaction = batch.sys_flag & TRANSACTION_MASK
        in_queue = (transaction == 0) | (transaction == TRANSACTION_COMMIT)
        key = (queue_keys(batch.topic_code, batch.queue_id) << 1) | in_queue
        distinct, inverse = np.unique(key, return_inverse=True)
        kinds = [(*queue_of_key(each >> 1), bool(each & 1)) for each in distinct.tolist()]
        numbers = [
            self.codes.number(batch.topics[topic], queue_id, is_queued)
            for topic, queue_id, is_queued in kinds
        ]
        rows[:, CODE] = np.array(numbers, np.int64)[inverse]
        rows[:, OFFSET] = batch.queue_offset
        rows[:, PLACE] = batch.physical_offset
        rows[:, SIZE] = batch.size
        if not in_queue.all():
            if (fillers := filler_rows(batch)) is not None:
                rows, in_queue = rows[~fillers], in_queue[~fillers]
            self._number_hidden(rows, np.flatnonzero(~in_queue))
        self._add(rows)
        return rows

    def repeat(self, rows: npt.NDArray[np.int64]) -> None:
        """Count rows that another store's batch has given, as both have the same bytes there."""
        self._add(rows)
        if not self.codes.has_hidden:
            return
        codes, counts = np.unique(rows[:, CODE], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            if not self.codes.queues[code][2]:
                self._ordinals[code] = self._ordinals.get(code, 0) + count

    def _add(self, rows: npt.NDArray[np.int64]) -> None:
        self.count += len(rows)
        ones = np.ones(len(rows), np.int64)
        self.ranges.add(rows[:, CODE], (ones, rows[:, OFFSET], rows[:, OFFSET]))

    def _number_hidden(self, rows: npt.NDArray[np.int64], hidden: npt.NDArray[np.int64]) -> None:
        for code in np.unique(rows[hidden, CODE]).tolist():
            own = hidden[rows[hidden, CODE] == code]
            first = self._ordinals.get(code, 0)
            rows[own, OFFSET] = np.arange(first, first + len(own))
            self._ordinals[code] = first + len(own)


def matched(
    a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return places in ``a`` and in ``b`` of rows of the same queue and queue offset.

    Where a store has a queue offset twice, which only damage brings about, the first of one store
    matches the first of the other, and so on.
    """
    count = min(len(a), len(b))
    if count and (a[:count, :2] == b[:count, :2]).all() and len(a) == len(b):
        same = np.arange(count)
        return same, same
    if not count:
        none = np.zeros(0, np.int64)
        return none, none
    both = np.concatenate([a[:, :2], b[:, :2]])
    rank = np.concatenate([_ranks(a), _ranks(b)])
    side = np.concatenate([np.zeros(len(a), np.int64), np.ones(len(b), np.int64)])
    order = np.lexsort((side, rank, both[:, OFFSET], both[:, CODE]))
    first, second = order[:-1], order[1:]
    is_pair = (both[first] == both[second]).all(axis=1)
    is_pair &= (rank[first] == rank[second]) & (side[first] != side[second])
    own, its = first[is_pair], second[is_pair] - len(a)
    by_place = np.argsort(own)
    return own[by_place], its[by_place]


def _ranks(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``(n,)``: how many rows before have the same queue and queue offset."""
    order = np.lexsort((rows[:, OFFSET], rows[:, CODE]))
    ordered = rows[order, :2]
    is_first = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    starts = np.flatnonzero(is_first)
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows)) - starts[np.cumsum(is_first) - 1]
    return ranks
