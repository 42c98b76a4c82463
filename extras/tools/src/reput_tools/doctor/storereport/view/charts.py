"""Series of messages over time, with few enough columns to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_tools.doctor.statistics.counts import HOUR_MS

if TYPE_CHECKING:
    from reput_tools.doctor.storereport.reportmodel import HourCount

_DAY: Final = 24
_UNITS: Final = (
    (1, "hour"),
    (6, "6 hours"),
    (_DAY, "day"),
    (7 * _DAY, "week"),
    (28 * _DAY, "4 weeks"),
    (52 * 7 * _DAY, "52 weeks"),
)
_REACH_HOURS: Final = 20 * 365 * _DAY
"""Hours to either side of the middle message that are drawn: a damaged time must not stretch the
axis over thousands of years."""
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


@attrs.frozen
class Series:
    """Messages in columns of equal length."""

    unit: str
    """How long a column is."""
    start: int
    """ms since the epoch at which the first column begins."""
    step: int
    """ms from one column to the next."""
    counts: tuple[int, ...]
    topics: tuple[str, ...]
    """Topics that are drawn apart, those with most messages first."""
    by_topic: tuple[tuple[int, ...], ...]
    """Counts of each of `topics`; in `counts` the rest is counted, too."""
    outside: int
    """Messages whose time is too far from the others'."""


def hour_series(hours: Iterable[HourCount], columns: int = 120, topics: int = 5) -> Series:
    """Return messages over time, in at most ``columns`` columns."""
    by_hour: dict[int, int] = {}
    by_topic: dict[str, int] = {}
    kept = list(hours)
    for each in kept:
        hour = each.timestamp // HOUR_MS
        by_hour[hour] = by_hour.get(hour, 0) + each.message_count
    middle = _middle(by_hour)
    near = [hour for hour in by_hour if abs(hour - middle) <= _REACH_HOURS]
    if not near:
        return Series("hour", 0, HOUR_MS, (), (), (), 0)
    first, last = min(near), max(near)
    span, unit = next(
        (each for each in _UNITS if (last // each[0]) - (first // each[0]) < columns), _UNITS[-1]
    )
    start = first // span
    count = last // span - start + 1
    for each in kept:
        by_topic[each.topic] = by_topic.get(each.topic, 0) + each.message_count
    names = sorted(by_topic, key=lambda name: (-by_topic[name], name))[:topics]
    rows = {name: [0] * count for name in names}
    whole = [0] * count
    outside = 0
    for each in kept:
        hour = each.timestamp // HOUR_MS
        if not first <= hour <= last:
            outside += each.message_count
            continue
        column = hour // span - start
        whole[column] += each.message_count
        if each.topic in rows:
            rows[each.topic][column] += each.message_count
    return Series(
        unit,
        start * span * HOUR_MS,
        span * HOUR_MS,
        tuple(whole),
        tuple(names),
        tuple(tuple(rows[name]) for name in names),
        outside,
    )


def sparkline(counts: Sequence[int], width: int = 60) -> str:
    """Return a line of blocks; several columns share one where there are too many."""
    share = -(-len(counts) // width)
    sums = [sum(counts[at : at + share]) for at in range(0, len(counts), share)]
    most = max(sums, default=0)
    if not most:
        return ""
    return "".join(
        _BLOCKS[min(count * len(_BLOCKS) // (most + 1), len(_BLOCKS) - 1)] if count else " "
        for count in sums
    )


def _middle(by_hour: dict[int, int]) -> int:
    """Return the hour of the middle message."""
    left = sum(by_hour.values()) // 2
    for hour in sorted(by_hour):
        left -= by_hour[hour]
        if left < 0:
            return hour
    return 0
