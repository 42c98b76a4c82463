"""`AsyncPopConsumer`: a consumer that is handed messages one by one, each until a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self

from reput_aio.awaitablecalls import AwaitableCalls
from reput_aio.storecalls import checked_seconds

if TYPE_CHECKING:
    from reput_aio.threads import Threads

logger = logging.getLogger(__name__)


class AsyncPopConsumer:
    """What `AsyncStore.pop_consumer` returns: an asynchronous context manager. Used on one loop.

    The methods of its messages are awaited: ``await message.ack()``.
    """

    def __init__(
        self,
        join: Callable[[], Any],
        threads: Threads,
        consumers: set[Any],
        check: Callable[[], None],
    ) -> None:
        """Make a consumer that is not in its group yet; arguments as for `AsyncConsumer`."""
        self._join = join
        self._threads = threads
        self._consumers = consumers
        self._check = check
        self._consumer: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        """One for each call of `receive` under way."""
        self._is_stopped = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._check()
        self._loop = asyncio.get_running_loop()
        self._consumer = await self._threads.call(self._join)
        self._consumer.listen(self._wake)
        self._consumers.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def receive(
        self, max_count: int = 32, seconds: float | None = None
    ) -> list[AwaitableCalls]:
        """Return messages; see `reput_consumer.PopConsumer.receive`. Waiting takes no thread.

        Messages that a cancelled call has popped come again after their deadline.

        Args:
            max_count: most messages to return.
            seconds: how long to wait for some; None for ever.

        Returns:
            The messages; empty if none came in that time, or if the store was closed.
        """
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        limit = None
        if seconds is not None:
            limit = loop.time() + checked_seconds("seconds", seconds)
        self._waiting.add(arrived)
        try:
            while not self._is_stopped:
                arrived.clear()
                found = await self._received(max_count)
                if found:
                    return found
                async with asyncio.timeout_at(limit):
                    await arrived.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(arrived)
        return []

    def _wake(self) -> None:
        """Have each `receive` look again; called on any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for each in self._waiting:
            each.set()

    async def _received(self, max_count: int) -> list[AwaitableCalls]:
        try:
            found = await self._threads.call(lambda: self._consumer.receive(max_count, 0))
        except Exception:
            if self._is_stopped:  # closed meanwhile
                return []
            raise
        return [AwaitableCalls(each, self._threads, self._check) for each in found]

    async def __aiter__(self) -> AsyncIterator[AwaitableCalls]:
        """Return an iterator that waits for messages, one by one; see the option ``idle``."""
        while not self._is_stopped:
            found = await self.receive(1, self._consumer.idle)
            if not found:
                return
            yield found[0]

    def stop(self) -> None:
        """Receive no more messages, from any thread; calls that wait return none."""
        self._is_stopped = True
        self._wake()

    def is_handled_by(self, task: asyncio.Task[Any] | None) -> bool:
        """False: this runs no handlers."""
        return False

    def wait_idle(self, seconds: float) -> None:
        """Do nothing: this runs no handlers."""

    def close_now(self) -> None:
        """Leave the group, from a thread that may wait."""
        self._is_closed = True
        self._consumers.discard(self)
        try:
            self._consumer.close()
        except Exception:  # the store is closed all the same
            logger.exception("consumer not closed group=%s", self._consumer.group)

    async def close(self) -> None:
        """Leave the group; messages that are out come again after their deadline."""
        self.stop()
        if self._consumer is not None and not self._is_closed:
            self._is_closed = True
            self._consumers.discard(self)
            await self._threads.call(self._consumer.close)
