"""Topics and queues, what kind each topic is, and messages over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.record.layout import DEAD_LETTER_PREFIX, LIGHT_QUEUE_PREFIX, RETRY_PREFIX
from reput_web.errors import NotThereError
from reput_web.readmodel.compacted import kept_counts

if TYPE_CHECKING:
    from reput import QueueInfo, Store
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

_HALF: Final = frozenset(
    f"RMQ_SYS_{kind}_HALF_TOPIC"
    for kind in ("TRANS", "TRANS_OP", "ROCKSDB_TRANS", "ROCKSDB_TRANS_OP")
)
_DELAY: Final = frozenset({"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"})
_COLUMNS: Final = 60
_COLUMNS_MIN: Final = 16
_SEARCHES: Final = 160
"""About how often a chart asks which message was the first after a time; one takes 1 ms."""
_SERIES: Final = 5
_STEPS_MS: Final = tuple(
    n * unit
    for unit, counts in (
        (1, (1, 5, 10, 50, 100, 500)),
        (1_000, (1, 5, 10, 30)),
        (60_000, (1, 5, 10, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 7, 28, 91, 364)),
    )
    for n in counts
)


@attrs.frozen(kw_only=True)
class TopicRow:
    """One topic with the sums of its queues."""

    topic: str
    kind: str
    """``normal``, ``compacted``, ``retry``, ``dead letter``, ``delay``, ``transaction``,
    ``light queue`` or ``system``."""
    queue_count: int
    message_count: int
    last_timestamp: int | None
    """Store time of the newest message, ms."""


def kind_of(topic: str) -> str:
    """Return what a topic's name says about it."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead letter"
    if topic.startswith(LIGHT_QUEUE_PREFIX):
        return "light queue"
    if topic in _HALF:
        return "transaction"
    if topic in _DELAY:
        return "delay"
    is_system = topic.lower().startswith(("rmq_sys_", "sys_", "%sys%"))
    return "system" if is_system else "normal"


def topic_rows(queues: Sequence[QueueInfo], kept: Mapping[str, int]) -> list[TopicRow]:
    """Return all topics, by name.

    Args:
        queues: of all topics.
        kept: compacted topics, and how many messages their files hold.
    """
    from reput_tools.cli.messages import topics_of

    return [
        TopicRow(
            topic=each.topic,
            kind="compacted" if each.topic in kept else kind_of(each.topic),
            queue_count=len(each.queues),
            message_count=kept.get(each.topic, each.message_count),
            last_timestamp=each.last_update_timestamp,
        )
        for each in topics_of(queues)
    ]


def topic_row(opened: OpenedStore, topic: str) -> tuple[TopicRow, list[QueueInfo]]:
    """Return a topic and its queues.

    Raises:
        NotThereError: it has no queue.
    """
    queues = opened.topic_queues(topic)
    if not queues:
        raise NotThereError(f"The store has no queue of topic {topic!r}.")
    return topic_rows(queues, kept_counts(opened))[0], queues


# --------------------------------------------------------------------------- over time


@attrs.frozen(kw_only=True)
class Activity:
    """Messages in columns of equal length; counted by queue offsets, so that no message is read."""

    start: int
    """When the first column begins, ms."""
    step: int
    """ms from one column to the next."""
    counts: tuple[int, ...]
    series: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and counts of the largest parts."""
    is_partial: bool
    """Whether the request ended before all queues were counted."""


def activity_of(
    opened: OpenedStore,
    queues: Sequence[QueueInfo],
    budget: WorkBudget,
    *,
    by_queue: bool = False,
    since: int | None = None,
    until: int | None = None,
) -> Activity | None:
    """Return messages over time; None where nothing can be drawn.

    Args:
        opened: the store.
        queues: the queues that are counted.
        budget: ends the counting.
        by_queue: whether parts are queues, not topics.
        since: begin there, ms; at the oldest message by default.
        until: end there, ms; at the newest message by default.
    """
    chosen = [each for each in queues if each.message_count and each.last_update_timestamp]
    if not chosen:
        return None
    store = opened.store
    chosen.sort(key=lambda each: -each.message_count)
    last = until or max(each.last_update_timestamp or 0 for each in chosen)
    first = since if since is not None else _oldest(opened, chosen, budget)
    if first is None or first > last:
        return None
    span = last - first
    most = min(max(_SEARCHES // len(chosen), _COLUMNS_MIN), _COLUMNS)
    step = next((each for each in _STEPS_MS if span // each < most), _STEPS_MS[-1])
    start = first // step * step
    count = min((last - start) // step + 1, 4 * _COLUMNS)
    parts: dict[str, list[int]] = {}
    is_partial = False
    for queue in chosen:
        if budget.is_spent:
            is_partial = True
            break
        name = str(queue.queue_id) if by_queue else queue.topic
        totals = parts.setdefault(name, [0] * count)
        for column, found in enumerate(_counts(store, queue, start, step, count, budget)):
            totals[column] += found
        is_partial = is_partial or budget.is_spent
    names = sorted(parts, key=lambda name: (-sum(parts[name]), name))[:_SERIES]
    return Activity(
        start=start,
        step=step,
        counts=tuple(map(sum, zip(*parts.values(), strict=True))) or (0,) * count,
        series=tuple((name, tuple(parts[name])) for name in names),
        is_partial=is_partial,
    )


def _counts(
    store: Store, queue: QueueInfo, start: int, step: int, count: int, budget: WorkBudget
) -> list[int]:
    """Return the messages of a queue in each column; one search for each edge that needs one.

    When the budget is spent, messages of several columns are counted in the first of them.
    """
    edges: dict[int, int] = {}

    def edge(column: int) -> int:
        if column not in edges:
            time = start + column * step
            edges[column] = store.offset_by_time(queue.topic, queue.queue_id, time)
        return edges[column]

    totals = [0] * count
    waiting = [(0, count)]
    while waiting:
        low, high = waiting.pop()
        found = max(edge(high) - edge(low), 0)
        if found and high - low > 1 and not budget.is_spent:
            middle = (low + high) // 2
            waiting += [(low, middle), (middle, high)]
        elif found:
            totals[low] = found
    return totals


def _oldest(opened: OpenedStore, queues: Sequence[QueueInfo], budget: WorkBudget) -> int | None:
    times = []
    for queue in queues:
        found = opened.store.read(queue.topic, queue.queue_id, queue.min_queue_offset, 1, 1)
        times += [each.store_timestamp for each in found.messages]
        if budget.is_spent:
            break
    return min(times, default=None)
