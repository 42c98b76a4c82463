"""The deliver times of a batch: what units of the schedule topic have in the place of a tags code.

Source: RocketMQ ``CommitLog#checkMessageAndReturnSize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput_schedule.config import DelayLevels
from reput_schedule.levels.layout import PROPERTY_LEVEL, SCHEDULE_TOPIC, parse_level

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

__all__ = ["deliver_times", "parked_rows"]


def parked_rows(batch: DispatchBatch) -> npt.NDArray[np.int64]:
    """Rows of the schedule topic, ascending."""
    if SCHEDULE_TOPIC not in batch.topics:
        return np.zeros(0, np.int64)
    return np.flatnonzero(batch.topic_code == batch.topics.index(SCHEDULE_TOPIC))


def deliver_times(batch: DispatchBatch, levels: DelayLevels) -> npt.NDArray[np.int64] | None:
    """``(n,)`` int64 tags codes with deliver times in the rows that have one; None without such."""
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
    """``(m,)`` level that each row states; 0 where it states none."""
    column = batch.text(PROPERTY_LEVEL)
    sizes, starts = column.sizes[rows], column.starts[rows]
    stated = np.zeros(len(rows), np.int64)
    # One digit or two, as good as always; anything else one by one.
    last = batch.window[np.maximum(starts + sizes - 1, 0)].astype(np.int64) - ord("0")
    first = batch.window[starts].astype(np.int64) - ord("0")
    digits = (last >= 0) & (last <= 9) & (first >= 0) & (first <= 9)
    short = digits & (sizes >= 1) & (sizes <= 2)
    stated[short] = np.where(sizes[short] == 2, 10 * first[short] + last[short], last[short])
    for place in np.flatnonzero(~short & (sizes > 0)).tolist():
        stated[place] = parse_level(column[int(rows[place])] or "") or 0
    return stated
