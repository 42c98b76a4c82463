"""`TopicQueues`: which queues the topics have that members read, and which have come since.

To list all queues of a store takes a read for each. So a topic's queues are listed once, when its
first member joins; later messages show new ones. One listing serves all topics until
more messages arrive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from reput_consumer.backend.pendingfetches import QueueKey
from reput_consumer.messagequeue import MessageQueue

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_consumer.backend.memberregistry import MemberRegistry


@attrs.define(eq=False, repr=False)
class TopicQueues:
    """Queue ids by topic. Thread-safe."""

    context: StoreContext
    registry: MemberRegistry
    hides: Callable[[str, int, int], bool] = lambda topic, queue_id, max_offset: False
    """Whether a queue that ends there is that of a deleted topic; see `DeletedTopics.hides`."""
    _known: dict[str, set[int]] = attrs.field(init=False, factory=dict)
    """Of topics that members read."""
    _listed: set[str] = attrs.field(init=False, factory=set)
    """Those of `_known` that are complete."""
    _grown: set[str] = attrs.field(init=False, factory=set)
    """Topics with new queues that members do not know yet."""
    _arrived_count: int = attrs.field(init=False, default=0)
    """How often messages have arrived, or a topic was deleted."""
    _listing: tuple[int, Mapping[str, set[int]]] = attrs.field(init=False, default=(-1, {}))
    """All queues of the store, by topic, and `_arrived_count` before they were listed."""
    _sorted: dict[str, tuple[int, tuple[MessageQueue, ...]]] = attrs.field(init=False, factory=dict)
    """Queues of topics of `_listed` while they are the same, and ``least_count``: each member of a
    group asks for them at every change of its members. Changed under the lock."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def of_broker(self, topic: str, broker: str, least_count: int) -> tuple[MessageQueue, ...]:
        """Return the queues that a topic has, sorted; the same object while they are the same.

        Args:
            topic: the topic's name.
            broker: name of this broker.
            least_count: queues from 0 on that exist although they may be empty.

        Raises:
            NoReaderError: the store has no plugin that reads queues.
        """
        found = self._sorted.get(topic)
        if found is not None and found[0] == least_count:
            return found[1]
        with self._lock:
            if topic in self._listed:
                made = _queues_of(topic, broker, self._known[topic], least_count)
                self._sorted[topic] = least_count, made
                return made
        return _queues_of(topic, broker, self.of_topic(topic), least_count)

    def of_topic(self, topic: str) -> set[int]:
        """Return the ids of the queues that a topic has.

        Raises:
            NoReaderError: the store has no plugin that reads queues.
        """
        with self._lock:
            if topic in self._listed:
                return set(self._known[topic])
        was_read = topic in self.registry.topics()
        with self._lock:
            arrived_count = self._arrived_count
            if self._listing[0] == arrived_count:
                return self._take_over(topic, was_read)
        listed = self._list()
        if not self.context.writable:  # a reader is not notified of arrivals
            return listed.get(topic, set())
        with self._lock:
            self._listing = arrived_count, listed
            return self._take_over(topic, was_read)

    def _list(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for each in self.context.store.queues():
            if not self.hides(each.topic, each.queue_id, each.max_queue_offset):
                found.setdefault(each.topic, set()).add(each.queue_id)
        return found

    def _take_over(self, topic: str, was_read: bool) -> set[int]:
        """Return a topic's queues by the listing; under the lock."""
        ids = self._listing[1].get(topic, set())
        if not was_read:
            return set(ids)
        self._known.setdefault(topic, set()).update(ids)
        self._sorted.pop(topic, None)
        # `notice` sees new ones of topics that members read, and did all the while.
        if topic in self.registry.topics():
            self._listed.add(topic)
        return set(self._known[topic])

    def forget(self, topic: str) -> None:
        """List a topic again at its next use; it was deleted."""
        with self._lock:
            self._listed.discard(topic)
            self._known.pop(topic, None)
            self._sorted.pop(topic, None)
            self._arrived_count += 1  # no listing of before is taken over

    def check_reader(self) -> None:
        """See to it that a reader is there: members would wait without one, and for ever.

        Raises:
            NoReaderError: the store has no plugin that reads queues.
        """
        with self._lock:
            if self._listed:
                return
        self.context.store.queues()

    def count_arrival(self) -> None:
        """Note that messages have arrived; before the members are looked up."""
        with self._lock:
            self._arrived_count += 1

    def notice(self, keys: Iterable[QueueKey]) -> bool:
        """Note queues that messages came to; return whether members are to be notified."""
        topics = self.registry.topics()
        grown = set()
        with self._lock:
            for topic, queue_id in keys:
                if topic in topics and queue_id not in self._known.setdefault(topic, set()):
                    self._known[topic].add(queue_id)
                    self._sorted.pop(topic, None)
                    grown.add(topic)
            self._grown |= grown
        return bool(grown)

    def note_growth(self, topics: Iterable[str]) -> None:
        """Note topics that have more queues than members know."""
        with self._lock:
            self._grown.update(topics)

    def take_growth(self) -> Collection[str]:
        """Return topics with new queues, once."""
        with self._lock:
            grown, self._grown = self._grown, set()
        return grown

    def forget_unread(self) -> None:
        """Forget topics that no member reads any more; they are listed again when read."""
        topics = self.registry.topics()
        with self._lock:
            self._listed &= topics
            for topic in self._sorted.keys() - topics:
                del self._sorted[topic]


def _queues_of(
    topic: str, broker: str, ids: set[int], least_count: int
) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, broker, each) for each in sorted(ids | {*range(least_count)}))
