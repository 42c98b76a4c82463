"""`Latencies`: how long something took, by bounds; and how long the puts of the last minute took.

Source: RocketMQ ``StoreStatsService``, for the bounds of the runtime table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import attrs

BOUNDS: Final = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0),
)
"""Upper bounds, s."""
_LABELS: Final = (
    ("[<=0ms]", 0.001),
    ("[0~10ms]", 0.01),
    ("[10~50ms]", 0.05),
    ("[50~100ms]", 0.1),
    ("[100~200ms]", 0.2),
    ("[200~500ms]", 0.5),
    ("[500ms~1s]", 1.0),
    ("[1~2s]", 2.0),
    ("[2~3s]", 3.0),
    ("[3~4s]", 4.0),
    ("[4~5s]", 5.0),
    ("[5~10s]", 10.0),
    ("[10s~]", float("inf")),
)
"""The bounds of a broker's table, which counts whole ms."""
_SPAN: Final = 60.0


@attrs.define(eq=False, repr=False)
class Latencies:
    """A histogram of seconds. Used on one thread; one more may read."""

    counts: list[int] = attrs.field(init=False, factory=lambda: [0] * (len(BOUNDS) + 1))
    """By the bounds; the last is of what took longer than all of them."""
    total: float = attrs.field(init=False, default=0.0)
    """Seconds."""
    longest: float = attrs.field(init=False, default=0.0)

    def add(self, seconds: float) -> None:
        """Count one."""
        self.add_all((seconds,))

    def add_all(self, found: Sequence[float]) -> None:
        """Count each of some, at least one."""
        counts = self.counts
        for seconds in found:
            counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += sum(found)
        self.longest = max(self.longest, max(found))

    def add_same(self, seconds: float, count: int) -> None:
        """Count some that took the same time, at least one."""
        self.counts[bisect_left(BOUNDS, seconds)] += count
        self.total += seconds * count
        self.longest = max(self.longest, seconds)

    def quantile(self, part: float) -> float:
        """Return the bound, s, below which this part of what was counted is; 0 of nothing."""
        counts = list(self.counts)
        left = part * sum(counts)
        for bound, count in zip((*BOUNDS, self.longest), counts, strict=True):
            left -= count
            if count and left <= 0:
                return min(bound, self.longest)
        return 0.0


@attrs.define(eq=False, repr=False)
class PutTimes:
    """Times of sends: until they were answered, and of the puts that stored them.

    The times are of `time.monotonic`: the clock of an event loop may stand during a turn of it.
    """

    answers: Latencies = attrs.field(init=False, factory=Latencies)
    """From a send's arrival to its answer."""
    puts: Latencies = attrs.field(init=False, factory=Latencies)
    """Of puts, each of all sends that had arrived."""
    began: float | None = attrs.field(init=False, default=None)
    """When the put under way began, by the monotonic clock, s."""
    failed_count: int = attrs.field(init=False, default=0)
    """Sends that could not be stored."""
    _minute: Latencies = attrs.field(init=False, factory=Latencies)
    _last_minute: Latencies | None = attrs.field(init=False, default=None)
    _ends_at: float = attrs.field(init=False, default=0.0)

    def begin(self, now: float) -> None:
        """Note that a put begins."""
        self.began = now

    def end(self, now: float) -> None:
        """Note that the put has ended; ``now`` is of the monotonic clock, s."""
        if self.began is not None:
            self.puts.add(now - self.began)
            self.began = None

    def answered(self, arrived: Sequence[float], now: float, failed_count: int) -> None:
        """Note that sends were answered.

        Args:
            arrived: when each of them had come, by the monotonic clock, s; at least one.
            now: likewise.
            failed_count: how many of them could not be stored.
        """
        self.turn(now)
        self.failed_count += failed_count
        waited = [now - each for each in arrived]
        self.answers.add_all(waited)
        self._minute.add_all(waited)

    def put_here(self, count: int, began: float, now: float) -> None:
        """Note that so many sends, which came at ``began``, are stored and answered."""
        self.turn(now)
        seconds = now - began
        self.puts.add_same(seconds, 1)
        self.answers.add_same(seconds, count)
        self._minute.add_same(seconds, count)

    def answered_same(self, count: int, arrived: float, now: float, *, is_failed: bool) -> None:
        """Note that so many sends were answered that had come at the same time, at least one."""
        self.turn(now)
        self.failed_count += count if is_failed else 0
        self.answers.add_same(now - arrived, count)
        self._minute.add_same(now - arrived, count)

    def turn(self, now: float) -> None:
        """Begin another minute if the last one is over."""
        if now >= self._ends_at:
            is_next = now < self._ends_at + _SPAN
            self._last_minute = self._minute if is_next else Latencies()
            self._minute, self._ends_at = Latencies(), now + _SPAN

    def last_minute(self, now: float) -> Latencies:
        """Return the times of the minute that was over last; none were counted in the first."""
        self.turn(now)
        return self._last_minute or Latencies()

    def text(self, now: float) -> str:
        """Return the last minute's times as a broker prints them."""
        found = self.last_minute(now)
        by_bound = dict(zip((*BOUNDS, float("inf")), found.counts, strict=True))
        low = -1.0
        words = []
        for label, high in _LABELS:
            count = sum(each for bound, each in by_bound.items() if low < bound <= high)
            words.append(f"{label}:{count}")
            low = high
        return " ".join(words)
