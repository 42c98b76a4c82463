"""Settings of clients, heartbeats and ends.

Source: RocketMQ ``ClientActivity``, ``GrpcClientSettingsManager``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_server.broker.litenames import LITE_TOPIC_MAX, bound_topic, quota_of
from reput_server.grpc.commandqueue import CommandQueue
from reput_server.grpc.messagetypes import ClientType, Code, Refused, m, set_milliseconds, status
from reput_server.grpc.namespaces import group_of, topic_of

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.grpc.caller import Caller
    from reput_server.grpc.calls.transactions import TransactionCalls
    from reput_server.grpc.clients import Clients

logger = logging.getLogger(__name__)

_BODY_MAX: Final = 4 << 20
_BATCH: Final = 32
_POLL_MS: Final = 20_000
_SEND_ATTEMPTS: Final = 3
_BACKOFF_S: Final = (
    *(1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200),
)
_UNREAD_MAX: Final = 200
"""Answers and commands that a client may leave unread."""
_END: Final = None
_INT_MAX: Final = (1 << 31) - 1


@attrs.define(eq=False, repr=False)
class ClientCalls:
    """The calls by which clients come and go."""

    context: BrokerContext
    clients: Clients
    transactions: TransactionCalls

    async def telemetry(self, caller: Caller, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Answer settings with what the server adds, and send commands as they come."""
        stream = CommandQueue(caller.answers)
        reader = asyncio.create_task(self._read(caller, requests, stream))
        try:
            while (command := await stream.get()) is not _END:
                if isinstance(command, Exception):
                    raise command
                yield command
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await reader
            self.clients.leave(caller.client_id, stream)
            stream.close()

    async def _read(
        self, caller: Caller, requests: AsyncIterator[Any], stream: CommandQueue
    ) -> None:
        try:
            async for request in requests:
                if stream.is_full(_UNREAD_MAX):
                    return  # the client reads no answers
                if request.WhichOneof("command") == "settings":
                    stream.put(await self._settle(caller, request.settings, stream))
        except Refused as refused:
            stream.put(refused)
        except Exception as error:
            logger.exception("settings not taken client=%s", caller.client_id)
            stream.put(error)
        finally:
            stream.put(_END)

    async def _settle(self, caller: Caller, settings: Any, stream: CommandQueue) -> Any:
        merged = self._merged(settings)
        client = await self.clients.take(caller.client_id, merged, stream)
        if client.is_producer:
            self.transactions.watch(client.topics)
        return m.TelemetryCommand(status=status(), settings=merged)

    def _merged(self, settings: Any) -> Any:
        """Return a client's settings with what the server decides."""
        merged = m.Settings()
        merged.CopyFrom(settings)
        merged.metric.on = False
        policy = merged.backoff_policy
        policy.Clear()
        if settings.WhichOneof("pub_sub") == "publishing":
            for each in settings.publishing.topics:
                topic_of(each)
            merged.publishing.max_body_size = _BODY_MAX
            merged.publishing.validate_message_type = True
            policy.max_attempts = _SEND_ATTEMPTS
            backoff = policy.exponential_backoff
            set_milliseconds(backoff.initial, 10)
            set_milliseconds(backoff.max, 1_000)
            backoff.multiplier = 2.0
        elif settings.WhichOneof("pub_sub") == "subscription":
            subscription = merged.subscription
            found = self.context.plugin.subscription_groups.get(group_of(subscription.group))
            retries = 16 if found is None else max(found.retry_max_times, 0)
            policy.max_attempts = retries + 1
            for seconds in _BACKOFF_S:
                set_milliseconds(policy.customized_backoff.next.add(), seconds * 1_000)
            subscription.fifo = found is not None and found.consume_message_orderly
            subscription.receive_batch_size = _BATCH
            set_milliseconds(subscription.long_polling_timeout, _POLL_MS)
            if bound_topic(found) is not None:
                quota = quota_of(found)
                shown = _INT_MAX if quota < 0 else min(quota, _INT_MAX)
                subscription.lite_subscription_quota = shown
                subscription.max_lite_topic_size = LITE_TOPIC_MAX
        return merged

    async def heartbeat(self, caller: Caller, request: Any) -> Any:
        """Note that a client is alive."""
        client = self.clients.known(caller.client_id)
        if client.is_consumer:
            group_of(request.group)
        elif client.settings.client_type != ClientType.PRODUCER:
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, "neither a producer nor a consumer")
        return m.HeartbeatResponse(status=status())

    async def terminate(self, caller: Caller, request: Any) -> Any:
        """Forget a client."""
        client = self.clients.known(caller.client_id)
        self.clients.drop(caller.client_id)
        if client.is_consumer:
            group_of(request.group)
        return m.NotifyClientTerminationResponse(status=status())
