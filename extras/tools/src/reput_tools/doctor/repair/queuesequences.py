"""Follows the queue offsets of a log, to find records whose header states a wrong place.

RocketMQ's checksum covers the body alone. A record with a damaged queue id, queue offset, topic or
transaction flag is missing in its own queue, and appears in another, or at another place. Both show
in the order of queue offsets, as each queue's records ascend by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import inner_counts
from reput.record.layout import TRANSACTION_COMMIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_tools.doctor.repair.pluginhints import Queue

GAPS_MAX: Final = 10_000
_MISFITS_MAX: Final = 10_000
_NO_END: Final = (1 << 63) - 1


@attrs.frozen
class Misfit:
    """A record whose queue offset fits neither the one before nor the one after it, which fit."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    expected: int | None
    """The queue offset that is missing between its neighbours; None if none is."""


@attrs.define(eq=False)
class QueueSequences:
    """What the queue offsets of a log say, collected batch by batch in the log's order."""

    misfits: dict[int, Misfit] = attrs.field(factory=dict)
    """By physical offset."""
    next_offsets: dict[Queue, int] = attrs.field(factory=dict)
    """Queue offset after the last record of each queue."""
    firsts: dict[int, Queue] = attrs.field(factory=dict)
    """The first record of each queue, by physical offset: nothing before it says that it fits."""
    _gaps: dict[Queue, list[tuple[int, int]]] = attrs.field(factory=dict)
    _gap_count: int = 0
    _codes: dict[str, int] = attrs.field(factory=dict)
    _topics: list[str] = attrs.field(factory=list)
    _last: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((0, 5), np.int64))
    """The last two records of each queue: key, queue offset and the one after, place, size."""

    def add(self, batch: DispatchBatch) -> None:
        """Take the next records of the log."""
        counted = (batch.transaction == 0) | (batch.transaction == TRANSACTION_COMMIT)
        rows = np.flatnonzero(counted & (batch.queue_id >= 0))
        if len(rows) == 0:
            return
        codes = np.array([self._code(topic) for topic in batch.topics], np.int64)
        key = codes[batch.topic_code[rows]] << 31 | batch.queue_id[rows]
        offset = batch.queue_offset[rows].astype(np.int64)
        following = offset + inner_counts(batch)[rows]
        columns = (key, offset, following, batch.physical_offset[rows], batch.size[rows])
        fresh = np.stack(columns, axis=1).astype(np.int64, copy=False)
        table = np.concatenate([self._last, fresh])
        table = table[np.argsort(table[:, 0], kind="stable")]
        self._look(table)
        # The last two of each queue are looked at again, beside the records that follow.
        follows = np.zeros(len(table), bool)
        follows[:-2] = table[:-2, 0] == table[2:, 0]
        self._last = table[~follows]

    def _code(self, topic: str) -> int:
        code = self._codes.get(topic)
        if code is None:
            code = self._codes[topic] = len(self._topics)
            self._topics.append(topic)
        return code

    def _queue(self, key: int) -> Queue:
        return self._topics[key >> 31], key & 0x7FFFFFFF

    def _look(self, table: npt.NDArray[np.int64]) -> None:
        key, offset, following = table[:, 0], table[:, 1], table[:, 2]
        same = key[1:] == key[:-1]
        step = offset[1:] - following[:-1] + 1
        middle = same[1:] & same[:-1]
        around = offset[2:] - offset[:-2]
        alone = np.zeros(len(table), bool)
        alone[1:-1] = middle & (step[:-1] != 1) & (step[1:] != 1)
        alone[1:-1] &= (around == 1) | (around == 2)
        for row in np.flatnonzero(alone).tolist():
            self._note_misfit(table[row], int(offset[row - 1]), int(around[row - 1]))
        firsts = np.flatnonzero(np.r_[True, ~same])
        for row in firsts.tolist():
            queue = self._queue(int(key[row]))
            if queue not in self._gaps:
                self._gaps[queue] = []
                self.firsts[int(table[row, 3])] = queue
                self._note_gap(queue, 0, int(offset[row]))
        # A step to the last record of a queue waits for the record after it, which says whether
        # that one is a misfit.
        wide = same & (step > 1) & ~alone[:-1] & ~alone[1:] & np.r_[same[1:], False]
        for row in np.flatnonzero(wide).tolist():
            self._note_gap(self._queue(int(key[row])), int(following[row]), int(offset[row + 1]))
        for row in np.flatnonzero(np.r_[~same, True]).tolist():
            self.next_offsets[self._queue(int(key[row]))] = int(following[row])

    def _note_misfit(self, record: npt.NDArray[np.int64], before: int, around: int) -> None:
        key, offset, _, physical, size = record.tolist()
        if len(self.misfits) < _MISFITS_MAX:
            topic, queue_id = self._queue(key)
            expected = before + 1 if around == 2 else None
            self.misfits[physical] = Misfit(physical, size, topic, queue_id, offset, expected)
            if expected is not None:
                self._note_gap((topic, queue_id), expected, expected + 1)

    def _note_gap(self, queue: Queue, start: int, end: int) -> None:
        known = self._gaps[queue]
        if start < end and self._gap_count < GAPS_MAX and (start, end) not in known[-4:]:
            known.append((start, end))
            self._gap_count += 1

    def lasts(self) -> dict[int, tuple[Queue, int]]:
        """Return the last record of each queue: the queue, and the end of the queue without it."""
        if len(self._last) == 0:
            return {}
        key, following, physical = self._last[:, 0], self._last[:, 2], self._last[:, 3]
        found = {}
        for row in np.flatnonzero(np.r_[key[1:] != key[:-1], True]).tolist():
            has_before = row > 0 and key[row - 1] == key[row]
            before = int(following[row - 1]) if has_before else 0
            found[int(physical[row])] = self._queue(int(key[row])), before
        return found

    def forget(self, lost: Iterable[int]) -> None:
        """Let queues end before their last record where that record is one of ``lost``."""
        lasts = self.lasts()
        for offset in lost:
            if offset in lasts:
                queue, end = lasts[offset]
                if end:
                    self.next_offsets[queue] = end
                else:
                    del self.next_offsets[queue]

    @property
    def gaps(self) -> dict[Queue, npt.NDArray[np.int64]]:
        """Offsets that no record has, as `reput_tools.doctor.repair.pluginhints.Wanted.gaps`."""
        key, offset, following = self._last[:, 0], self._last[:, 1], self._last[:, 2]
        steps = (key[1:] == key[:-1]) & (offset[1:] > following[:-1])
        for row in np.flatnonzero(steps).tolist():
            self._note_gap(self._queue(int(key[row])), int(following[row]), int(offset[row + 1]))
        return {queue: self._merged(queue) for queue in self._gaps}

    def _merged(self, queue: Queue) -> npt.NDArray[np.int64]:
        known = [*self._gaps[queue], (self.next_offsets.get(queue, 0), _NO_END)]
        merged: list[list[int]] = []
        for start, end in sorted(known):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        return np.array(merged, np.int64)
