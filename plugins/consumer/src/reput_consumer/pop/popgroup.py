"""`PopGroup`: the queues of one group that pops, and where it begins to read each of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs

from reput_consumer.group.startoffset import start_offset
from reput_consumer.pop.leases import Leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.backend.pendingfetches import QueueKey
    from reput_consumer.group.membersettings import Start
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.pop.poprequest import PopRequest


@attrs.define(eq=False, repr=False)
class PopGroup:
    """One group. All but the lock is used under the lock."""

    name: str
    lock: threading.RLock = attrs.field(factory=threading.RLock)
    is_ordered: bool = False
    """Whether each queue is read one batch after the other, as the group's settings said last."""
    is_forgotten: bool = False
    """Whether the group was deleted meanwhile: another object has its place."""
    queues: dict[QueueKey, Leases] = attrs.field(factory=dict)
    topic_of: dict[str, str] = attrs.field(factory=dict)
    """By topic of a queue: the topic of requests, which a retry topic belongs to."""
    turn: int = 0
    """Counts requests, so that each begins at another queue."""
    _starts_unsaved: set[MessageQueue] = attrs.field(init=False, factory=set)
    """Queues where the group begins at a place that could not be saved."""

    def queues_for(
        self, port: EmbeddedBackend, request: PopRequest, retry: str
    ) -> list[tuple[QueueKey, Leases]]:
        """Return the queues to take from, in the order of one request.

        Each request begins at another queue, but for topics of priorities.

        Args:
            port: the store.
            request: the request.
            retry: the retry topic of the group; empty without one.
        """
        found = [
            each
            for topic in filter(None, (request.topic, retry))
            for each in self.leases_of(port, topic, request.topic, request.start).items()
        ]
        if request.queue_id is not None:
            chosen = request.topic, request.queue_id
            found = [each for each in found if each[0] == chosen or each[0][0] == retry]
        topic = port.topics.get(request.topic)
        if topic is not None and topic.is_prioritized and not self.is_ordered:
            # The queue is the priority. New messages come before repeated messages.
            return sorted(found, key=lambda each: (each[0][0] != request.topic, -each[0][1]))
        at = self.turn % len(found) if found else 0
        return found[at:] + found[:at]

    def leases_of(
        self, port: EmbeddedBackend, topic: str, asked: str, start: Start
    ) -> dict[QueueKey, Leases]:
        """Return the leases of all queues of a topic; new queues begin where they have to.

        Where a group begins is on disk before the first message is handed out; a group that begins
        at the end would begin further behind after a kill.

        Raises:
            ReputError: the store cannot be read, or the log cannot be flushed.
            OSError: the offsets cannot be written.
        """
        found = port.queues(topic)
        for queue in found:
            known = self.queues.get((topic, queue.queue_id))
            # Members that pulled meanwhile went further: what they took does not come again.
            if known is not None and (port.committed(self.name, queue) or 0) > known.floor:
                del self.queues[topic, queue.queue_id]
        missing = [each for each in found if (topic, each.queue_id) not in self.queues]
        if missing:
            begun = self._begun(port, missing, start, has_grown=topic in self.topic_of)
            for queue in missing:
                self.queues[topic, queue.queue_id] = Leases(begun[queue])
        self.topic_of[topic] = asked
        return {(topic, each.queue_id): self.queues[topic, each.queue_id] for each in found}

    def _begun(
        self, port: EmbeddedBackend, queues: list[MessageQueue], start: Start, *, has_grown: bool
    ) -> Mapping[MessageQueue, int]:
        stored = {queue: port.committed(self.name, queue) for queue in queues}
        if not has_grown and None in stored.values():
            has_grown = port.offsets.knows(self.name, queues[0].topic)
        begun = {
            queue: start_offset(port, queue, offset, start, has_grown=has_grown)
            for queue, offset in stored.items()
        }
        new = {
            queue: begun[queue]
            for queue, offset in stored.items()
            if offset is None or queue in self._starts_unsaved
        }
        if new:
            self._starts_unsaved.update(new)  # they are known from now on, but maybe not on disk
            port.begin(self.name, new)
            self._starts_unsaved.difference_update(new)
        return begun
