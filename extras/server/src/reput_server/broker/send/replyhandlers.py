"""Forwards replies to the client that sent the request (324, 325), and stores them.

Source: RocketMQ ``ReplyMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.record import parse_properties
from reput_client.remoting import (
    Command,
    PushReply,
    RequestCode,
    ResponseCode,
    Send,
    SendShort,
)

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry
    from reput_server.broker.send.sendhandlers import SendHandlers
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_SECONDS: Final = 10.0


@attrs.frozen(eq=False)
class ReplyHandlers:
    """The requests that carry replies."""

    context: BrokerContext
    groups: GroupRegistry
    sends: SendHandlers

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply_short,
        }

    async def reply(self, request: Request) -> Command:
        """Pass a reply on, and store it."""
        return await self._pass_on(request, request.command.header(Send))

    async def reply_short(self, request: Request) -> Command:
        """Pass a reply on whose header has letters for names, and store it."""
        header: SendShort = request.command.header(SendShort)
        return await self._pass_on(request, header.spelled_out())

    async def _pass_on(self, request: Request, send: Send) -> Command:
        stored = await self.sends.store(request, send, is_batch=False, is_reply=True)
        reason = await self._push(request, send)
        if reason is None:
            return stored
        return attrs.evolve(stored, code=ResponseCode.SYSTEM_ERROR, remark=reason)

    async def _push(self, request: Request, send: Send) -> str | None:
        """Push the reply to the requester; return why that was not possible."""
        context = self.context
        text = send.properties or ""
        client_id = parse_properties(text.encode("utf-8", "replace")).get("REPLY_TO_CLIENT")
        if client_id is None:
            return "REPLY_TO_CLIENT is null, can not reply message"
        client = self.groups.by_client_id(client_id)
        if client is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now = context.clock()
        end = "" if not text or text.endswith("\x02") else "\x02"
        fields = attrs.asdict(send)
        fields.pop("batch")
        fields.pop("max_reconsume_times")
        fields["properties"] = f"{text}{end}PUSH_REPLY_TIME\x01{now}\x02"
        header = PushReply(
            **fields,
            born_host="/{}:{}".format(*request.peer.address),
            store_host="/{}:{}".format(*context.address),
            store_timestamp=now,
        )
        command = Command.request(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, body=request.command.body
        )
        try:
            answer = await client.peer.ask(command, _SECONDS)
        except TimeoutError:
            return f"push reply message to {client_id} fail: no answer in {_SECONDS:.0f} s"
        except ConnectionError as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id} fail: {answer.remark}"
        return None
