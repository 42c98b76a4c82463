"""`RequestReplies`: replies to messages, which brokers push to the requester.

Source: RocketMQ ``DefaultMQProducerImpl#request``, ``ClientRemotingProcessor#receiveReplyMessage``
and ``MessageUtil#createReplyMessage``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.record import Message, parse_properties, unpack_body
from reput_client.producer.outgoingmessage import MESSAGE_TYPE
from reput_client.remoting import Command, PushReply, RequestCode, ResponseCode

if TYPE_CHECKING:
    from reput_client.session.brokersession import BrokerSession

logger = logging.getLogger(__name__)

_CORRELATION: Final = "CORRELATION_ID"
_CLIENT: Final = "REPLY_TO_CLIENT"
_TTL: Final = "TTL"
_CLUSTER: Final = "CLUSTER"


@attrs.frozen
class Reply:
    """An answer to a message."""

    body: bytes
    properties: Mapping[str, str]
    born_timestamp: int
    """When it was made, ms."""
    store_timestamp: int
    """When the broker had it, ms."""


class RequestReplies:
    """What a session waits for. Used on the loop's thread."""

    def __init__(self, session: BrokerSession) -> None:
        """Take the replies that come to a session."""
        self._client_id = session.client_id
        self._waiting: dict[str, asyncio.Future[Reply]] = {}
        session.answerers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._take

    def expect(self, seconds: float) -> tuple[dict[str, str], asyncio.Future[Reply]]:
        """Return the properties of a message that requests a reply, and the reply's future."""
        correlation = str(uuid.uuid4())
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = future
        future.add_done_callback(lambda done: self._waiting.pop(correlation, None))
        properties = {
            _CORRELATION: correlation,
            _CLIENT: self._client_id,
            _TTL: str(max(round(seconds * 1000), 1)),
        }
        return properties, future

    async def _take(self, address: str, command: Command) -> Command:
        header: PushReply = command.header(PushReply)
        properties = parse_properties((header.properties or "").encode())
        future = self._waiting.get(properties.get(_CORRELATION, ""))
        if future is None or future.done():
            # The Java client is content with that, too: the question may have timed out.
            logger.debug("reply came too late correlation=%s", properties.get(_CORRELATION))
            return command.answer(ResponseCode.SUCCESS)
        future.set_result(
            Reply(
                unpack_body(command.body, header.sys_flag),
                properties,
                header.born_timestamp,
                header.store_timestamp,
            )
        )
        return command.answer(ResponseCode.SUCCESS)


def reply_message(asked: Mapping[str, str], body: bytes) -> Message:
    """Return the message that answers another one.

    Args:
        asked: properties of the request.
        body: the answer.

    Raises:
        ValueError: that message is not a request.
    """
    missing = [name for name in (_CORRELATION, _CLIENT, _CLUSTER) if not asked.get(name)]
    if missing:
        raise ValueError(
            f"the message asks for no reply: it has no property {missing[0]}; "
            "producers ask with Producer.request"
        )
    properties = {name: asked[name] for name in (_CORRELATION, _CLIENT, _TTL) if name in asked}
    return Message(
        f"{asked[_CLUSTER]}_REPLY_TOPIC", body, properties={**properties, MESSAGE_TYPE: "reply"}
    )
