"""Counts of messages: by queue, by topic and hour, by size of body; from columns, batch by batch.

Each process counts its part of the log in a `Counts`; `Counts.take` brings parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import queue_keys, queue_of_key
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_tools.doctor.groupedaggregates import GroupedAggregates
from reput_tools.doctor.statistics.halfmessages import HALF_TOPIC, OP_TOPIC, HalfMessages
from reput_tools.doctor.statistics.reachedoffsets import ReachedOffset, ReachedOffsetFinder
from reput_tools.offline.fillers import filler_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

HOUR_MS: Final = 3_600_000
TOPICS_MAX: Final = 50_000
"""Topics of which each is counted by itself; the rest is one, `OTHER_TOPICS`."""
OTHER_TOPICS: Final = "(further topics)"
NO_OFFSET: Final = 1 << 62
"""Minimum of the queue offsets of a queue none of whose records has one."""
DELAY_BUCKETS: Final = 66
"""Buckets of the time from born to stored: below 0, 0 ms, then powers of two."""

_HOUR_BITS: Final = 43  # of all that 64 bits of ms can say
_HOUR_BIAS: Final = 1 << (_HOUR_BITS - 1)
_QUEUE_FOLDS: Final = (np.add,) * 4 + (np.minimum, np.maximum, np.minimum, np.maximum)
_STEPS: Final = 8  # buckets of sizes between two powers of two
_HALF, _OP, _OTHER = range(3)  # numbers of topics that every reading has


@attrs.frozen
class TimeRange:
    """Store times, ms, of the messages that are counted; both ends included."""

    since: int | None = None
    until: int | None = None

    def rows(self, store_timestamp: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Return which rows, ``(n,)``, are in the range; None where all are."""
        if self.since is None and self.until is None:
            return None
        kept = np.ones(len(store_timestamp), np.bool_)
        if self.since is not None:
            kept &= store_timestamp >= self.since
        if self.until is not None:
            kept &= store_timestamp <= self.until
        return None if kept.all() else kept


@attrs.define(eq=False)
class Counts:
    """What one reading of a part of the log has counted."""

    times: TimeRange
    marks: Sequence[ReachedOffset]
    topics: list[str] = attrs.field(factory=list)
    """Names by number."""
    queues: GroupedAggregates = attrs.field(
        factory=lambda: GroupedAggregates(_QUEUE_FOLDS, (_OTHER << 32) | 0xFFFFFFFF)
    )
    """By `queue_key`: messages, bytes, bytes of bodies, messages that were sent again; least and
    highest queue offset of messages in queues; first and last store time."""
    hours: GroupedAggregates = attrs.field(
        factory=lambda: GroupedAggregates((np.add,) * 2, _OTHER << _HOUR_BITS)
    )
    """By topic and hour (`hour_of`): messages, bytes."""
    sizes: GroupedAggregates = attrs.field(
        factory=lambda: GroupedAggregates((np.add, np.maximum), _OTHER << 16)
    )
    """By topic and bucket (`size_bucket`) of the body's size: messages, the largest size."""
    delays: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(DELAY_BUCKETS, np.int64))
    """Messages by the time from born to stored."""
    extents: GroupedAggregates = attrs.field(
        factory=lambda: GroupedAggregates((np.add, np.maximum), (_OTHER << 32) | 0xFFFFFFFF)
    )
    """By `queue_key`, whatever the range: messages in the queue; its highest queue offset."""
    halves: HalfMessages = attrs.field(factory=HalfMessages)
    has_others: bool = False
    """Whether there are more topics than `TOPICS_MAX`."""
    finder: ReachedOffsetFinder = attrs.field(init=False)
    _numbers: dict[str, int] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in (HALF_TOPIC, OP_TOPIC, OTHER_TOPICS):
            self._number(name)
        self.finder = ReachedOffsetFinder(self.marks)
        keys = [self.queue_key(self._number(mark.topic), mark.queue_id) for mark in self.marks]
        self.finder.begin(np.array(keys, np.int64))

    @staticmethod
    def queue_key(topic: int, queue_id: int) -> int:
        """Return the key of a queue in `queues`."""
        return (topic << 32) | (queue_id & 0xFFFFFFFF)

    # ------------------------------------------------------------------ counting

    def add(self, batch: DispatchBatch) -> None:
        """Count the messages of a batch."""
        if len(batch) == 0:
            return
        codes = np.unique(batch.topic_code)  # a decoder knows all topics that it has ever met
        numbers = np.zeros(len(batch.topics), np.int64)
        numbers[codes] = [self._number(batch.topics[code]) for code in codes.tolist()]
        topic = numbers[batch.topic_code]
        key = queue_keys(topic, batch.queue_id)
        transaction = batch.sys_flag & TRANSACTION_MASK
        is_queued = (transaction == 0) | (transaction == TRANSACTION_COMMIT)
        self._add_extents(batch, key, is_queued)
        seen = set(numbers[codes].tolist())
        self.halves.add(
            batch,
            topic == _HALF if _HALF in seen else None,
            topic == _OP if _OP in seen else None,
        )
        kept = self.times.rows(batch.store_timestamp)
        if (fillers := filler_rows(batch)) is not None:
            kept = ~fillers if kept is None else kept & ~fillers
        if kept is None:
            self._count(batch, topic, key, is_queued, slice(None))
        elif kept.any():
            self._count(batch, topic, key, is_queued, np.flatnonzero(kept))

    def _count(
        self,
        batch: DispatchBatch,
        topic: npt.NDArray[np.int64],
        key: npt.NDArray[np.int64],
        is_queued: npt.NDArray[np.bool_],
        rows: slice | npt.NDArray[np.int64],
    ) -> None:
        topic, stored = topic[rows], batch.store_timestamp[rows]
        ones, size = np.ones(len(topic), np.int64), batch.size[rows].astype(np.int64)
        body = np.maximum(batch.body.sizes[rows], 0).astype(np.int64)
        again = (batch.column("reconsume_times")[rows] > 0).astype(np.int64)
        offset, queued = batch.queue_offset[rows], is_queued[rows]
        lowest, highest = np.where(queued, offset, NO_OFFSET), np.where(queued, offset, -1)
        columns = (ones, size, body, again, lowest, highest, stored, stored)
        self.queues.add(key[rows], columns)
        hour = (topic << _HOUR_BITS) | (stored // HOUR_MS + _HOUR_BIAS)
        self.hours.add(hour, (ones, size))
        self.sizes.add((topic << 16) | size_bucket(body), (ones, body))
        delay = stored - batch.born_timestamp[rows]
        _, bits = np.frexp(np.maximum(delay, 0).astype(np.float64))
        buckets = np.where(delay < 0, 0, bits + 1)
        self.delays += np.bincount(buckets, minlength=DELAY_BUCKETS)

    def _add_extents(
        self,
        batch: DispatchBatch,
        key: npt.NDArray[np.int64],
        is_queued: npt.NDArray[np.bool_],
    ) -> None:
        """Note how far queues reach, and look for marks; both whatever the range is."""
        rows = slice(None) if is_queued.all() else np.flatnonzero(is_queued)
        key, offset = key[rows], batch.queue_offset[rows]
        if len(key) == 0:
            return
        self.extents.add(key, (np.ones(len(key), np.int64), offset))
        if not self.marks:
            return
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], key[order][1:] != key[order][:-1]]))
        highest = np.maximum.reduceat(offset[order], starts)
        physical, stored = batch.physical_offset[rows], batch.store_timestamp[rows]
        ends = [*starts[1:].tolist(), len(order)]
        for place in self.finder.hits(key[order][starts], highest).tolist():
            own = order[starts[place] : ends[place]]
            self.finder.look(int(key[own[0]]), offset[own], physical[own], stored[own])

    # ------------------------------------------------------------------ bringing parts together

    def take(self, other: Counts) -> None:
        """Add what another reading has counted in another part of the log."""
        numbers = np.array([self._number(name) for name in other.topics], np.int64)
        for own, its, shift in (
            (self.queues, other.queues, 32),
            (self.extents, other.extents, 32),
            (self.hours, other.hours, _HOUR_BITS),
            (self.sizes, other.sizes, 16),
        ):
            keys, columns = its.table()
            rest = keys & ((1 << shift) - 1)
            own.add((numbers[keys >> shift] << shift) | rest, columns)
            own.was_folded |= its.was_folded
        self.delays += other.delays
        self.has_others |= other.has_others
        self.halves.take(other.halves)
        self.finder.take(other.finder.found)

    def _number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            if len(self.topics) >= TOPICS_MAX:
                self.has_others = True
                return _OTHER
            found = self._numbers[name] = len(self.topics)
            self.topics.append(name)
        return found

    # ------------------------------------------------------------------ keys

    def queue_of(self, key: int) -> tuple[str, int]:
        """Return topic and queue id of a key of `queues`."""
        topic, queue_id = queue_of_key(key)
        return self.topics[topic], queue_id

    def hour_of(self, key: int) -> tuple[str, int]:
        """Return topic and hour, as ms since the epoch, of a key of `hours`."""
        hour = (key & ((1 << _HOUR_BITS) - 1)) - _HOUR_BIAS
        return self.topics[key >> _HOUR_BITS], hour * HOUR_MS

    def size_of(self, key: int) -> tuple[str, int]:
        """Return topic and bucket of a key of `sizes`."""
        return self.topics[key >> 16], key & 0xFFFF


def size_bucket(size: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the bucket of each size: exact to 8 bytes, then 8 between two powers of two."""
    _, bits = np.frexp(size.astype(np.float64))
    shift: npt.NDArray[np.int64] = np.maximum(bits.astype(np.int64) - 4, 0)
    return shift * _STEPS + (size >> shift)


def size_bucket_start(bucket: int) -> int:
    """Return the least size of a bucket."""
    shift = max(bucket // _STEPS - 1, 0)
    return (bucket - shift * _STEPS) << shift
