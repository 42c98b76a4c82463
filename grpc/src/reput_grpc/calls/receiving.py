"""Hands messages out, waiting for them if asked to.

Source: RocketMQ ``ReceiveMessageActivity``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_consumer import (
    EARLIEST,
    LATEST,
    SQL92,
    TAG,
    GroupKindError,
    Popped,
    PopRequest,
    Selector,
    Start,
    pop_retry_topic,
)
from reput_grpc.naming import group_of, topic_of
from reput_grpc.properties import shown
from reput_grpc.types import Code, Refused, m, milliseconds_of, set_milliseconds, status

if TYPE_CHECKING:
    from reput_grpc.caller import Caller
    from reput_grpc.calls.routes import RouteCalls
    from reput_grpc.clients import Clients
    from reput_server.broker.context import BrokerContext

__all__ = ["ReceiveCalls", "checked_invisible_ms"]

_BATCH_MAX: Final = 32
_BATCH_BYTES: Final = 16 << 20
"""Bytes of one answer's messages in memory; further ones are left to the next request."""
_POLL_SECONDS: Final = 20.0
_SPARE_SECONDS: Final = 1.0
"""How long before the client's deadline a poll ends, so that the answer is in time."""
_INVISIBLE_MIN_MS: Final = 10_000
_INVISIBLE_MAX_MS: Final = 12 * 3_600_000
_RENEWED_MS: Final = 60_000
_SQL: Final = 2


def checked_invisible_ms(duration: Any) -> int:
    """Return for how long a message is to be invisible, ms.

    Raises:
        Refused: less than 10 seconds, or more than 12 hours.
    """
    found = milliseconds_of(duration)
    if not _INVISIBLE_MIN_MS <= found <= _INVISIBLE_MAX_MS:
        text = f"an invisible duration of {found} ms; 10 seconds to 12 hours expected"
        raise Refused(Code.ILLEGAL_INVISIBLE_TIME, text)
    return found


@attrs.define(eq=False)
class ReceiveCalls:
    """The call that hands messages out."""

    context: BrokerContext
    clients: Clients
    routes: RouteCalls
    waiting_max: int = 10_000
    waiting_count: int = attrs.field(init=False, default=0)
    """Polls that wait now."""

    async def receive(self, caller: Caller, request: Any) -> AsyncIterator[Any]:
        """Yield a status, messages, and when they were handed out."""
        pop = await self._request(caller, request)
        found = await self._popped(pop, caller, request)
        if not found:
            text = "no message in time"
            yield m.ReceiveMessageResponse(status=status(Code.MESSAGE_NOT_FOUND, text))
            return
        topic, left = request.message_queue.topic, list(found)
        invisible_ms = None if request.auto_renew else pop.invisible_ms
        try:
            yield m.ReceiveMessageResponse(status=status())
            while left:
                each = left[0]
                message = shown(each, topic, str(each.handle), invisible_ms)
                yield m.ReceiveMessageResponse(message=message)
                left.pop(0)
        finally:
            if left:  # the client went away
                self._give_back(pop, left)
        end = m.ReceiveMessageResponse()
        set_milliseconds(end.delivery_timestamp, self.context.plugin.port.clock())
        yield end

    async def _request(self, caller: Caller, request: Any) -> PopRequest:
        client = self.clients.find(caller.client_id)
        topic = await self.routes.topic(topic_of(request.message_queue.topic))
        client_id, keep, clients = caller.client_id, None, self.clients
        if request.auto_renew:
            invisible_ms = _RENEWED_MS

            def keep() -> bool:
                return clients.is_connected(client_id)
        else:
            invisible_ms = checked_invisible_ms(request.invisible_duration)
        return PopRequest(
            group=group_of(request.group),
            topic=topic.topic,
            selector=_selector(request.filter_expression),
            max_count=min(max(request.batch_size, 1), _BATCH_MAX),
            max_bytes=_BATCH_BYTES,
            invisible_ms=invisible_ms,
            start=Start(EARLIEST if self.context.config.grpc_from_beginning else LATEST),
            attempt=request.attempt_id[:200],
            keep=keep,
            max_attempts=None if client is None else client.settings.backoff_policy.max_attempts,
        )

    async def _popped(self, pop: PopRequest, caller: Caller, request: Any) -> list[Popped]:
        loop = asyncio.get_running_loop()
        given = milliseconds_of(request.long_polling_timeout) / 1_000
        seconds = given if request.HasField("long_polling_timeout") else _POLL_SECONDS
        if caller.remaining is not None:
            seconds = min(seconds, caller.remaining - _SPARE_SECONDS)
        end, arrived = loop.time() + max(seconds, 0), asyncio.Event()
        topics = (pop.topic, pop_retry_topic(pop.group, pop.topic))
        waiting = self.context.plugin.popper.waiting
        token = waiting.begin(pop.group, topics, _setter(loop, arrived))
        try:
            while True:
                arrived.clear()
                found = await self._pop(pop)
                left = end - loop.time()
                if found or left <= 0:
                    return found
                if self.waiting_count >= self.waiting_max:
                    raise Refused(Code.TOO_MANY_REQUESTS, "too many requests wait for messages")
                self.waiting_count += 1
                try:
                    async with asyncio.timeout(left):
                        await arrived.wait()
                except TimeoutError:
                    return []
                finally:
                    self.waiting_count -= 1
        finally:
            waiting.end(token)

    async def _pop(self, pop: PopRequest) -> list[Popped]:
        """Take messages on another thread; messages for a call that ended are given back."""
        taken = asyncio.ensure_future(self.context.run(self.context.plugin.popper.pop, pop))
        try:
            return await asyncio.shield(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(lambda done: self._give_back_of(pop, done))
            raise
        except GroupKindError as error:
            raise Refused(Code.UNSUPPORTED, str(error)) from None
        except ValueError as error:
            raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
        except ReputError as error:
            raise Refused(Code.FORBIDDEN, str(error)) from None

    def _give_back_of(self, pop: PopRequest, done: asyncio.Future[list[Popped]]) -> None:
        if not done.cancelled() and done.exception() is None and done.result():
            self._give_back(pop, done.result())

    def _give_back(self, pop: PopRequest, found: list[Popped]) -> None:
        handles = [each.handle for each in found]
        popper = self.context.plugin.popper
        self.context.pool.submit(popper.give_back, pop.group, pop.topic, handles)


def _setter(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    def set_soon() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return set_soon


def _selector(given: Any) -> Selector:
    expression = given.expression[:10_000] or "*"
    selector = Selector(expression, SQL92 if given.type == _SQL else TAG)
    if selector.kind == TAG and not selector.tags and not selector.selects_all:
        text = f"tags {expression[:100]!r}: one at least, or * for all"
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, text)
    return selector
