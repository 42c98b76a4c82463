"""`PullConsumer`: a consumer that polls and seeks.

Source: RocketMQ ``DefaultLitePullConsumer``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

from reput.errors import OffsetOutOfRangeError
from reput_consumer.api.receivedmessage import all_received
from reput_consumer.errors import NotAssignedError
from reput_consumer.group.membersettings import seconds_of

if TYPE_CHECKING:
    from types import TracebackType

    from reput_consumer.api.receivedmessage import ReceivedMessage
    from reput_consumer.consumption.memberengine import MemberEngine
    from reput_consumer.messagequeue import MessageQueue

_POLL_SECONDS: Final = 5.0


class PullConsumer:
    """Polls the queues that its group gives it, or the queues that `assign` names.

    A message counts as consumed when `poll` returns it. Use it on one thread.
    """

    def __init__(self, engine: MemberEngine) -> None:
        """Create the consumer of an engine that is in its group, or is assigned queues."""
        self._engine = engine

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member reads now, sorted."""
        with self._engine.lock:
            return sorted(self._engine.assignments)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, whatever other members of the group read."""
        self._engine.check_open()
        self._engine.assign(queues)

    def poll(self, seconds: float = _POLL_SECONDS, max_count: int = 32) -> list[ReceivedMessage]:
        """Return messages of one queue, and count them as consumed.

        Args:
            seconds: how long to wait for some.
            max_count: most messages to return.

        Returns:
            The messages; empty if none came in that time.
        """
        engine = self._engine
        engine.check_open()
        delivery = engine.take(max_count, seconds_of("seconds", seconds))
        if delivery is None:
            return []
        found = all_received(delivery, 0, len(delivery))
        engine.finish(delivery)
        return found

    # ------------------------------------------------------------------ moving

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another queue offset.

        Raises:
            NotAssignedError: the consumer does not read the queue.
            OffsetOutOfRangeError: the queue does not have that offset.
        """
        self._check(queue)
        low, high = self._engine.port.bounds(queue)
        if not low <= offset <= high:
            reason = f"queue {queue.topic}/{queue.queue_id} does not have it"
            raise OffsetOutOfRangeError(offset, low, high, reason)
        self._engine.seek(queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that the queue has."""
        self._check(queue)
        self._engine.seek(queue, self._engine.port.bounds(queue)[0])

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the next message that will be put."""
        self._check(queue)
        self._engine.seek(queue, self._engine.port.bounds(queue)[1])

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """Return the queue offset of the first message stored at that time (ms) or later."""
        return self._engine.port.offset_by_time(queue, timestamp)

    def pause(self, *queues: MessageQueue) -> None:
        """Fetch nothing more from queues; fetched messages are still returned."""
        self._check(*queues)
        self._engine.pause(queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Fetch again from queues that were paused."""
        self._check(*queues)
        self._engine.resume(queues)

    def _check(self, *queues: MessageQueue) -> None:
        self._engine.check_open()
        with self._engine.lock:
            for queue in queues:
                if queue not in self._engine.assignments:
                    raise NotAssignedError(self._engine.settings.group, queue)

    # ------------------------------------------------------------------ offsets, the end

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the queue offset that the group goes on at; None if it has none."""
        with self._engine.lock:
            found = self._engine.assignments.get(queue)
            if found is not None:
                return found.offset
        return self._engine.port.committed(self._engine.settings.group, queue)

    def commit(self, *, durable: bool = False) -> None:
        """Save how far the consumer is; with ``durable``, so that it survives a power cut."""
        self._engine.save(durable=durable)

    def close(self) -> None:
        """Save how far the consumer is, if it does that by itself, and leave the group."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
