"""What waits: for consumers, for delay levels, on the timer wheel, in retry topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_tools.doctor.statistics.halfmessages import CHECKING_GROUP, HALF_TOPIC
from reput_tools.doctor.statistics.reachedoffsets import ReachedOffset
from reput_tools.doctor.storereport.reportmodel import (
    DelayLevel,
    DueCount,
    GroupLag,
    QueueLag,
    RetryCount,
    TimerWheel,
    TopicCount,
)
from reput_tools.doctor.storereport.smallfiles.timerwheel import TIMER_TOPIC, WheelContents
from reput_tools.doctor.storereport.topictypes import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    kind_of,
)

if TYPE_CHECKING:
    from reput_tools.offline import Committed

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_LEVELS: Final = 18  # as many as RocketMQ has, unless it is configured otherwise
Extents = Mapping[tuple[str, int], tuple[int, int]]
"""By topic and queue id: messages that the log holds, and the queue offset after the last one."""


@attrs.define(eq=False)
class Waiting:
    """How far readers of queues have come, and what follows from it once the log is read."""

    committed: list[Committed] | None
    delivered: dict[int, int] | None
    wheel: WheelContents | None

    def marks(self) -> list[ReachedOffset]:
        """Return the places of the log to look for: those of consumers, then of delay levels."""
        found = [
            ReachedOffset(each.topic, each.queue_id, each.queue_offset)
            for each in self.committed or ()
        ]
        for level, offset in self._places().items():
            found.append(ReachedOffset(SCHEDULE_TOPIC, level - 1, offset))
        return found

    def finished_below(self) -> dict[int, int]:
        """Return by queue of the half topic the offset below which transactions are finished."""
        return {
            each.queue_id: each.queue_offset
            for each in self.committed or ()
            if each.topic == HALF_TOPIC and each.group == CHECKING_GROUP
        }

    # ------------------------------------------------------------------ consumers

    def groups(
        self, extents: Extents, found: Mapping[int, tuple[int, int]]
    ) -> tuple[GroupLag, ...] | None:
        """Return how far each group is behind; those with most to read first.

        Args:
            extents: how far queues reach.
            found: by number of `marks`: physical offset and store time of the first message there.
        """
        if self.committed is None:
            return None
        queues: dict[tuple[str, str], list[QueueLag]] = {}
        for number, each in enumerate(self.committed):
            lag = _queue_lag(each.queue_id, each.queue_offset, each.topic, extents, found, number)
            queues.setdefault((each.group, each.topic), []).append(lag)
        known: dict[str, set[int]] = {}
        for topic, queue_id in extents:
            known.setdefault(topic, set()).add(queue_id)
        groups = [
            _group_lag(group, topic, lags, known.get(topic, set()))
            for (group, topic), lags in queues.items()
        ]
        return tuple(sorted(groups, key=lambda each: (-each.lag, each.group, each.topic)))

    # ------------------------------------------------------------------ delays

    def levels(
        self, extents: Extents, found: Mapping[int, tuple[int, int]]
    ) -> tuple[DelayLevel, ...]:
        """Return what waits in each delay level that has messages or an offset."""
        parked = {
            queue + 1: extent
            for (topic, queue), extent in extents.items()
            if topic == SCHEDULE_TOPIC
        }
        first = len(self.committed or ())
        numbers = {level: first + place for place, level in enumerate(self._places())}
        places = self._places()
        levels = []
        for level in sorted({*(self.delivered or {}), *parked}):
            count, end = parked.get(level, (0, 0))
            place = places.get(level)
            since = found.get(numbers.get(level, -1))
            levels.append(
                DelayLevel(
                    level=level,
                    delivered_to=place,
                    waiting=None if place is None else min(max(end - place, 0), count),
                    waiting_since_timestamp=None if since is None else since[1],
                    parked=count,
                )
            )
        return tuple(levels)

    def _places(self) -> dict[int, int]:
        """Return where delivery goes on; a level that the file does not name begins at 0."""
        if self.delivered is None:
            return {}
        return dict.fromkeys(range(1, _LEVELS + 1), 0) | self.delivered

    def timer(self, extents: Extents, now: int) -> TimerWheel | None:
        """Return what waits on the timer wheel; None without a wheel that can be read."""
        wheel = self.wheel
        if wheel is None:
            return None
        end = extents.get((TIMER_TOPIC, 0))
        return TimerWheel(
            waiting=wheel.waiting,
            overdue=wheel.overdue(now),
            first_due_timestamp=int(wheel.due[0]) if len(wheel.due) else None,
            last_due_timestamp=int(wheel.due[-1]) if len(wheel.due) else None,
            not_on_wheel=0 if end is None else max(end[1] - wheel.queue_offset, 0),
            by_hour=tuple(DueCount(*each) for each in wheel.by_hour()),
        )

    # ------------------------------------------------------------------ retries

    def retries(self, topics: Sequence[TopicCount], extents: Extents) -> tuple[RetryCount, ...]:
        """Return retries and dead letters by group; those with most dead letters first."""
        by_group: dict[str, dict[str, TopicCount]] = {}
        for each in topics:
            for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
                if each.topic.startswith(prefix):
                    by_group.setdefault(each.topic.removeprefix(prefix), {})[prefix] = each
        found = []
        for group, own in by_group.items():
            retry, dead = own.get(RETRY_PREFIX), own.get(DEAD_LETTER_PREFIX)
            found.append(
                RetryCount(
                    group=group,
                    retries=0 if retry is None else retry.message_count,
                    retries_waiting=self._retries_waiting(group, extents),
                    dead_letters=0 if dead is None else dead.message_count,
                    oldest_dead_letter_timestamp=None if dead is None else dead.first_timestamp,
                    newest_dead_letter_timestamp=None if dead is None else dead.last_timestamp,
                )
            )
        return tuple(
            sorted(found, key=lambda each: (-each.dead_letters, -each.retries, each.group))
        )

    def _retries_waiting(self, group: str, extents: Extents) -> int | None:
        topic = RETRY_PREFIX + group
        lags = [
            extents[topic, each.queue_id][1] - each.queue_offset
            for each in self.committed or ()
            if each.group == group and each.topic == topic and (topic, each.queue_id) in extents
        ]
        return sum(max(lag, 0) for lag in lags) if lags else None


def _queue_lag(
    queue_id: int,
    committed: int,
    topic: str,
    extents: Extents,
    found: Mapping[int, tuple[int, int]],
    number: int,
) -> QueueLag:
    extent = extents.get((topic, queue_id))
    end = None if extent is None else extent[1]
    since = found.get(number)
    return QueueLag(
        queue_id=queue_id,
        committed=committed,
        end=end,
        lag=None if end is None else max(end - committed, 0),
        waiting_since_timestamp=None if since is None else since[1],
    )


def _group_lag(group: str, topic: str, lags: list[QueueLag], known: set[int]) -> GroupLag:
    lags.sort(key=lambda each: each.queue_id)
    return GroupLag(
        group=group,
        topic=topic,
        kind=kind_of(topic),
        lag=sum(each.lag or 0 for each in lags),
        waiting_since_timestamp=min(_times(lags), default=None),
        ahead=sum(1 for each in lags if each.end is not None and each.committed > each.end),
        unknown=sum(1 for each in lags if each.end is None),
        uncommitted=len(known - {each.queue_id for each in lags}),
        queues=tuple(lags),
    )


def _times(lags: Iterable[QueueLag]) -> Iterator[int]:
    for each in lags:
        if each.waiting_since_timestamp is not None:
            yield each.waiting_since_timestamp
