"""Delivers messages, with long polling.

Source: RocketMQ ``ReceiveMessageActivity``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
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
from reput_server.broker.lite.litechanges import LiteAskError
from reput_server.broker.pop.longpolling import PollsFullError, size_of
from reput_server.grpc.calls.lite import receipt_of
from reput_server.grpc.messageproperties import shown
from reput_server.grpc.messagetypes import (
    Code,
    Refused,
    m,
    milliseconds_of,
    set_milliseconds,
    status,
)
from reput_server.grpc.namespaces import group_of, topic_of

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.lite.litechanges import LiteChanges
    from reput_server.broker.pop.longpolling import PopLongPolling, PopSource
    from reput_server.grpc.caller import Caller
    from reput_server.grpc.calls.routes import RouteCalls
    from reput_server.grpc.clients import Clients

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
_READ: Final = 4


def checked_invisible_ms(duration: Any, least_ms: int = _INVISIBLE_MIN_MS) -> int:
    """Return for how long a message is to be invisible, ms.

    Raises:
        Refused: less than it has to be, or more than 12 hours.
    """
    found = milliseconds_of(duration)
    if not least_ms <= found <= _INVISIBLE_MAX_MS:
        text = f"an invisible duration of {found} ms; {least_ms} ms to 12 hours expected"
        raise Refused(Code.ILLEGAL_INVISIBLE_TIME, text)
    return found


@attrs.define(eq=False, repr=False)
class ReceiveCalls:
    """The call that hands messages out."""

    context: BrokerContext
    clients: Clients
    routes: RouteCalls
    polls: PopLongPolling
    lite: LiteChanges

    async def receive(self, caller: Caller, request: Any) -> AsyncIterator[Any]:
        """Yield a status, messages, and when they were handed out."""
        try:
            pop = await self._request(caller, request)
            source = self._source(caller, pop)
            left = deque(await self._popped(pop, caller, request, source))
            if not left:
                raise Refused(Code.MESSAGE_NOT_FOUND, "no message in time")
        except Refused as refused:
            yield m.ReceiveMessageResponse(status=status(refused.code, str(refused)))
            yield self._end()
            return
        topic = request.message_queue.topic
        try:
            yield m.ReceiveMessageResponse(status=status())
            while left:
                yield m.ReceiveMessageResponse(message=shown(left[0], topic, receipt_of(left[0])))
                caller.answers.note(-len(left.popleft().view.record))
        finally:
            if left:  # the client went away
                caller.answers.note(-size_of(left))
                self.polls.give_back(pop, left, source)
        yield self._end()

    def _end(self) -> Any:
        end = m.ReceiveMessageResponse()
        set_milliseconds(end.delivery_timestamp, self.context.plugin.port.context.clock())
        return end

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
        if not topic.permissions & _READ or topic.read_queues < 1:
            raise Refused(Code.FORBIDDEN, f"topic {topic.topic!r} has no queue that can be read")
        group = group_of(request.group)
        try:
            pop_retry_topic(group, topic.topic)
        except ValueError as error:  # the names of both are too long for it
            raise Refused(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None
        is_whole = self.context.config.grpc_from_beginning or self.lite.is_bound(group)
        return PopRequest(
            group=group,
            topic=topic.topic,
            selector=_selector(request.filter_expression),
            max_count=min(max(request.batch_size, 1), _BATCH_MAX),
            max_bytes=_BATCH_BYTES,
            invisible_ms=invisible_ms,
            start=Start(EARLIEST if is_whole else LATEST),
            attempt=request.attempt_id[:200],
            keep=keep,
            max_attempts=None if client is None else client.settings.backoff_policy.max_attempts,
        )

    def _source(self, caller: Caller, pop: PopRequest) -> PopSource | None:
        """Return where the messages come from: the client's lite topics, if its group reads such.

        Raises:
            Refused: the group may not read lite topics of this topic.
        """
        if not self.lite.is_bound(pop.group):
            return None
        try:
            self.lite.check(pop.group, pop.topic)
        except LiteAskError as error:
            raise Refused(Code.FORBIDDEN, str(error)) from None
        return self.lite.source_of(caller.client_id)

    async def _popped(
        self, pop: PopRequest, caller: Caller, request: Any, source: PopSource | None
    ) -> list[Popped]:
        given = milliseconds_of(request.long_polling_timeout) / 1_000
        seconds = given if request.HasField("long_polling_timeout") else _POLL_SECONDS
        if caller.remaining is not None:
            seconds = min(seconds, caller.remaining - _SPARE_SECONDS)
        try:
            return await self.polls.popped(pop, seconds, caller.answers, source)
        except PollsFullError as error:
            raise Refused(Code.TOO_MANY_REQUESTS, str(error)) from None
        except GroupKindError as error:
            raise Refused(Code.UNSUPPORTED, str(error)) from None
        except ValueError as error:
            raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
        except ReputError as error:
            raise Refused(Code.FORBIDDEN, str(error)) from None


def _selector(given: Any) -> Selector:
    expression = given.expression[:10_000] or "*"
    selector = Selector(expression, SQL92 if given.type == _SQL else TAG)
    if selector.kind == TAG and not selector.tags and not selector.selects_all:
        text = f"tags {expression[:100]!r}: one at least, or * for all"
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, text)
    return selector
