"""Parked messages of the log's end, which the queues of the levels do not list yet.

A message waits from the moment at which it is in the log, and is in its queue when it was
dispatched; a kill may have come in between, and readers dispatch nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput_schedule.config import LEVEL_MAX
from reput_schedule.levels.column import parked_rows

if TYPE_CHECKING:
    from reput.log import LogView

__all__ = ["parked_behind"]

_LONGEST: Final = 256 << 20  # bytes of log that are read to answer a question


def parked_behind(log: LogView, physical_offset: int) -> dict[int, dict[int, int]]:
    """Look for parked messages from an offset on, unless that is very much.

    Returns:
        By level: store time, ms, by queue offset.
    """
    found: dict[int, dict[int, int]] = {}
    start, end = max(physical_offset, log.min_physical_offset), log.max_physical_offset
    if not start < end <= start + _LONGEST:
        return found
    for batch in log.scan(start, end):
        if len(batch) == 0:
            continue
        rows = parked_rows(batch)
        for queue_id, place, stored in zip(
            batch.queue_id[rows].tolist(),
            batch.queue_offset[rows].tolist(),
            batch.store_timestamp[rows].tolist(),
            strict=True,
        ):
            if 0 <= queue_id < LEVEL_MAX:
                found.setdefault(queue_id + 1, {})[place] = stored
    return found
