"""Passes questions of operators on to clients, and their answers back (223, 307, 309).

Source: RocketMQ ``AdminBrokerProcessor#callConsumer``, ``#consumeMessageDirectly``,
``Broker2Client#getConsumeStatus``. Different on purpose: what proves who the operator is is not
passed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError, OffsetOutOfRangeError
from reput_client.remoting import (
    BodyError,
    Command,
    ConsumeDirectly,
    ConsumerStatus,
    QueueName,
    RequestCode,
    ResponseCode,
    RunningInfo,
    parse_body,
    version_name,
    write_body,
)
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import Client, GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

logger = logging.getLogger(__name__)

_SECONDS: Final = 10.0
_STATUS_SECONDS: Final = 5.0
_ANSWERS_FROM: Final = 62
"""Version of the first client that answers, 3.1.8-SNAPSHOT."""
_SECRET: Final = frozenset({"AccessKey", "Signature", "SecurityToken"})


@attrs.frozen(eq=False)
class ForwardHandlers:
    """The requests that clients answer."""

    context: BrokerContext
    groups: GroupRegistry
    seconds: float = _SECONDS
    """How long a client may take."""

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume,
        }

    async def running(self, request: Request) -> Command:
        """Answer with the state of a consumer, also with its threads' stacks if requested."""
        asked: RunningInfo = request.command.header(RunningInfo)
        return await self._forward(request.command, asked.consumer_group, asked.client_id)

    async def consume(self, request: Request) -> Command:
        """Have a consumer handle one message at once, and answer what came of it."""
        asked: ConsumeDirectly = request.command.header(ConsumeDirectly)
        message = await self.context.run(self._message, asked.msg_id or "")
        command = attrs.evolve(
            request.command,
            fields={**request.command.fields, "brokerName": self.context.name},
            body=message.record,
        )
        return await self._forward(command, asked.consumer_group, asked.client_id or "")

    def _message(self, msg_id: str) -> MessageView:
        try:
            return self.context.store.get(msg_id)
        except (OffsetOutOfRangeError, CorruptFileError, ValueError):
            text = f"can not find message by the id, {msg_id[:80]!r}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from None

    async def _forward(self, command: Command, group: str, client_id: str) -> Command:
        client = self._client(group, client_id)
        fields = {key: each for key, each in command.fields.items() if key not in _SECRET}
        passed = Command.request(command.code, body=command.body, more=fields)
        try:
            answer = await client.peer.ask(passed, self.seconds)
        except TimeoutError:
            text = f"consumer <{group}> <{client_id}> Timeout: no answer in {self.seconds:g} s"
            raise Refusal(ResponseCode.CONSUME_MSG_TIMEOUT, text) from None
        except ConnectionError as error:
            text = f"invoke consumer <{group}> <{client_id}> Exception: {error}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from None
        return command.answer(
            answer.code, remark=answer.remark, body=answer.body, more=answer.fields
        )

    def _client(self, group: str, client_id: str) -> Client:
        found = self.groups.get(group)
        client = None if found is None else found.clients.get(client_id)
        if client is None:
            text = f"The Consumer <{group}> <{client_id}> not online"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        if client.version < _ANSWERS_FROM:
            text = (
                f"The Consumer <{client_id}> Version <{version_name(client.version)}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        return client

    # ------------------------------------------------------------------ all clients of a group

    async def status(self, request: Request) -> Command:
        """Answer how far clients are by what they say themselves, which may not be committed."""
        asked: ConsumerStatus = request.command.header(ConsumerStatus)
        group = self.groups.get(asked.group)
        if group is None:
            text = f"No Any Consumer online in the consumer group: [{asked.group}]"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        clients = [
            client
            for name, client in group.clients.items()
            if not asked.client_addr or name == asked.client_addr
        ]
        header = ConsumerStatus(topic=asked.topic, group=asked.group)
        question = Command.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
        found = await asyncio.gather(*(self._status_of(client, question) for client in clients))
        table = {
            client.client_id: each
            for client, each in zip(clients, found, strict=True)
            if each is not None
        }
        body = write_body({"consumerTable": table})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def _status_of(self, client: Client, question: Command) -> dict[QueueName, int] | None:
        """Return the offsets by queue that a client reports; None if it reports none."""
        try:
            answer = await client.peer.ask(question, min(self.seconds, _STATUS_SECONDS))
            if answer.code != ResponseCode.SUCCESS:
                return None
            found = parse_body(answer.body, "status of a consumer")
        except (TimeoutError, ConnectionError, BodyError) as error:
            logger.warning("client has not told its status id=%s: %s", client.client_id, error)
            return None
        table = found.get("messageQueueTable") if isinstance(found, Mapping) else None
        if not isinstance(table, Mapping):
            return None
        return {
            queue: offset
            for queue, offset in table.items()
            if isinstance(queue, QueueName) and type(offset) is int
        }
