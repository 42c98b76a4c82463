"""`Fetcher`: how messages of a member's queues come in.

Source: RocketMQ ``DefaultMQPushConsumerImpl#pullMessage``.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from reput_consumer.backend.consumerbackend import Fetched, FetchRequest, FetchStatus
from reput_consumer.consumption.ownedqueues import OwnedQueues

if TYPE_CHECKING:
    from reput_consumer.group.assignment import Assignment
    from reput_consumer.processqueue import ProcessQueue

logger = logging.getLogger(__name__)


class Fetcher(OwnedQueues):
    """The queues of one member, and what is fetched from them. Thread-safe."""

    def _next_to_fetch(self) -> Assignment | None:
        """Return the queue that waits longest, of which the caller has to `_fetch`."""
        while self._ready:
            each = self._ready.popleft()
            each.is_ready = False
            if not (each.is_lost or each.is_paused or each.is_fetching):
                each.is_fetching = True
                return each
        return None

    def _next_ahead(self) -> list[Assignment]:
        """Return queues to `_fetch` from while messages are handled, one fetch of each at most.

        None where an answer comes at once: messages would wait for a fetch of others.
        """
        if not self.port.answers_later:
            return []
        found = []
        while (each := self._next_to_fetch()) is not None:
            found.append(each)
        return found

    def _fetch(self, assignment: Assignment) -> None:
        settings, processing = self.settings, assignment.processing
        request = FetchRequest(
            settings.group,
            settings.member,
            assignment.queue,
            assignment.next_offset,
            assignment.selector,
            settings.fetch_count,
            settings.fetch_bytes,
        )
        try:
            self.port.fetch(
                request, partial(self._answered, assignment, processing, threading.get_ident())
            )
        except BaseException:
            with self.lock:
                assignment.is_fetching = False
                self._make_ready(assignment)
                self.wake()  # it may work for another thread
            raise

    def _answered(
        self,
        assignment: Assignment,
        processing: ProcessQueue[Any],
        asked_by: int,
        fetched: Fetched,
    ) -> None:
        """Take the answer to a fetch; on any thread, so this does not wait.

        Args:
            assignment: the queue.
            processing: its process queue at the time of the request.
            asked_by: the thread of the request; it looks for messages next if it is this one.
            fetched: the answer.
        """
        with self.lock:
            if processing is not assignment.processing or assignment.is_lost:
                return  # the queue was lost, or is read again
            assignment.is_fetching = False
            assignment.next_offset = fetched.next_offset
            if fetched.status is FetchStatus.FOUND:
                self._add(assignment, fetched)
            elif fetched.status is FetchStatus.OFFSET_ILLEGAL:
                logger.warning(
                    "the queue %s/%d has no message at offset %d; the group continues at %d",
                    *(assignment.queue.topic, assignment.queue.queue_id),
                    *(assignment.offset, fetched.next_offset),
                )
                self._reset_to(assignment, fetched.next_offset)
            elif not len(processing):
                # Nothing before this offset is wanted, so a restart need not read it again.
                self._moved(assignment, fetched.next_offset, only_forward=True)
            self._refill(assignment)
            if asked_by != threading.get_ident():
                self.wake()

    def _add(self, assignment: Assignment, fetched: Fetched) -> None:
        offsets, messages = fetched.queue_offsets, fetched.messages
        tags = assignment.selector.tags
        if tags and not fetched.is_exact:
            rows = [row for row, message in enumerate(messages) if message.tags in tags]
            offsets = [offsets[row] for row in rows]
            messages = [messages[row] for row in rows]
        if messages:
            assignment.processing.put(offsets, messages)
            self.line.add(assignment, offsets, messages)
        elif not len(assignment.processing):
            self._moved(assignment, fetched.next_offset, only_forward=True)

    def _reset_to(self, assignment: Assignment, offset: int) -> None:
        assignment.reset_to(offset)
        assignment.is_fetching = False
        self.forget_stale()
        self._moved(assignment, offset, only_forward=False)
