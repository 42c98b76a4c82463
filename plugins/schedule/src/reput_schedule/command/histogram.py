"""The due times of waiting messages as bars: a few stretches of time with a count for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from reput import Store
    from reput_schedule.api.scheduledmessages import PendingLevel, Scheduled

_SECOND: Final = 1_000
_EDGES_MS: Final = (
    0,
    _SECOND,
    10 * _SECOND,
    60 * _SECOND,
    600 * _SECOND,
    3_600 * _SECOND,
    6 * 3_600 * _SECOND,
    86_400 * _SECOND,
    7 * 86_400 * _SECOND,
    30 * 86_400 * _SECOND,
)
"""Edges of the bars, ms from now; the first bar is the overdue messages, the last has no end."""


class Bar(NamedTuple):
    """Messages that are due in ``[start, end)``, ms; None for a bar without that edge."""

    start: int | None
    end: int | None
    message_count: int


def histogram(store: Store, waiting: Scheduled, now: int) -> list[Bar]:
    """Return the bars from the first to the last that has messages.

    The counts of a level come from a search by store time in its queue, which reads a few messages
    only, however many wait.
    """
    edges = [now + edge for edge in _EDGES_MS]
    below = np.searchsorted(waiting.times, edges)
    counted = np.concatenate([[0], np.cumsum(waiting.counts)])[below]
    for level in waiting.levels:
        counted = counted + [_due_before(store, level, edge) for edge in edges]
    totals = np.diff(counted, prepend=0, append=waiting.message_count).tolist()
    bars = [
        Bar(start, end, total)
        for start, end, total in zip([None, *edges], [*edges, None], totals, strict=True)
    ]
    return _without_empty_ends(bars)


def _due_before(store: Store, level: PendingLevel, timestamp: int) -> int:
    """Return how many messages of a level are due before ``timestamp``."""
    queue_id, first = level.level - 1, level.next_queue_offset
    place = store.offset_by_time(SCHEDULE_TOPIC, queue_id, timestamp - level.delay_ms)
    return min(max(place - first, 0), level.message_count)


def _without_empty_ends(bars: Sequence[Bar]) -> list[Bar]:
    filled = [place for place, bar in enumerate(bars) if bar.message_count]
    return list(bars[filled[0] : filled[-1] + 1]) if filled else []
