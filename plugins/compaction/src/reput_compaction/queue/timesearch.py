"""Find a queue offset of a compacted queue by store time.

A compacted queue keeps messages that are older than the log, so the plugin that lists all messages
cannot answer for it. All times of the queue are looked at, so it does not matter whether they
ascend: a clock may have been set back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput_compaction.queue.queueread import beside_runs

if TYPE_CHECKING:
    from reput_compaction.queue.compactedqueue import CompactedQueue

_UNITS_MAX = 65_536  # units read at once


def offset_by_time(queue: CompactedQueue, timestamp: int, boundary: str) -> int:
    """Answer `reput.plugin.hookspecs.reput_offset_by_time` for one queue."""
    find = _first_from if boundary == "lower" else _last_until
    return beside_runs(queue, lambda: find(queue, timestamp))


def _first_from(queue: CompactedQueue, timestamp: int) -> int:
    for pair in queue.pairs:
        for first in range(0, pair.count, _UNITS_MAX):
            units = queue.files.read_units(pair, first, min(first + _UNITS_MAX, pair.count))
            rows = np.flatnonzero(units["store_timestamp"] >= timestamp)
            if len(rows):
                return int(units["queue_offset"][rows[0]])
    return queue.max_offset


def _last_until(queue: CompactedQueue, timestamp: int) -> int:
    for pair in reversed(queue.pairs):
        for stop in range(pair.count, 0, -_UNITS_MAX):
            units = queue.files.read_units(pair, max(stop - _UNITS_MAX, 0), stop)
            rows = np.flatnonzero(units["store_timestamp"] <= timestamp)
            if len(rows):
                return int(units["queue_offset"][rows[-1]])
    return queue.min_offset
