"""Takes what clients say of messages that they were handed (200051, 200053, 200072, 200151).

Source: RocketMQ ``AckMessageProcessor``, ``ChangeInvisibleTimeProcessor``. Differs in that a handle
which is void (the message was handed out again, or is done) is answered with ``NO_MESSAGE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    Ack,
    ChangeInvisible,
    ChangeInvisibleAnswer,
    RequestCode,
    ResponseCode,
    decode_acks,
)
from reput_server.broker.litenames import light_queue_of
from reput_server.broker.pop.pophandlers import INVISIBLE_MAX_MS
from reput_server.broker.pop.receipthandles import handle_of, handles_of, topic_of
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_client.remoting import AckedQueue, Command
    from reput_consumer import PopService
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_VOID: Final = "the handle is void: the message was handed out again, or is done"


@attrs.frozen(eq=False)
class AckHandlers:
    """The requests about messages that are out."""

    context: BrokerContext

    @property
    def _popper(self) -> PopService:
        return self.context.plugin.popper

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.ACK_LITE_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.ack_many,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change,
        }

    async def ack(self, request: Request) -> Command:
        """Count a message as consumed."""
        asked: Ack = request.command.header(Ack)
        await self._check(asked)
        handle, topic = handle_of(self._popper, asked), _topic_of(asked)
        is_done = handle is not None and await self.context.run(
            self._popper.ack, asked.consumer_group, topic, handle
        )
        if not is_done:
            raise Refusal(ResponseCode.NO_MESSAGE, _VOID)
        return request.command.answer(ResponseCode.SUCCESS)

    async def ack_many(self, request: Request) -> Command:
        """Count messages as consumed; those whose handles are void are left out."""
        body = request.command.body
        acks = decode_acks(body) if body else []
        count = await self.context.run(self._ack_many, acks)
        if not count:
            raise Refusal(ResponseCode.NO_MESSAGE, _VOID if acks else "no messages are named")
        return request.command.answer(ResponseCode.SUCCESS)

    def _ack_many(self, acks: list[AckedQueue]) -> int:
        popper = self._popper
        return sum(
            popper.ack(each.group, each.topic, handle)
            for each in acks
            for handle in handles_of(popper, each)
        )

    async def change(self, request: Request) -> Command:
        """Move a message's deadline; its handle is another one then."""
        asked: ChangeInvisible = request.command.header(ChangeInvisible)
        await self._check(asked)
        handle, topic = handle_of(self._popper, asked), _topic_of(asked)
        invisible_ms = min(max(asked.invisible_time, 0), INVISIBLE_MAX_MS)
        renewed = handle and await self.context.run(
            self._popper.renew, asked.consumer_group, topic, handle, invisible_ms
        )
        if renewed is None:
            raise Refusal(ResponseCode.NO_MESSAGE, _VOID, ChangeInvisibleAnswer())
        header = ChangeInvisibleAnswer(
            pop_time=renewed.pop_time, invisible_time=invisible_ms, revive_qid=renewed.serial
        )
        return request.command.answer(ResponseCode.SUCCESS, header)

    async def _check(self, asked: Ack | ChangeInvisible) -> None:
        topics = self.context.topics
        topic = topics.known(asked.topic) or await self.context.run(topics.find, asked.topic)
        if topic is None:
            text = f"topic[{asked.topic}] not exist, apply first please!"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if not 0 <= asked.queue_id < topic.read_queues:
            text = (
                f"queueId[{asked.queue_id}] is illegal, topic:[{asked.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]"
            )
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)


def _topic_of(asked: Ack | ChangeInvisible) -> str:
    """Return the topic whose message it is, as the store pops it.

    Raises:
        Refusal: the topic does not exist, or the handle is not valid.
    """
    if not asked.lite_topic:
        return topic_of(asked)
    try:
        return light_queue_of(asked.topic, asked.lite_topic)
    except ValueError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
