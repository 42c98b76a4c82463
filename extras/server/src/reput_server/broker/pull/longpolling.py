"""`PullLongPolling`: pulls that wait for a message of their queue.

For a queue with such pulls the store calls back once at its next message, however many pulls wait.
A store that was opened for reading cannot do this; see `LogGrowth`.

Source: RocketMQ ``PullRequestHoldService``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_consumer import FetchRequest, Selector
from reput_server.broker.pull.loggrowth import LogGrowth

if TYPE_CHECKING:
    from reput_consumer import MessageQueue
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Connection

_WAITER: Final = "reput-serve"
_TRY_AGAIN_SECONDS: Final = 1.0


@attrs.define(eq=False, repr=False)
class HeldPull:
    """A pull that waits."""

    peer: Connection
    queue: MessageQueue
    queue_offset: int
    until: float
    """When the pull is answered whatever there is, by the loop's clock, s."""
    again: Callable[[], Coroutine[Any, Any, None]]
    """Answers the pull with what there is now, or holds it again if that is nothing."""
    size: int = 0
    """What of its header is kept meanwhile, bytes."""
    timer: asyncio.TimerHandle | None = None


@attrs.define(eq=False, repr=False)
class PullLongPolling:
    """Waiting pulls by queue. Used on the event loop."""

    context: BrokerContext
    begin: Callable[[Coroutine[Any, Any, None]], None]
    """Has something done, and keeps it from being collected meanwhile."""
    _held: dict[MessageQueue, set[HeldPull]] = attrs.field(init=False, factory=dict)
    _watched: dict[MessageQueue, int] = attrs.field(init=False, factory=dict)
    """The offset from which on the store calls back for a message, by queue."""
    size: int = attrs.field(init=False, default=0)
    """What of the pulls' headers is kept, bytes."""
    _count: int = attrs.field(init=False, default=0)
    _growth: LogGrowth = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._growth = LogGrowth(self.context, self.begin, self._offsets, self._release_below)

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull) -> None:
        """Have a pull look again when its queue has a new message, or when its time is over."""
        self._held.setdefault(pull.queue, set()).add(pull)
        self._count += 1
        self.size += pull.size
        pull.timer = self.context.loop.call_at(pull.until, self._release, pull)
        pull.peer.remember(pull, lambda: self._drop(pull))
        if not self.context.is_writable:
            self._growth.look()
            return
        watched = self._watched.get(pull.queue)
        # Below what is watched: a message has come since the pull has looked, of which the store
        # calls back at once; or the queue was recreated, and ends lower than it did.
        if watched is None or pull.queue_offset < watched:
            self._watched[pull.queue] = pull.queue_offset
            self.begin(self._watch(pull.queue, pull.queue_offset))

    def look_again(self, queue: MessageQueue) -> None:
        """Have the pulls of a queue look again at once: a group is to go on elsewhere."""
        for pull in list(self._held.get(queue, ())):
            self._release(pull)

    async def _watch(self, queue: MessageQueue, queue_offset: int) -> None:
        """Have the store call back when the queue has a message at ``queue_offset``."""
        request = FetchRequest("", _WAITER, queue, queue_offset, Selector(), 1, 1)
        loop = self.context.loop

        def tell(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake, queue)

        try:
            await self.context.run(self.context.port.fetch, request, tell)
        except (ReputError, OSError):
            # The pulls find out for themselves, a while later.
            loop.call_later(_TRY_AGAIN_SECONDS, self._wake, queue)

    def _offsets(self) -> dict[MessageQueue, int]:
        """Return the lowest queue offset at which a pull waits, by queue."""
        held = self._held.items()
        return {queue: min(pull.queue_offset for pull in pulls) for queue, pulls in held}

    def _release_below(self, queue: MessageQueue, end: int) -> None:
        for pull in list(self._held.get(queue, ())):
            if pull.queue_offset < end:
                self._release(pull)

    def _wake(self, queue: MessageQueue) -> None:
        self._watched.pop(queue, None)
        for pull in list(self._held.get(queue, ())):
            self._release(pull)

    def _release(self, pull: HeldPull) -> None:
        if self._drop(pull):
            self.begin(pull.again())

    def _drop(self, pull: HeldPull) -> bool:
        held = self._held.get(pull.queue)
        if held is None or pull not in held:
            return False
        held.discard(pull)
        self._count -= 1
        self.size -= pull.size
        if not held:
            del self._held[pull.queue]
        if pull.timer is not None:
            pull.timer.cancel()
        pull.peer.forget(pull)
        return True
