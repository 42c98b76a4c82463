"""`Consumer`: a member of a group, as a program uses it.

with store.consumer("billing", {"orders": "paid || refunded"}) as consumer:
    for message in consumer:
        ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from reput_consumer.api.listener import ListenerRun, Place
from reput_consumer.api.receivedmessage import ReceivedMessage, received
from reput_consumer.consumption.delivery import CONSUMED, OPEN
from reput_consumer.group.membersettings import seconds_of

if TYPE_CHECKING:
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.consumption.memberengine import MemberEngine
    from reput_consumer.messagequeue import MessageQueue

_AHEAD_MOST: Final = 256


class Consumer:
    """A consumer of a group; a context manager that leaves the group at its end.

    Iterate over it on one thread, or call `run`. A message counts as consumed when the next one is
    taken, unless the consumer was made with ``explicit=True``; when the ``with`` block is left,
    unless by an exception, so does the one at hand.
    """

    def __init__(
        self,
        engine: MemberEngine,
        *,
        explicit: bool = False,
        idle: float | None = None,
    ) -> None:
        """Create the consumer of an engine that is in its group.

        Args:
            engine: the member.
            explicit: whether only `ReceivedMessage.ack` counts messages as consumed.
            idle: seconds without a message after which iterating ends; None for never.
        """
        self._engine = engine
        self._explicit = explicit
        self._idle = idle
        self._opened: Delivery | None = None
        """What messages are handed out from."""
        self._ahead = 1
        """How many messages of a queue that is read in order, with acknowledgements, are opened
        together; others wait for the one before them, which is in vain if that is still open."""
        self._at_hand: ReceivedMessage | None = None
        """The message that counts as consumed when the next one is taken."""
        self._shown: set[Place] = set()
        self.executor: Executor | None = None
        """Where asynchronous iterating reads; None to read on the event loop."""

    def __repr__(self) -> str:
        settings = self._engine.settings
        return f"<Consumer {settings.member!r} of group {settings.group!r}>"

    # ------------------------------------------------------------------ who it is

    @property
    def group(self) -> str:
        """The group's name."""
        return self._engine.settings.group

    @property
    def member(self) -> str:
        """This member's client id."""
        return self._engine.settings.member

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member reads now, sorted."""
        with self._engine.lock:
            return sorted(self._engine.assignments)

    # ------------------------------------------------------------------ iterating

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Return an iterator that waits for messages; see ``idle`` and ``until``."""
        while (delivery := self._open(self._idle)) is not None:
            yield from self._messages_of(delivery)

    def next(self, seconds: float | None = None) -> ReceivedMessage | None:
        """Count the message at hand as consumed, and return the next one.

        Args:
            seconds: how long to wait for it; None for ever.

        Returns:
            The message; None if none came in that time, or at the end.

        Raises:
            ConsumerClosedError: the consumer is closed.
            ReputError: messages cannot be read.
        """
        seconds_of("seconds", seconds)
        while (delivery := self._open(seconds)) is not None:
            for row in delivery.rows:
                message = received(delivery, row, delivery.messages[row])
                self._at_hand = None if self._explicit else message
                return message
        return None

    def _open(self, seconds: float | None) -> Delivery | None:
        """Count the message at hand as consumed, and return what the next ones are taken from."""
        self._finish_at_hand()
        engine, opened = self._engine, self._opened
        engine.check_open()
        is_gated = self._explicit and engine.settings.ordered
        if opened is not None:
            is_held_up = is_gated and opened.is_any_open
            if opened.unhanded_count and not is_held_up:
                return opened
            engine.close_delivery(opened)
            self._ahead = 1 if is_held_up else min(2 * self._ahead, _AHEAD_MOST)
        self._opened = engine.open(seconds, self._ahead if is_gated else None)
        return self._opened

    def _messages_of(self, delivery: Delivery) -> Iterator[ReceivedMessage]:
        """Hand out what is left of a delivery, without a look at anything that others change."""
        engine, is_explicit = self._engine, self._explicit
        is_gated = is_explicit and engine.settings.ordered
        marks, messages, new = delivery.marks, delivery.messages, ReceivedMessage
        for row in delivery.rows:
            message = new()  # as in `received`, without a call for each
            message._delivery = delivery
            message._row = row
            message.view = messages[row]
            if is_explicit:
                yield message
                if is_gated and marks[row] == OPEN:
                    return  # those after it wait
                continue
            self._at_hand = message
            yield message
            if marks[row] == OPEN:  # the next one is taken
                marks[row] = CONSUMED
                if engine.is_watching:
                    engine.settle(delivery)

    def _finish_at_hand(self) -> None:
        message, self._at_hand = self._at_hand, None
        if message is not None:
            message.ack()

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Return an asynchronous iterator; while it waits, other tasks run."""
        while (delivery := await self._open_soon() or await self._arrival()) is not None:
            for message in self._messages_of(delivery):
                yield message
            await asyncio.sleep(0)  # other tasks run, too, while messages never end

    async def _arrival(self) -> Delivery | None:
        """Wait for messages, and open them; None if none come."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        engine = self._engine
        engine.listen(lambda: _set_soon(loop, arrived))
        try:
            while (delivery := await self._open_soon()) is None:
                if engine.is_over:
                    return None
                async with asyncio.timeout(self._idle):
                    await arrived.wait()
                arrived.clear()
        except TimeoutError:
            return None
        finally:
            engine.listen(None)
        return delivery

    async def _open_soon(self) -> Delivery | None:
        """Return `_open(0)`."""
        if self.executor is None:
            return self._open(0)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, self._open, 0)

    # ------------------------------------------------------------------ a function for each message

    def run(self, handler: Callable[[Any], object], *, threads: int = 20, batch: int = 1) -> int:
        """Call a function with each message, on several threads, until the consumer's end.

        A message is consumed when the function returns, with anything but ``False`` or a
        `reput_consumer.Retry`. Otherwise, or if it raises, the message comes again: 10 s later,
        then 30 s, up to 2 h (delay levels 3 to 18). After 16 retries, that is 17 deliveries, it
        becomes a dead letter. In an ordered consumer its queue pauses instead.

        Args:
            handler: called with a `ReceivedMessage`, or, with ``batch`` above 1, with a list of
                them from one queue.
            threads: how many; of an ordered consumer, no two work on the same queue.
            batch: most messages for one call.

        Returns:
            How many messages were consumed until ``idle`` or ``until`` ended the run, or `stop`.

        Raises:
            ConsumerClosedError: the consumer is closed.
            ReputError: messages cannot be read any more.
            ValueError: fewer than one thread, or than one message.
            TypeError: ``threads`` or ``batch`` is not an integer.
        """
        for name, given in [("threads", threads), ("batch", batch)]:
            if not isinstance(given, int):
                raise TypeError(f"{name}: an integer expected, found {given!r:.100}")
        if threads < 1 or batch < 1:
            raise ValueError(f"threads={threads}, batch={batch}: 1 or more of each expected")
        self._finish_at_hand()
        self._engine.check_open()
        return ListenerRun(self._engine, handler, batch, self._idle, self._shown).on_threads(
            threads
        )

    def stop(self) -> None:
        """End iterating and running, from any thread; messages in progress are finished first."""
        self._engine.stop()

    # ------------------------------------------------------------------ offsets, the end

    def commit(self, *, durable: bool = False) -> None:
        """Save how far the group is now, and not only at the next of the regular saves.

        Args:
            durable: return when it survives a power cut.

        Raises:
            ReputError: it cannot be saved.
            OSError: likewise.
        """
        self._engine.save(durable=durable)

    def close(self) -> None:
        """Leave the group; messages that are not finished come again. A second call does nothing.

        Raises:
            ReputError: the offsets cannot be saved; the group is left all the same.
        """
        self._at_hand = None
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._finish_at_hand()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)


def _set_soon(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)
