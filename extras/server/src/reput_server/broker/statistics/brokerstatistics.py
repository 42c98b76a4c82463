"""`BrokerStatistics`: what a broker counts, by RocketMQ's names and keys.

Messages are counted when they have come to their queues, from any source: a producer, a delay
that is over, a transaction that was committed, or the program that serves the store. So they are
counted by batches, and a moment after their sends were answered.

Source: RocketMQ ``BrokerStatsManager``, ``DefaultPullMessageResultHandler``.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_server.broker.statistics.daytotals import DayTotals
from reput_server.broker.statistics.latencies import Latencies, PutTimes
from reput_server.broker.statistics.ratemeter import RateMeter
from reput_server.broker.statistics.slidingwindows import SLICE_MS, SlidingWindows, WindowSum
from reput_tools.offline import is_system_topic

if TYPE_CHECKING:
    from reput.record import DispatchBatch

KEYS_MAX: Final = 10_000
"""Keys of one name; of more, those are dropped that were not counted for the longest time."""

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
GROUP_GET_LATENCY: Final = "GROUP_GET_LATENCY"
GROUP_GET_FALL_SIZE: Final = "GROUP_GET_FALL_SIZE"
GROUP_GET_FALL_TIME: Final = "GROUP_GET_FALL_TIME"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
BROKER_PUT_NUMS_OF_USERS: Final = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
BROKER_GET_NUMS_OF_USERS: Final = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"

_PULLS_KEPT: Final = 1_000
_FEW: Final = 8  # messages of a batch for which it is not worth to call numpy
_NOTHING: Final = (WindowSum(0, 0.0, 0.0),) * 3


@attrs.define(eq=False, repr=False)
class _Pulls:
    """What pulls of one group from one queue were answered with, within one slice of time."""

    since: int
    """When the first was answered, ms of the clock that never goes back."""
    times: int = 0
    count: int = 0
    size: int = 0
    ms: int = 0
    behind: int = 0
    age: int = 0
    """How long ago the last message was stored, ms."""


@attrs.define(eq=False, repr=False)
class BrokerStatistics:
    """All counts of a broker. Thread-safe; no call waits for anything but another one."""

    cluster: str
    """The key of what is counted of the whole broker."""
    counted_to: int = 0
    """Physical offset up to which messages were counted; at first, where the log ended."""
    clock: Callable[[], int] = attrs.field(default=lambda: time.time_ns() // 1_000_000)
    """The time of the day, ms."""
    ticks: Callable[[], int] = attrs.field(default=lambda: time.monotonic_ns() // 1_000_000)
    """Ms of a clock that never goes back."""
    keys_max: int = KEYS_MAX
    sends: PutTimes = attrs.field(init=False, factory=PutTimes)
    """Used on the event loop."""
    reads: Latencies = attrs.field(init=False, factory=Latencies)
    """Of reads for pulls."""
    puts_today: DayTotals = attrs.field(init=False, factory=DayTotals)
    """Messages of users' topics that were put."""
    gets_today: DayTotals = attrs.field(init=False, factory=DayTotals)
    """Messages of users' topics that were handed out."""
    put_rate: RateMeter = attrs.field(init=False, factory=RateMeter)
    get_rate: RateMeter = attrs.field(init=False, factory=RateMeter)
    """Of messages."""
    found_rate: RateMeter = attrs.field(init=False, factory=RateMeter)
    """Of pulls that were answered with messages."""
    missed_rate: RateMeter = attrs.field(init=False, factory=RateMeter)
    """Of pulls that were not."""
    pull_rate: RateMeter = attrs.field(init=False, factory=RateMeter)
    """Of both."""
    put_bytes: int = attrs.field(init=False, default=0)
    get_bytes: int = attrs.field(init=False, default=0)
    _counts: dict[str, OrderedDict[str, SlidingWindows]] = attrs.field(init=False, factory=dict)
    _moments: dict[str, OrderedDict[str, int]] = attrs.field(init=False, factory=dict)
    _pulls: dict[tuple[str, str, int], _Pulls] = attrs.field(init=False, factory=dict)
    """By group, topic and queue id: what is not in the tables yet. The last counted is the last."""
    _pulls_since: int = attrs.field(init=False, default=0)
    """A moment of the slice of time in which all of these were answered."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    # ------------------------------------------------------------------ counting

    def arrived(self, batch: DispatchBatch) -> None:
        """Count the messages of a batch, by topic; on the thread that dispatches."""
        # A batch comes again after a plugin has failed on it.
        by_topic = _by_topic(batch.after(self.counted_to))
        now, tick = self.clock(), self.ticks()
        count = sum(each for each, _ in by_topic.values())
        users = sum(each for topic, (each, _) in by_topic.items() if not is_system_topic(topic))
        with self._lock:
            for topic, (messages, size) in by_topic.items():
                self._add(TOPIC_PUT_NUMS, topic, messages, tick)
                self._add(TOPIC_PUT_SIZE, topic, size, tick)
                self.put_bytes += size
            self._add(BROKER_PUT_NUMS, self.cluster, count, tick)
            self._add(BROKER_PUT_NUMS_OF_USERS, self.cluster, users, tick)
            self.put_rate.add(count, tick)
            self.puts_today.add(users, now)
            self.counted_to = max(self.counted_to, batch.end_offset)

    def pulled(
        self,
        group: str,
        topic: str,
        queue_id: int,
        *,
        count: int,
        size: int,
        seconds: float,
        behind: int,
        stored: int | None,
    ) -> None:
        """Count what a pull was answered with.

        Args:
            group: the consumers' group.
            topic: of the queue.
            queue_id: likewise.
            count: messages.
            size: bytes of their records.
            seconds: how long the read took.
            behind: bytes of the log after the last of the messages.
            stored: when the last of them was stored, ms; None without messages.
        """
        now, tick = self.clock(), self.ticks()
        self.reads.add(seconds)
        with self._lock:
            self.pull_rate.add(1, tick)
            if stored is None:
                self.missed_rate.add(1, tick)
                return
            self.found_rate.add(1, tick)
            self.get_rate.add(count, tick)
            self.get_bytes += size
            if not is_system_topic(topic):
                self.gets_today.add(count, now)
            key = group, topic, queue_id
            if self._pulls_since // SLICE_MS != tick // SLICE_MS or len(self._pulls) > _PULLS_KEPT:
                self._settle()
                self._pulls_since = tick
            found = self._pulls.pop(key, None) or _Pulls(tick)
            self._pulls[key] = found  # behind all others
            found.times += 1
            found.count += count
            found.size += size
            found.ms += int(seconds * 1000)
            found.behind, found.age = max(behind, 0), max(now - stored, 0)

    def _settle(self) -> None:
        """Take what pulls were answered with into the tables."""
        pulls, self._pulls = self._pulls, {}
        for (group, topic, queue_id), each in pulls.items():
            key = f"{topic}@{group}"
            queue = f"{queue_id}@{key}"
            users = 0 if is_system_topic(topic) else each.count
            for name, of, value in (
                (GROUP_GET_NUMS, key, each.count),
                (GROUP_GET_SIZE, key, each.size),
                (GROUP_GET_LATENCY, queue, each.ms),
                (BROKER_GET_NUMS, self.cluster, each.count),
                (BROKER_GET_NUMS_OF_USERS, self.cluster, users),
            ):
                self._add(name, of, value, each.since, each.times)
            self._note(GROUP_GET_FALL_SIZE, queue, each.behind)
            self._note(GROUP_GET_FALL_TIME, queue, each.age)

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a consumer has given back."""
        with self._lock:
            self._add(SNDBCK_PUT_NUMS, f"{topic}@{group}", 1, self.ticks())

    def _add(self, name: str, key: str, value: int, tick: int, times: int = 1) -> None:
        table = self._counts.setdefault(name, OrderedDict())
        found = table.get(key)
        if found is None:
            found = table[key] = SlidingWindows(tick)
            if len(table) > self.keys_max:
                table.popitem(last=False)
        else:
            table.move_to_end(key)
        found.add(value, times, tick)

    def _note(self, name: str, key: str, value: int) -> None:
        table = self._moments.setdefault(name, OrderedDict())
        table[key] = value
        table.move_to_end(key)
        if len(table) > self.keys_max:
            table.popitem(last=False)

    # ------------------------------------------------------------------ reading

    def data(self, name: str, key: str) -> tuple[WindowSum, WindowSum, WindowSum] | None:
        """Return minute, hour and day of what has this name and key; None if nothing has.

        A value that is measured and not counted is the sum of each.
        """
        with self._lock:
            self._settle()
            counts = self._counts.get(name)
            found = None if counts is None else counts.get(key)
            if found is not None:
                return found.data(self.ticks())
            moments = self._moments.get(name)
            moment = None if moments is None else moments.get(key)
        return None if moment is None else (WindowSum(moment, 0.0, 0.0),) * 3

    def put_rate_of(self, topic: str) -> float:
        """Return how many messages a second a topic got in the last minute."""
        return self._minute(TOPIC_PUT_NUMS, topic).rate

    def get_rate_of(self, group: str, topics: Iterable[str]) -> float:
        """Return how many messages a second of some topics a group got in the last minute."""
        return sum(self._minute(GROUP_GET_NUMS, f"{topic}@{group}").rate for topic in topics)

    def minute_rate_of_puts(self) -> float:
        """Return how many messages a second came in the last minute."""
        return self._minute(BROKER_PUT_NUMS, self.cluster).rate

    def minute_rate_of_gets(self) -> float:
        """Return how many messages a second were handed out in the last minute."""
        return self._minute(BROKER_GET_NUMS, self.cluster).rate

    def _minute(self, name: str, key: str) -> WindowSum:
        return (self.data(name, key) or _NOTHING)[0]

    def put_totals(self) -> tuple[int, int, int]:
        """Return messages put, their bytes, and sends that could not be stored."""
        return self.put_rate.total, self.put_bytes, self.sends.failed_count

    def totals(self, name: str) -> dict[str, int]:
        """Return all that was ever counted under a name, by key."""
        with self._lock:
            self._settle()
            counts = self._counts.get(name)
            return {} if counts is None else {key: each.total for key, each in counts.items()}


def _by_topic(batch: DispatchBatch) -> dict[str, tuple[int, int]]:
    """Return messages and bytes by topic."""
    found: dict[int, tuple[int, int]] = {}
    if len(batch) <= _FEW:
        for code, size in zip(batch.topic_code.tolist(), batch.size.tolist(), strict=True):
            before = found.get(code, (0, 0))
            found[code] = before[0] + 1, before[1] + size
    else:
        counts = np.bincount(batch.topic_code)
        sizes = np.bincount(batch.topic_code, weights=batch.size)  # exact: far below 2 ** 53
        for code in np.flatnonzero(counts).tolist():
            found[code] = int(counts[code]), int(sizes[code])
    return {batch.topics[code]: each for code, each in found.items()}
