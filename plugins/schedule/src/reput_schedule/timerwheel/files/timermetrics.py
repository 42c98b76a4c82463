"""`TimerMetrics`: count the messages that wait, by real topic; ``config/timermetrics``.

Records of the timer log name a topic by its hash, and so do the counts: two topics of one hash
share a count. RocketMQ and reput show these numbers, and decide nothing by them.

Source: RocketMQ ``TimerMetrics``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.record import java_string_hash
from reput_schedule.timerwheel.layout import PROPERTY_REAL_TOPIC, is_cancellation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from reput.log import LogView

    Records = npt.NDArray[np.void]

_TOPICS_MAX = 1 << 16


@attrs.define(eq=False, repr=False)
class TimerMetrics:
    """Counts by topic. Not thread-safe."""

    topics: dict[int, str] = attrs.field(factory=dict)
    """Names by their Java hash."""
    counts: dict[int, int] = attrs.field(factory=dict)
    times: dict[int, int] = attrs.field(factory=dict)
    """When each count was last changed, ms."""
    is_changed: bool = False
    version: int = 0
    is_damaged: bool = False
    """Whether the counts are empty because the file they were read from is damaged."""

    def name(self, topics: Mapping[int, str]) -> None:
        """Remember the names of topics."""
        if len(self.topics) < _TOPICS_MAX:
            for each, topic in topics.items():
                self.topics.setdefault(each, topic)

    def add(self, records: Records, sign: int, now: int) -> None:
        """Count records that were added (1) or delivered (-1); cancellations count reversed."""
        hashes, which = np.unique(records["topic_hash"], return_inverse=True)
        deltas = np.where(is_cancellation(records), -sign, sign)
        sums = np.bincount(which.reshape(-1), deltas, len(hashes)).astype(np.int64)
        for each, delta in zip(hashes.tolist(), sums.tolist(), strict=True):
            if delta:
                self.counts[each] = self.counts.get(each, 0) + delta
                self.times[each] = now
                self.is_changed = True

    def clear(self) -> None:
        """Set all counts to zero, and keep the names."""
        self.counts, self.times, self.is_changed = {}, {}, True

    def rebuild(self, waiting: Iterable[Records], log: LogView, now: int) -> None:
        """Count the records of all messages that wait, and no others.

        Args:
            waiting: pieces of the timer log.
            log: the commit log, which has the names of topics.
            now: ms.
        """
        self.clear()
        for records in waiting:
            hashes, rows = np.unique(records["topic_hash"], return_index=True)
            for each, row in zip(hashes.tolist(), rows.tolist(), strict=True):
                if each not in self.topics:
                    place = int(records["physical_offset"][row]), int(records["message_size"][row])
                    view = log.read_message(*place)
                    topic = "" if view is None else view.properties.get(PROPERTY_REAL_TOPIC, "")
                    if topic:
                        self.name({each: topic})
            self.add(records, 1, now)

    def by_topic(self) -> dict[str, int]:
        """Return waiting messages by topic, sorted; by hash where the name is not known."""
        named = {
            self.topics.get(each, f"#{each}"): count for each, count in self.counts.items() if count
        }
        return dict(sorted(named.items()))

    def encode(self, now: int) -> bytes:
        """Return the bytes of the file."""
        self.version += 1
        counting = {
            self.topics[each]: {"count": count, "timeStamp": self.times.get(each, now)}
            for each, count in self.counts.items()
            if each in self.topics
        }
        version = {"counter": self.version, "stateVersion": 0, "timestamp": now}
        content = {"dataVersion": version, "timingCount": counting}
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> TimerMetrics:
        """Return the counts that the bytes of a file state; none if the file is damaged."""
        metrics = cls()
        try:
            content: Any = json.loads(data)
            for topic, entry in content["timingCount"].items():
                each = java_string_hash(topic)
                count, time = entry["count"], entry["timeStamp"]
                if isinstance(count, int) and isinstance(time, int):
                    metrics.topics[each] = topic
                    metrics.counts[each], metrics.times[each] = count, time
            counter = content["dataVersion"]["counter"]
            metrics.version = counter if isinstance(counter, int) else 0
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(is_damaged=True)
        return metrics
