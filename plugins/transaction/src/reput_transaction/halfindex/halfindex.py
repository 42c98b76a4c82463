"""`HalfIndex`: which half messages are open, and which are ended without an op marker.

The index is a pure function of the log: events are taken in the order of the log, and only records
of transactions are events. Four kinds of events end a half message:

* an op marker that names its place in the half queue: the half is forgotten;
* a committed message that points back to it: the half is *ended*, and its marker is still to be
  written, as the writer may have died between the two;
* a copy of it with one check more: the half is *superseded*, and the copy stands for the
  transaction;
* a copy in the topic of those given up: the half is forgotten.

An event counts only for half messages before it, so that it makes no difference where the log is
cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record import PropertyColumns
from reput.record.layout import PROPERTY_TAGS, PROPERTY_UNIQ_KEY, TRANSACTION_COMMIT
from reput_transaction.errors import OpenTransactionsError
from reput_transaction.halfindex.halfrows import HalfRow, HalfRows
from reput_transaction.layout import (
    COMMITTED,
    ENDED,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TAGS,
    OP_TOPIC,
    OPEN,
    PROPERTY_CHECK_TIMES,
    PROPERTY_GROUP,
    PROPERTY_MEMBER_OF,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    ROLLED_BACK,
    SUPERSEDED,
)
from reput_transaction.messages.halfmessage import number_of
from reput_transaction.messages.opmessages import parse_op_body
from reput_transaction.offsets.optail import OpTail

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

_CHECKS_MAX = (1 << 31) - 1
_SAME = (PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID, PROPERTY_UNIQ_KEY, PROPERTY_GROUP)


@attrs.define(eq=False, repr=False)
class HalfIndex:
    """Half messages that are not finished. Not thread-safe."""

    read: Callable[[int], MessageView | None]
    """Reads a record of the log by its physical offset."""
    max_open: int = 1_000_000
    rows: HalfRows = attrs.field(factory=HalfRows)
    ops: OpTail = attrs.field(factory=OpTail)
    next_half_offset: int = 0
    """Queue offset after the newest half message seen."""

    # ------------------------------------------------------------------ batches

    def take(self, batch: DispatchBatch) -> None:
        """Take all events of a batch."""
        transaction = batch.transaction
        wanted = transaction == TRANSACTION_COMMIT
        codes = [-1, -1, -1]
        for place, topic in enumerate((HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC)):
            if topic in batch.topics:
                codes[place] = batch.topics.index(topic)
                # Prepared and rolled back records are in no queue; only queue 0 is used.
                is_listed = (batch.topic_code == codes[place]) & (transaction == 0)
                wanted = wanted | (is_listed & (batch.queue_id == 0))
        numbers = np.flatnonzero(wanted)
        if len(numbers):
            self._take_rows(batch, numbers, codes)

    def _take_rows(
        self, batch: DispatchBatch, numbers: npt.NDArray[np.int64], codes: list[int]
    ) -> None:
        # One after the other, as the effect of an event depends on earlier events; the columns are
        # read for all at once. A transaction costs its producer twenty times as much.
        half, op, given_up = codes
        text = batch.properties_text
        properties = PropertyColumns(batch.window, text.starts[numbers], text.sizes[numbers])
        checks = properties.find(PROPERTY_CHECK_TIMES).tolist()
        groups = properties.find(PROPERTY_MEMBER_OF).tolist()
        for (
            number,
            code,
            queue_offset,
            offset,
            size,
            born,
            flag,
            prepared,
            key,
            times,
            group,
        ) in zip(
            numbers.tolist(),
            batch.topic_code[numbers].tolist(),
            batch.queue_offset[numbers].tolist(),
            batch.physical_offset[numbers].tolist(),
            batch.size[numbers].tolist(),
            batch.born_timestamp[numbers].tolist(),
            batch.transaction[numbers].tolist(),
            batch.column("prepared_transaction_offset")[numbers].tolist(),
            properties.find(PROPERTY_UNIQ_KEY).java_hash().tolist(),
            checks,
            groups,
            strict=True,
        ):
            if flag == TRANSACTION_COMMIT:
                self._commit(prepared, offset, offset + size)
            elif code == half:
                checked = number_of(times, _CHECKS_MAX) or 0
                self._add(HalfRow(queue_offset, offset, born, checked, key or born), group)
                if checked:
                    self._supersede(self.rows.by_place[offset], batch.message(number))
            elif code == op:
                message = batch.message(number)
                if message.properties.get(PROPERTY_TAGS) == OP_TAGS:
                    self._take_op(queue_offset, parse_op_body(message.body), offset + size)
            elif code == given_up:
                checked = number_of(times, _CHECKS_MAX) or 0
                self._give_up(key or born, checked, batch.message(number))

    # ------------------------------------------------------------------ events

    def _add(self, row: HalfRow, group: str | None) -> None:
        stale = self.rows.by_queue_offset.get(row.queue_offset)
        if stale is not None:
            # Two records for one place: an older log was put back, and this one is in the queue.
            self.rows.forget(stale)
        if len(self.rows) >= self.max_open:
            raise OpenTransactionsError(len(self.rows), self.max_open, row.queue_offset)
        self.rows.add(row, group)
        self.next_half_offset = max(self.next_half_offset, row.queue_offset + 1)

    def _supersede(self, copy: HalfRow, message: MessageView) -> None:
        """Find the half message that ``copy`` was made of; each copy replaces one."""
        source = self._source(copy.key, (copy.check_times - 1,), message)
        if source is None:
            return
        source.newer, copy.older = copy, source
        if source.state == ENDED:
            # It was ended during the check; the copy must not be checked again.
            self.rows.set_state(copy, ENDED, source.ended_to)
        self.rows.set_state(source, SUPERSEDED)

    def _give_up(self, key: int, check_times: int, message: MessageView) -> None:
        source = self._source(key, (check_times, check_times - 1), message)
        if source is not None:
            self.rows.forget_chain(source)

    def _source(self, key: int, times: tuple[int, ...], message: MessageView) -> HalfRow | None:
        """Return the oldest message, checked ``times`` times, that ``message`` is a copy of."""
        known = self.rows.with_key(key)
        for wanted in times:
            for row in known:
                if (
                    row.check_times == wanted
                    and row.newer is None
                    and self._is_source(row, message)
                ):
                    return row
        return None

    def _is_source(self, row: HalfRow, copy: MessageView) -> bool:
        """Return whether both are the same message: equal hashes alone do not prove it."""
        if row.born_timestamp != copy.born_timestamp or row.physical_offset >= copy.physical_offset:
            return False
        source = self.read(row.physical_offset)
        if source is None:
            return False
        ours, theirs = source.properties, copy.properties
        is_same = all(ours.get(name) == theirs.get(name) for name in _SAME)
        return is_same and source.born_host == copy.born_host and source.body == copy.body

    def _commit(self, half_offset: int, physical_offset: int, end_offset: int) -> None:
        row = self.rows.by_place.get(half_offset)
        if row is None or half_offset >= physical_offset:
            return
        newest = row.newest
        if newest.state == OPEN:
            self.rows.set_state(newest, ENDED, end_offset)
        if row.group is not None:
            self.rows.decide(row.group, COMMITTED)

    def _take_op(self, op_offset: int, queue_offsets: list[int], end_offset: int) -> None:
        for queue_offset in queue_offsets:
            row = self.rows.by_queue_offset.get(queue_offset)
            if row is None:
                continue
            newest, group = row.newest, row.group
            if newest.state == OPEN and group is not None:
                self.rows.decide(group, ROLLED_BACK)
            if newest is row:
                self.rows.forget_chain(row)
            elif newest.state == OPEN:
                # The copy needs a marker of its own: a reader of the queues alone would check it.
                self.rows.set_state(newest, ENDED, end_offset)
        if queue_offsets:
            self.ops.add(op_offset, max(queue_offsets))

    # ------------------------------------------------------------------ apart from events

    def trim(self, min_physical_offset: int) -> None:
        """Forget messages that the log has lost."""
        for row in list(self.rows.by_place.values()):
            if row.physical_offset >= min_physical_offset:
                break
            self.rows.forget(row)

    @property
    def done_below(self) -> int:
        """Queue offset below which every half message is finished or superseded."""
        first = next(self.rows.unfinished(), None)
        return self.next_half_offset if first is None else first.queue_offset
