"""`DayTotals`: how many messages there were when this day began, and when the last one did.

Source: RocketMQ ``BrokerStats``, which samples at midnight, local time.
"""

from __future__ import annotations

import datetime as dt

import attrs


@attrs.define(eq=False, repr=False)
class DayTotals:
    """A total by days of the local time. Not thread-safe."""

    total: int = attrs.field(init=False, default=0)
    """Since the broker has started."""
    today_morning: int = attrs.field(init=False, default=0)
    """The total when this day began; 0 on the first."""
    yesterday_morning: int = attrs.field(init=False, default=0)
    _ends_at: int | None = attrs.field(init=False, default=None)
    """When the day ends that was counted in last, ms."""

    def add(self, count: int, now: int) -> None:
        """Count what happened at ``now``, ms."""
        self.turn(now)
        self.total += count

    def turn(self, now: int) -> None:
        """Begin another day if that of the last call is over."""
        if self._ends_at is None:
            self._ends_at = _end_of_day(now)
        elif now >= self._ends_at:
            end = _end_of_day(now)
            # Nothing was counted since the day's end, so its total is that of today's morning; a
            # day in between, on which nobody came, began with the same.
            is_next = now < _end_of_day(self._ends_at)
            self.yesterday_morning = self.today_morning if is_next else self.total
            self.today_morning, self._ends_at = self.total, end


def _end_of_day(now: int) -> int:
    day = dt.datetime.fromtimestamp(now / 1000, dt.UTC).astimezone().date() + dt.timedelta(days=1)
    # Without a zone it is local time, whose midnights are not all 24 hours apart.
    return int(dt.datetime.combine(day, dt.time()).timestamp() * 1000)
