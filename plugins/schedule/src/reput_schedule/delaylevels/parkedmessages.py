"""Park a message with a delay level in the schedule topic, and find parked messages in batches.

The units of the schedule topic have a deliver time in place of a tags code.

Source: RocketMQ 4.8 ``CommitLog#putMessage``, 5 does the same in a hook before it; and
``CommitLog#checkMessageAndReturnSize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import MessageIllegalError
from reput.record import Message, java_text
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_schedule.config import DelayLevels
from reput_schedule.delaylevels.layout import PROPERTY_LEVEL, SCHEDULE_TOPIC, parse_level
from reput_schedule.propertytext import entries_of, entry_value, text_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"
HALF_TOPICS: Final = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
"""Topics in which transactions wait; a message in them is neither delayed nor delivered."""
TIMER_REQUESTS: Final = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")

_LEVEL_ENTRY: Final = PROPERTY_LEVEL.encode() + b"\x01"


def may_be_delayed(message: Message) -> bool:
    """Return whether a delay that the message asks for is followed.

    False for half messages, whose transaction is still open, and for messages parked already.
    """
    if message.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
        return False
    return message.topic != SCHEDULE_TOPIC and message.topic not in HALF_TOPICS


def level_of(message: Message) -> int:
    """Return the delay level that the message asks for; 0 or less for none.

    Raises:
        MessageIllegalError: its ``DELAY`` is not a number.
    """
    given = message.properties
    if given is None:
        return 0
    if isinstance(given, bytes):
        if _LEVEL_ENTRY not in given:
            return 0
        value = entry_value(given, _LEVEL_ENTRY)
        text = None if value is None else java_text(value)
    else:
        text = given.get(PROPERTY_LEVEL)
    if not text:
        return 0
    level = parse_level(text)
    if level is None:
        raise MessageIllegalError(
            PROPERTY_LEVEL, text, None, "a delay level is an integer: 1, 2, 3, …"
        )
    return level


def park_at_level(message: Message, level: int, levels: DelayLevels) -> Message:
    """Return the message as it is stored until its delay is over; ``level`` is 1 or more."""
    entries = entries_of(message)
    for name in TIMER_REQUESTS:  # a level takes precedence over a time
        entries.pop(name, None)
    if level > levels.max_level:
        level = levels.max_level
        entries[PROPERTY_LEVEL] = str(level)
    entries[PROPERTY_REAL_TOPIC] = message.topic
    entries[PROPERTY_REAL_QUEUE_ID] = str(message.queue_id)
    return attrs.evolve(
        message,
        topic=SCHEDULE_TOPIC,
        queue_id=level - 1,
        keys=None,
        tags=None,
        properties=text_of(entries),
    )


def parked_rows(batch: DispatchBatch) -> npt.NDArray[np.int64]:
    """Return the rows of the schedule topic, ascending."""
    if SCHEDULE_TOPIC not in batch.topics:
        return np.zeros(0, np.int64)
    return np.flatnonzero(batch.topic_code == batch.topics.index(SCHEDULE_TOPIC))


def deliver_times(batch: DispatchBatch, levels: DelayLevels) -> npt.NDArray[np.int64] | None:
    """Return ``(n,)`` int64 tags codes: deliver times in parked rows; None without such rows."""
    rows = parked_rows(batch)
    if len(rows) == 0:
        return None
    stated = _stated_levels(batch, rows)
    level = np.minimum(stated, levels.max_level)
    delays = np.array((0, *levels.delays_ms), np.int64)
    due = batch.store_timestamp[rows] + delays[np.maximum(level, 0)]
    codes = batch.tags_code.astype(np.int64)
    delayed = stated > 0
    codes[rows[delayed]] = due[delayed]
    return codes


def _stated_levels(batch: DispatchBatch, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the ``(m,)`` levels that the rows state; 0 for a row that states none."""
    column = batch.text(PROPERTY_LEVEL)
    sizes, starts = column.sizes[rows], column.starts[rows]
    stated = np.zeros(len(rows), np.int64)
    # Nearly always one digit or two; any other text is parsed on its own.
    last = batch.window[np.maximum(starts + sizes - 1, 0)].astype(np.int64) - ord("0")
    first = batch.window[starts].astype(np.int64) - ord("0")
    digits = (last >= 0) & (last <= 9) & (first >= 0) & (first <= 9)
    short = digits & (sizes >= 1) & (sizes <= 2)
    stated[short] = np.where(sizes[short] == 2, 10 * first[short] + last[short], last[short])
    for place in np.flatnonzero(~short & (sizes > 0)).tolist():
        stated[place] = parse_level(column[int(rows[place])] or "") or 0
    return stated
