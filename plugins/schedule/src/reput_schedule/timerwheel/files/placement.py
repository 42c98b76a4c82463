"""Compute the places of parked messages on the wheel: pure functions of columns of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record import TextColumn
from reput.record.layout import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from reput_schedule.propertytext import java_long
from reput_schedule.timerwheel.layout import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    PROPERTY_DELETE_KEY,
    PROPERTY_OUT_MS,
    PROPERTY_REAL_TOPIC,
    TIMER_QUEUE_ID,
    TIMER_TOPIC,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]

_LATEST = 1 << 62  # ms; later times count as this one, so that no difference overflows
_SURE_DIGITS = 18  # this many digits always fit in 63 bits


def place(
    out: Integers, stored: Integers, precision: int, window: int
) -> tuple[Integers, Integers, Booleans]:
    """Return enqueue times, slot times and rolls of messages from their times.

    The enqueue time is the store time rounded down, not the current time: so the timer log is a
    function of the commit log alone.

    Args:
        out: ``(n,)`` int64, ``TIMER_OUT_MS``.
        stored: ``(n,)`` int64, store times of the parked messages, ms.
        precision: ms of one slot.
        window: slots ahead above which a message rolls.

    Returns:
        ``(n,)`` int64 ms, ``(n,)`` int64 ms and ``(n,)`` bool. Slot time less enqueue time fits in
        32 bits: if overdue by more, the enqueue time is lowered, and the slot time never raised.

    Source: RocketMQ ``TimerMessageStore#doEnqueue``.
    """
    due = np.clip(out, precision, _LATEST) // precision * precision
    enqueued = np.clip(stored, 0, _LATEST) // precision * precision
    excess = due - enqueued - window * precision
    rolls = excess >= 0
    near = enqueued + np.where(
        excess < window // 3 * precision, window // 2 * precision, window * precision
    )
    slot_time = np.where(rolls, near, due)
    most = (1 << 31) // precision * precision
    return np.minimum(enqueued, slot_time + most), slot_time, rolls


def numbers_of(column: TextColumn) -> tuple[Integers, Booleans]:
    """Return ``(n,)`` int64 of decimal texts, and which rows are numbers to ``parseLong``."""
    starts, sizes = column.starts, column.sizes
    values = np.zeros(len(sizes), np.int64)
    if len(sizes) == 0:
        return values, np.zeros(0, np.bool_)
    window = column.window
    good = (sizes > 0) & (sizes <= _SURE_DIGITS)
    for index in range(int(sizes[good].max()) if good.any() else 0):
        rows = np.flatnonzero(good & (sizes > index))
        digits = window[starts[rows] + index].astype(np.int64) - ord("0")
        is_digit = (digits >= 0) & (digits <= 9)
        good[rows[~is_digit]] = False
        values[rows] = values[rows] * 10 + digits
    for row in np.flatnonzero(~good & (sizes > 0)).tolist():  # signs, more digits, or no number
        number = java_long(column[row] or "")
        if number is not None:
            values[row], good[row] = number, True
    values[~good] = 0
    return values, good


@attrs.frozen(eq=False)
class Parked:
    """Parked messages of a batch, one row each, in the order of the log."""

    physical_offset: Integers
    size: Integers
    stored: Integers
    """Store time, ms."""
    out: Integers
    """``TIMER_OUT_MS``."""
    topic_hash: npt.NDArray[np.int32]
    """Java hash of the real topic."""
    topics: dict[int, str]
    """Real topics by their hash."""
    is_delete: Booleans
    queue_offset: int
    """Queue offset of the last row."""
    refused: tuple[int, ...]
    """Physical offsets of messages of the topic whose properties name no time or no topic."""

    def __len__(self) -> int:
        return len(self.physical_offset)

    def magic(self, rolls: Booleans) -> Integers:
        """Return the ``(n,)`` magic bits of the records."""
        return MAGIC_DEFAULT | rolls * MAGIC_ROLL | self.is_delete * MAGIC_DELETE


def parked_rows(batch: DispatchBatch, start: int) -> Parked | None:
    """Return the messages of the timer's queue at physical offset ``start`` or above."""
    if TIMER_TOPIC not in batch.topics:
        return None
    wanted = batch.topic_code == batch.topics.index(TIMER_TOPIC)
    wanted &= (batch.queue_id == TIMER_QUEUE_ID) & (batch.physical_offset >= start)
    transaction = batch.transaction
    wanted &= (transaction != TRANSACTION_PREPARED) & (transaction != TRANSACTION_ROLLBACK)
    rows = np.flatnonzero(wanted)
    if len(rows) == 0:
        return None
    queue_offset = int(batch.queue_offset[rows[-1]])
    out, is_number = numbers_of(_some(batch.text(PROPERTY_OUT_MS), rows))
    good = is_number & batch.text(PROPERTY_REAL_TOPIC).present[rows]
    refused = tuple(batch.physical_offset[rows[~good]].tolist())
    rows, out = rows[good], out[good]
    real_topic = _some(batch.text(PROPERTY_REAL_TOPIC), rows)
    hashes = real_topic.java_hash()
    found, first = np.unique(hashes, return_index=True)
    names = (real_topic[row] or "" for row in first.tolist())
    return Parked(
        physical_offset=batch.physical_offset[rows],
        size=batch.size[rows],
        stored=batch.store_timestamp[rows],
        out=out,
        topic_hash=hashes,
        topics=dict(zip(found.tolist(), names, strict=True)),
        is_delete=batch.text(PROPERTY_DELETE_KEY).present[rows],
        queue_offset=queue_offset,
        refused=refused,
    )


def _some(column: TextColumn, rows: Integers) -> TextColumn:
    return TextColumn(column.window, column.starts[rows], column.sizes[rows])
