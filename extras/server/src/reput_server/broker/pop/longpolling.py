"""`PopLongPolling`: requests of groups that pop, which wait until messages come.

Clients that speak gRPC and clients that speak remoting wait here, side by side.

Source: RocketMQ ``PopLongPollingService``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from reput.errors import ReputError
from reput_consumer import pop_retry_topic
from reput_server.broker.topictable import READ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_consumer import Popped, PopRequest, PopService
    from reput_server.broker.brokercontext import BrokerContext

_MOST: Final = 10_000
"""A client that waits over gRPC needs other calls, too, and those at once are limited."""
_MESSAGE_BYTES: Final = 5 << 20
"""Bytes that are kept for one message: the first one is taken whatever its size."""
T = TypeVar("T")
_Key = tuple[str, str, int | None]


class Share(Protocol):
    """The memory for answers of the connection that asks."""

    async def take(self, least: int, most: int, seconds: float) -> int:
        """Take ``least`` to ``most`` bytes; return how many, 0 if too few were free in time."""
        ...

    def note(self, size: int) -> None:
        """Note by how many bytes what the answers take has grown, or shrunk."""
        ...


class PopSource(Protocol):
    """Where the messages of a request come from, and what wakes it."""

    def pop(self, pop: PopRequest) -> list[Popped]:
        """Hand messages out; on a thread that may wait."""
        ...

    def give_back(self, pop: PopRequest, found: Sequence[Popped]) -> None:
        """Have messages come again at once; likewise."""
        ...

    def begin(self, pop: PopRequest, wake: Callable[[], None]) -> int:
        """Have ``wake`` called when there may be messages; return what `end` takes."""
        ...

    def end(self, token: int) -> None:
        """Wake the request no more."""
        ...


@attrs.frozen(eq=False)
class TopicSource:
    """The queues of the request's topic, and of its retry topic."""

    popper: PopService

    def pop(self, pop: PopRequest) -> list[Popped]:
        """See `PopSource.pop`."""
        return self.popper.pop(pop)

    def give_back(self, pop: PopRequest, found: Sequence[Popped]) -> None:
        """See `PopSource.give_back`."""
        self.popper.give_back(pop.group, pop.topic, [each.handle for each in found])

    def begin(self, pop: PopRequest, wake: Callable[[], None]) -> int:
        """See `PopSource.begin`."""
        topics = (pop.topic, pop_retry_topic(pop.group, pop.topic))
        return self.popper.waiting.begin(pop.group, topics, wake)

    def end(self, token: int) -> None:
        """See `PopSource.end`."""
        self.popper.waiting.end(token)


def size_of(found: Iterable[Popped]) -> int:
    """Return how many bytes the records of messages have."""
    return sum([len(each.view.record) for each in found])


class PollsFullError(ReputError):
    """Too many requests wait for messages."""

    def __str__(self) -> str:
        return "too many requests wait for messages"


@attrs.define(eq=False, repr=False)
class PopLongPolling:
    """Requests that pop. Used on the event loop."""

    context: BrokerContext
    count: int = attrs.field(init=False, default=0)
    """Requests that wait now."""
    _by_key: Counter[_Key] = attrs.field(init=False, factory=Counter)

    @property
    def most(self) -> int:
        """Requests that may wait at once, of both kinds of clients together."""
        return min(self.context.config.limits.held_pulls, _MOST)

    def count_of(self, group: str, topic: str, queue_id: int | None) -> int:
        """Return how many requests wait for messages of a queue; of any queue with None."""
        return self._by_key[group, topic, queue_id]

    @property
    def _topic_source(self) -> PopSource:
        return TopicSource(self.context.plugin.popper)

    async def popped(
        self,
        pop: PopRequest,
        seconds: float,
        share: Share | None = None,
        source: PopSource | None = None,
    ) -> list[Popped]:
        """Return messages, as soon as some have come.

        Messages for a call that was cancelled meanwhile are given back.

        Args:
            pop: the request.
            seconds: how long to wait.
            share: from which memory is taken before the messages are; the caller gives back what
                `size_of` says. None if nobody counts it.
            source: where the messages come from; None for the queues of the topic.

        Returns:
            The messages; none if none came in that time.

        Raises:
            PollsFullError: there is nothing, and too many requests wait.
            ReputError: as for `PopService.pop`; likewise `ValueError` and `OSError`.
        """
        source = source or self._topic_source
        if share is None:
            return await self._until(lambda left: self._pop(source, pop), pop, seconds, source)
        return await self._until(
            lambda left: self._pop_into(share, source, pop, left), pop, seconds, source
        )

    async def has_messages(self, pop: PopRequest, seconds: float) -> bool:
        """Return whether a request would find messages, as soon as it would.

        Arguments and errors as of `popped`.
        """
        popper = self.context.plugin.popper
        return await self._until(
            lambda left: self.context.run(popper.has_messages, pop),
            pop,
            seconds,
            self._topic_source,
        )

    async def _until(
        self,
        look: Callable[[float], Awaitable[T]],
        pop: PopRequest,
        seconds: float,
        source: PopSource,
    ) -> T:
        loop = asyncio.get_running_loop()
        end, arrived = loop.time() + max(seconds, 0), asyncio.Event()
        token = source.begin(pop, _setter(loop, arrived))
        try:
            while True:
                arrived.clear()
                found = await look(end - loop.time())
                left = end - loop.time()
                if found or left <= 0:
                    return found
                if self.count >= self.most:
                    raise PollsFullError
                if not await self._wait(arrived, pop, left):
                    return found
        finally:
            source.end(token)

    async def _wait(self, arrived: asyncio.Event, pop: PopRequest, seconds: float) -> bool:
        """Return whether something has come in time."""
        key = pop.group, pop.topic, pop.queue_id
        self.count += 1
        self._by_key[key] += 1
        try:
            async with asyncio.timeout(seconds):
                await arrived.wait()
        except TimeoutError:
            return False
        finally:
            self.count -= 1
            self._by_key[key] -= 1
            if not self._by_key[key]:
                del self._by_key[key]
        return True

    async def _pop_into(
        self, share: Share, source: PopSource, pop: PopRequest, seconds: float
    ) -> list[Popped]:
        """Take messages for which memory is free; none if too little is free in time."""
        size = await share.take(_MESSAGE_BYTES, pop.max_bytes + _MESSAGE_BYTES, seconds)
        if not size:
            return []
        try:
            found = await self._pop(
                source, attrs.evolve(pop, max_bytes=max(size - _MESSAGE_BYTES, 1))
            )
        except BaseException:
            share.note(-size)
            raise
        share.note(size_of(found) - size)
        return found

    async def _pop(self, source: PopSource, pop: PopRequest) -> list[Popped]:
        """Take messages on another thread; messages for a call that ended are given back.

        None while nothing may be read of this broker, which may change while a request waits.
        """
        if not self.context.options.permissions & READ:
            return []
        taken = asyncio.ensure_future(self.context.run(source.pop, pop))
        try:
            return await asyncio.shield(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(lambda done: self._give_back_of(source, pop, done))
            raise

    def _give_back_of(
        self, source: PopSource, pop: PopRequest, done: asyncio.Future[list[Popped]]
    ) -> None:
        if not done.cancelled() and done.exception() is None and done.result():
            self.give_back(pop, done.result(), source)

    def give_back(
        self, pop: PopRequest, found: Sequence[Popped], source: PopSource | None = None
    ) -> None:
        """Have messages come again at once: the client has not got them."""
        work = (source or self._topic_source).give_back
        with contextlib.suppress(RuntimeError):  # the server stops, and handles are void then
            self.context.pool.submit(work, pop, list(found))


def _setter(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    def set_soon() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return set_soon
