"""`QueueGrowth`: topics whose messages are in queues that their settings do not have.

Clients read the queues of a topic's route, which are those of its settings. A message in a queue
beyond them would never be read: one that a program puts there, one of a client that knows more
queues, a failed message of a group whose retry topic is older than its setting. So the topic grows.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from reput.record import DispatchBatch
    from reput_consumer.metadata.topicsettings import Topics

_FEW: Final = 32  # messages of a batch for which it is not worth to call numpy


@attrs.define(eq=False, repr=False)
class QueueGrowth:
    """Topics of the file that are to grow. Thread-safe."""

    topics: Topics
    _wanted: dict[str, int] = attrs.field(init=False, factory=dict)
    """Numbers of queues by topic."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def notice(self, batch: DispatchBatch) -> bool:
        """Take notice of messages that have arrived; return whether there is something to grow."""
        if not self.topics.entries:
            return False
        wanted = {}
        for topic, queue_id in _highest(batch):
            settings = self.topics.get(topic)
            # A queue that is only written is one that an operator has closed to readers.
            if settings is not None and queue_id >= max(
                settings.read_queue_nums, settings.write_queue_nums
            ):
                wanted[topic] = queue_id + 1
        if not wanted:
            return False
        with self._lock:
            for topic, count in wanted.items():
                self._wanted[topic] = max(count, self._wanted.get(topic, 0))
        return True

    def grow(self) -> None:
        """Have the topics grow, durably; on a thread that may wait.

        Raises:
            OSError: the file cannot be written; the next call tries it again.
        """
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        if not wanted:
            return
        try:
            self.topics.grow(wanted)
        except BaseException:
            with self._lock:
                for topic, count in wanted.items():
                    self._wanted[topic] = max(count, self._wanted.get(topic, 0))
            raise


def _highest(batch: DispatchBatch) -> list[tuple[str, int]]:
    """Return the topics of a batch, each with its highest queue id."""
    if len(batch) <= _FEW:
        found: dict[int, int] = {}
        for code, queue_id in zip(batch.topic_code.tolist(), batch.queue_id.tolist(), strict=True):
            if queue_id > found.get(code, -1):
                found[code] = queue_id
        return [(batch.topics[code], queue_id) for code, queue_id in found.items()]
    highest = np.full(len(batch.topics), -1, np.int64)
    np.maximum.at(highest, batch.topic_code, batch.queue_id)
    return list(zip(batch.topics, highest.tolist(), strict=True))
