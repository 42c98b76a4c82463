"""Answers what consumers send back (36): it comes again later, or is a dead letter.

Source: RocketMQ ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError, OffsetOutOfRangeError
from reput.record.layout import INNER_BATCH
from reput_client.remoting import Command, RequestCode, ResponseCode, SendBack
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler


@attrs.frozen(eq=False)
class SendBackHandlers:
    """The request by which consumers give messages back."""

    context: BrokerContext

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    async def send_back(self, request: Request) -> Command:
        """Store a copy that comes again later, or among the dead letters."""
        asked: SendBack = request.command.header(SendBack)
        self.context.check_writable()
        await self.context.run_in_turn(self._store, asked)
        # Stored in any case: a copy that the client would send instead would be no safer.
        await self.context.replicated()
        return request.command.answer(ResponseCode.SUCCESS)

    def _store(self, asked: SendBack) -> None:
        self.context.group(asked.group)
        message = self._message(asked.offset)
        self.context.port.send_back(
            asked.group, message, asked.delay_level, asked.max_reconsume_times
        )
        topic = message.properties.get("RETRY_TOPIC", message.topic)
        self.context.statistics.sent_back(asked.group, topic)

    def _message(self, physical_offset: int) -> MessageView:
        try:
            message = self.context.store.get(physical_offset)
        except (OffsetOutOfRangeError, CorruptFileError):
            text = f"look message by offset failed, {physical_offset}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from None
        if message.sys_flag & INNER_BATCH:  # the client sends the message itself then
            text = f"a batch of messages is at {physical_offset}, and none of them is named"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)
        return message
