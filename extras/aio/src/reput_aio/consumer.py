"""`AsyncConsumer`: a consumer of a group whose messages are handled by tasks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from reput.errors import StoreClosedError
from reput.signalsafe import SafeEvent

if TYPE_CHECKING:
    from reput_aio.threads import Threads

logger = logging.getLogger(__name__)


class AsyncMessage:
    """A message that a consumer was handed; ``body``, ``keys`` and all other fields are there."""

    __slots__ = ("_done", "_received", "_threads")

    def __init__(
        self, received: Any, threads: Threads, done: Callable[[AsyncMessage], None]
    ) -> None:
        self._received = received
        self._threads = threads
        self._done: Callable[[AsyncMessage], None] | None = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._received, name)

    def __repr__(self) -> str:
        return f"<AsyncMessage {self._received!r}>"

    def ack(self) -> None:
        """Count the message as consumed; a second call does nothing. It does not wait."""
        self._received.ack()
        self._finish()

    async def retry(self, level: int = 0) -> None:
        """Have the message come again; see `reput_consumer.ReceivedMessage.retry`."""
        await self._threads.call(lambda: self._received.retry(level))
        self._finish()

    def _finish(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(self)


class AsyncConsumer:
    """What `AsyncStore.consume` returns. Used on one event loop.

    ``async for`` joins the group, and leaves it when the loop ends. In an ``async with`` block the
    message at hand also counts as consumed when the block ends without an exception.
    """

    def __init__(
        self,
        join: Callable[[bool], Any],
        concurrency: int,
        threads: Threads,
        consumers: set[Any],
        check: Callable[[], None],
    ) -> None:
        """Make a consumer that is not in its group yet.

        Args:
            join: joins the group, and returns the consumer; called with whether only
                acknowledgements count.
            concurrency: see `AsyncStore.consume`.
            threads: where the consumer waits.
            consumers: the consumers that are closed with the store.
            check: raises if the store is closed.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency={concurrency}: 1 or more expected")
        self._join = join
        self._concurrency = concurrency
        self._threads = threads
        self._consumers = consumers
        self._check = check
        self._consumer: Any = None
        self._open_count = 0
        """Messages that were handed out and are not done."""
        self._freed: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """Handlers under way."""
        self._consumed = 0
        self._idle = SafeEvent()
        """Set while `run` is not under way."""
        self._idle.set()
        self._is_stopped = False
        self._is_closed = False

    @property
    def consumer(self) -> Any:
        """The `reput_consumer.Consumer`; None before the group is joined."""
        return self._consumer

    # ------------------------------------------------------------------ joining, leaving

    async def _begin(self, explicit: bool) -> None:
        self._check()
        if self._consumer is None:
            found = await self._threads.call(lambda: self._join(explicit))
            found.executor = self._threads.pool
            self._consumer = found
            self._consumers.add(self)
            if self._is_stopped:
                found.stop()

    async def __aenter__(self) -> Self:
        await self._begin(self._concurrency > 1)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._consumers.discard(self)
            consumer = self._consumer
            await self._threads.call(lambda: consumer.__exit__(kind, error, trace))

    def stop(self) -> None:
        """End iterating and `run`, from any thread; messages in progress are finished first."""
        self._is_stopped = True
        if self._consumer is not None:
            self._consumer.stop()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        """Have an iterator look again that waits because too many messages are open."""
        if self._freed is not None:
            self._freed.set()

    def is_handled_by(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether a task is one of the handlers of `run`."""
        return task in self._tasks

    def wait_idle(self, seconds: float) -> None:
        """Wait until `run` has ended, on a thread."""
        if not self._idle.wait(seconds):
            logger.warning("handlers not waited for any longer group=%s", self._consumer.group)

    def close_now(self) -> None:
        """Leave the group, from a thread that may wait; messages that are not done come again."""
        self._is_closed = True
        self._consumers.discard(self)
        try:
            self._consumer.close()
        except Exception:  # the store is closed all the same
            logger.exception("consumer not closed group=%s", self._consumer.group)

    async def close(self) -> None:
        """Leave the group; messages that are not done come again."""
        if self._consumer is not None and not self._is_closed:
            self._is_closed = True
            self._consumers.discard(self)
            await self._threads.call(self._consumer.close)

    # ------------------------------------------------------------------ iterating

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        """Return an iterator that waits for messages.

        It ends when the store is closed, by `stop`, or as the options ``idle`` and ``until`` say.
        """
        is_ours = self._consumer is None
        await self._begin(self._concurrency > 1)
        try:
            async for message in self._messages(self._concurrency > 1):
                yield message
        finally:
            if is_ours:
                await self.close()

    async def _messages(self, is_explicit: bool) -> AsyncIterator[AsyncMessage]:
        """Hand out messages, while fewer are open than may be."""
        self._freed, self._loop = asyncio.Event(), asyncio.get_running_loop()
        messages = aiter(self._consumer)
        while not self._is_ending():
            while is_explicit and self._open_count >= self._concurrency and not self._is_ending():
                self._freed.clear()
                await self._freed.wait()
            try:
                received = await anext(messages)
            except StopAsyncIteration:
                return
            except Exception:
                if self._is_ending():  # closed meanwhile
                    return
                raise
            self._open_count += 1
            yield AsyncMessage(received, self._threads, self._note_done)

    def _is_ending(self) -> bool:
        return self._is_stopped

    def _note_done(self, message: AsyncMessage) -> None:
        self._open_count -= 1
        self._wake()

    # ------------------------------------------------------------------ handlers

    async def run(self, handler: Callable[[AsyncMessage], object]) -> int:
        """Call a function with each message, several at once, until the end.

        What it returns is awaited if it can be. A function that is not ``async`` runs on the loop,
        so it must not wait.

        A message is consumed when it returns, with anything but ``False`` or a
        `reput_consumer.Retry`. Otherwise, or if it raises, the message comes again, as for
        `reput_consumer.Consumer.run`. If this is cancelled, handlers are cancelled, too, and their
        messages come again. After `stop`, it returns when all handlers have returned.

        Returns:
            How many messages were consumed.

        Raises:
            ReputError: messages cannot be read any more.
        """
        is_ours = self._consumer is None
        if not is_ours and self._concurrency == 1:
            raise ValueError("concurrency=1 in a block: await run without `async with`")
        await self._begin(True)
        tasks, self._consumed = self._tasks, 0
        self._idle.clear()
        try:
            async for message in self._messages(True):
                task = asyncio.create_task(self._handle(handler, message))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(set(tasks))
            return self._consumed
        finally:
            for each in tasks:
                each.cancel()
            if tasks:
                await asyncio.wait(set(tasks))
            self._idle.set()
            if is_ours:
                await self.close()

    async def _handle(
        self, handler: Callable[[AsyncMessage], object], message: AsyncMessage
    ) -> None:
        try:
            returned = handler(message)
            if inspect.isawaitable(returned):
                returned = await returned
        except Exception as error:  # it may raise anything: its message comes again
            logger.warning(
                "handler failed, its message comes again group=%s topic=%s queue_id=%d "
                "queue_offset=%d: %r",
                self._consumer.group,
                message.topic,
                message.queue_id,
                message.queue_offset,
                error,
                exc_info=error,
            )
            returned = False
        try:
            level = 0 if returned is False else getattr(returned, "level", None)
            if isinstance(level, int):
                await message.retry(level)
            else:
                message.ack()
                self._consumed += 1
        except StoreClosedError:
            logger.debug("message comes again, as the store was closed")
        finally:  # also of one that could not be sent back: another is handled in its place
            message._finish()
