"""Tables of a report from what was counted: topics, queues, hours, sizes, ages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from reput_tools.doctor.statistics.counts import (
    HOUR_MS,
    NO_OFFSET,
    Counts,
    size_bucket_start,
)
from reput_tools.doctor.storereport.reportmodel import (
    Bucket,
    HourCount,
    QueueCount,
    Sizes,
    TopicCount,
)
from reput_tools.doctor.storereport.topictypes import kind_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput import Store
    from reput.log import Damage
    from reput_tools.doctor.statistics.logcount import CountedLog
    from reput_tools.doctor.storereport.backlog import Extents, Waiting

_DAY_MS: Final = 24 * HOUR_MS
_AGES: Final = (HOUR_MS, 6 * HOUR_MS, _DAY_MS, 3 * _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS, 90 * _DAY_MS)


def tables_of(counts: Counts, now: int) -> dict[str, Any]:
    """Return members of `StoreReport` that are counted.

    Args:
        counts: of the whole log.
        now: ms since the epoch.
    """
    queues = list(_queues(counts))
    again = _sent_again(counts)
    by_topic, whole, largest = _sizes_by_topic(counts)
    topics = _topics(queues, again, by_topic, largest)
    hours = sorted(_hours(counts), key=lambda each: (each.timestamp, each.topic))
    body_size = sum(each.body_size for each in queues)
    return {
        "message_count": sum(each.message_count for each in queues),
        "size": sum(each.size for each in queues),
        "body_size": body_size,
        "first_timestamp": min((each.first_timestamp for each in queues), default=None),
        "last_timestamp": max((each.last_timestamp for each in queues), default=None),
        "topics": topics,
        "queues": tuple(sorted(queues, key=lambda each: (each.topic, each.queue_id))),
        "hours": tuple(hours),
        "sizes": _sizes(whole, body_size, max(largest.values(), default=0)),
        "body_sizes": tuple(_size_buckets(whole)),
        "ages": tuple(_ages(hours, now)),
        "delays": tuple(_delays(counts.delays)),
    }


def extents_of(counts: Counts) -> Extents:
    """Return how far each queue reaches, whatever the range of times was."""
    keys, (count, highest) = counts.extents.table()
    return {
        counts.queue_of(key): (messages, last + 1)
        for key, messages, last in zip(keys.tolist(), count.tolist(), highest.tolist(), strict=True)
    }


def notes_of(
    counted: CountedLog, waiting: Waiting, *, is_part: bool, in_rocksdb: bool
) -> Iterator[str]:
    """Yield what the report cannot know, and why."""
    counts = counted.counts
    if counted.removed_size:
        yield (
            f"{counted.removed_size:,} bytes are not counted: a process has removed the oldest "
            "files of the log meanwhile"
        )
    if in_rocksdb:
        yield (
            "the broker keeps offsets of consumers in RocksDB (config/consumerOffsets), which is "
            "not read; the report shows those of the JSON files, which may be older: mqadmin "
            "rocksDBConfigToJson rewrites these files"
        )
    elif waiting.committed is None:
        yield (
            "lag of consumers is not known: the store has no config/consumerOffset.json that can "
            "be read"
        )
    if waiting.delivered is None and any(
        topic == "SCHEDULE_TOPIC_XXXX" for topic, _ in extents_of(counts)
    ):
        yield (
            "how many delayed messages wait is not known: the store has no config/delayOffset.json"
        )
    if is_part:
        yield (
            "only the end of the log was read: transactions, lags and damage that began before it "
            "may be missing"
        )
    folded = (counts.queues, counts.hours, counts.sizes, counts.extents)
    if counts.has_others or any(each.was_folded for each in folded):
        yield "there are too many topics, queues or hours to list each; the smallest are one"


def damage_document(damage: Damage, store: Store) -> dict[str, Any]:
    """Return plain values of one damage of a store's log."""
    path, position = store.log.path_of(damage.start_offset)
    return {
        "file": os.path.relpath(path, store.root),
        "position": position,
        "physical_offset": damage.start_offset,
        "end_offset": damage.end_offset,
        "size": damage.size,
        "reason": damage.reason,
        "detail": damage.detail,
        "topic": damage.topic,
        "queue_id": damage.queue_id,
        "queue_offset": damage.queue_offset,
    }


# ---------------------------------------------------------------------- topics and queues


def _queues(counts: Counts) -> Iterator[QueueCount]:
    keys, columns = counts.queues.table()
    rows = zip(keys.tolist(), *(column.tolist() for column in columns), strict=True)
    for key, messages, size, body, _, lowest, highest, first, last in rows:
        topic, queue_id = counts.queue_of(key)
        yield QueueCount(
            topic=topic,
            queue_id=queue_id,
            message_count=messages,
            size=size,
            body_size=body,
            min_queue_offset=None if lowest == NO_OFFSET else lowest,
            max_queue_offset=None if lowest == NO_OFFSET else highest + 1,
            first_timestamp=first,
            last_timestamp=last,
        )


def _sent_again(counts: Counts) -> dict[str, int]:
    keys, columns = counts.queues.table()
    found: dict[str, int] = {}
    for key, again in zip(keys.tolist(), columns[3].tolist(), strict=True):
        topic, _ = counts.queue_of(key)
        found[topic] = found.get(topic, 0) + again
    return found


def _topics(
    queues: Iterable[QueueCount],
    again: dict[str, int],
    sizes: dict[str, dict[int, int]],
    largest: dict[str, int],
) -> tuple[TopicCount, ...]:
    by_topic: dict[str, list[QueueCount]] = {}
    for queue in queues:
        by_topic.setdefault(queue.topic, []).append(queue)
    topics = [
        TopicCount(
            topic=topic,
            kind=kind_of(topic),
            message_count=sum(each.message_count for each in own),
            size=sum(each.size for each in own),
            body_size=sum(each.body_size for each in own),
            queue_count=len(own),
            first_timestamp=min(each.first_timestamp for each in own),
            last_timestamp=max(each.last_timestamp for each in own),
            sent_again=again[topic],
            sizes=_sizes(
                sizes.get(topic, {}), sum(each.body_size for each in own), largest.get(topic, 0)
            ),
        )
        for topic, own in by_topic.items()
    ]
    return tuple(sorted(topics, key=lambda each: (-each.size, each.topic)))


def _hours(counts: Counts) -> Iterator[HourCount]:
    keys, (messages, size) = counts.hours.table()
    for key, count, total in zip(keys.tolist(), messages.tolist(), size.tolist(), strict=True):
        topic, timestamp = counts.hour_of(key)
        yield HourCount(timestamp, topic, count, total)


# ---------------------------------------------------------------------- distributions


def _sizes_by_topic(
    counts: Counts,
) -> tuple[dict[str, dict[int, int]], dict[int, int], dict[str, int]]:
    """Return messages by topic and bucket, and by bucket, and the largest body of each topic."""
    keys, (messages, size) = counts.sizes.table()
    by_topic: dict[str, dict[int, int]] = {}
    whole: dict[int, int] = {}
    largest: dict[str, int] = {}
    for key, count, most in zip(keys.tolist(), messages.tolist(), size.tolist(), strict=True):
        topic, bucket = counts.size_of(key)
        by_topic.setdefault(topic, {})[bucket] = count
        whole[bucket] = whole.get(bucket, 0) + count
        largest[topic] = max(most, largest.get(topic, 0))
    return by_topic, whole, largest


def _sizes(buckets: dict[int, int], body_size: int, largest: int) -> Sizes:
    count = sum(buckets.values())
    if not count:
        return Sizes(0, 0, 0, 0, 0)
    half, most, nearly_all = (_quantile(buckets, count, part) for part in (0.5, 0.9, 0.99))
    return Sizes(body_size // count, half, most, nearly_all, largest)


def _quantile(buckets: dict[int, int], count: int, part: float) -> int:
    left = max(int(count * part + 0.5), 1)
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left <= 0:
            return size_bucket_start(bucket)
    return size_bucket_start(max(buckets))


def _size_buckets(buckets: dict[int, int]) -> Iterator[Bucket]:
    """Yield bodies by powers of two."""
    counts: dict[int, int] = {}
    for bucket, count in buckets.items():
        bits = size_bucket_start(bucket).bit_length()
        counts[bits] = counts.get(bits, 0) + count
    for bits in range(min(counts, default=0), max(counts, default=-1) + 1):
        least = 0 if bits == 0 else 1 << (bits - 1)
        yield Bucket(least, 1 << bits, counts.get(bits, 0))


def _ages(hours: Sequence[HourCount], now: int) -> Iterator[Bucket]:
    counts = [0] * (len(_AGES) + 2)
    for hour in hours:
        age = now - hour.timestamp
        place = 0 if age < 0 else 1 + sum(1 for bound in _AGES if age >= bound)
        counts[place] += hour.message_count
    bounds: list[int | None] = [None, 0, *_AGES, None]
    used = [place for place, count in enumerate(counts) if count]
    for place in range(used[0], used[-1] + 1) if used else ():
        yield Bucket(bounds[place], bounds[place + 1], counts[place])


def _delays(counts: npt.NDArray[np.int64]) -> Iterator[Bucket]:
    used = counts.nonzero()[0].tolist()
    for place in range(used[0], used[-1] + 1) if used else ():
        if place == 0:
            yield Bucket(None, 0, int(counts[0]))
        else:
            least = 0 if place == 1 else 1 << (place - 2)
            yield Bucket(least, 1 << (place - 1), int(counts[place]))
