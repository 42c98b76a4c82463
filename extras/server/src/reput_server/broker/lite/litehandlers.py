"""Answers clients of lite topics (200070, 200071): what they subscribe to, and their messages.

Source: RocketMQ 5.5 ``PopLiteMessageProcessor``, ``LiteSubscriptionCtlProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    BodyObject,
    Command,
    LitePop,
    LiteUnsubscribed,
    Pop,
    PopAnswer,
    RequestCode,
    ResponseCode,
)
from reput_consumer import EARLIEST, PopRequest, Start
from reput_server.broker.lite.litechanges import (
    ACTIONS,
    LiteAskError,
    LiteChange,
    LiteChanges,
    OffsetOption,
)
from reput_server.broker.lite.litesubscriptions import LiteQuotaError
from reput_server.broker.litenames import bound_topic, is_lite, lite_topic_of
from reput_server.broker.pop.pophandlers import INVISIBLE_MAX_MS
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_consumer import Popped
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.pop.pophandlers import PopHandlers
    from reput_server.wire.interfaces import Connection, Request
    from reput_server.wire.requestdispatcher import Handler

_COUNT_MAX: Final = 32
_BYTES: Final = 4 << 20
_ATTEMPT_LENGTH: Final = 200
_ENTRIES_MAX: Final = 100


@attrs.frozen(eq=False)
class LiteHandlers:
    """The requests of clients that read lite topics."""

    context: BrokerContext
    pops: PopHandlers
    changes: LiteChanges

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.POP_LITE_MESSAGE: self.pop,
            RequestCode.LITE_SUBSCRIPTION_CTL: self.subscribe,
        }

    async def pop(self, request: Request) -> Command | None:
        """Answer with messages of the client's lite topics, now or when there are some."""
        asked: LitePop = request.command.header(LitePop)
        if asked.max_msg_num > _COUNT_MAX:
            text = f"the broker[{self.context.address[0]}] pop message's num is greater than 32"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        group, topic = asked.consumer_group, asked.topic
        if not is_lite(self.context.topics.known(topic)) or group_is_unknown(self.context, group):
            self._refuse(topic, group)
        await self.pops.check(_as_pop(asked), "pop message")
        self.context.check_writable()
        if bound_topic(self.context.plugin.subscription_groups.get(group)) != topic:
            text = f"subscription bind topic not match, {group[:80]}"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        pop = PopRequest(
            group=group,
            topic=topic,
            max_count=max(asked.max_msg_num, 1),
            max_bytes=_BYTES,
            invisible_ms=min(max(asked.invisible_time, 0), INVISIBLE_MAX_MS),
            start=Start(EARLIEST),
            attempt=(asked.attempt_id or "")[:_ATTEMPT_LENGTH],
            is_ordered=True,
        )
        source = self.changes.source_of(asked.client_id)
        return await self.pops.hand_out(request, pop, asked.poll_time, source, _header_of)

    def _refuse(self, topic: str, group: str) -> None:
        known = self.context.topics.known(topic)
        if known is None:
            text = f"topic [{topic[:80]}] not exist, apply first please!"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if not is_lite(known):
            text = f"the topic [{topic[:80]}] message type not match"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        text = f"subscription group [{group[:80]}] not exist"
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)

    async def subscribe(self, request: Request) -> Command:
        """Take what clients subscribe to."""
        body = BodyObject.of(request.command.body, "lite subscriptions")
        entries = body.objects("subscriptionSet")
        if not 0 < len(entries) <= _ENTRIES_MAX:
            text = f"LiteSubscriptionCtlRequestBody has {len(entries)} entries"
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, text)
        for entry in entries:
            tell = partial(_tell, request.peer, entry.text("clientId", ""), entry.text("group", ""))
            try:
                await self.changes.take(_change_of(entry), tell)
            except LiteQuotaError as error:
                code = ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
                raise Refusal(code, str(error)) from None
            except LiteAskError as error:
                raise Refusal(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        return request.command.answer(ResponseCode.SUCCESS)


def group_is_unknown(context: BrokerContext, group: str) -> bool:
    """Whether the group does not exist; it is not created, as it would be bound to no topic."""
    return context.plugin.subscription_groups.get(group) is None


def _as_pop(asked: LitePop) -> Pop:
    return Pop(
        consumer_group=asked.consumer_group,
        topic=asked.topic,
        queue_id=-1,
        max_msg_nums=asked.max_msg_num,
        invisible_time=asked.invisible_time,
        poll_time=asked.poll_time,
        init_mode=0,
    )


def _header_of(found: Sequence[Popped], invisible_ms: int, *, is_ordered: bool) -> PopAnswer:
    """Return the header of an answer: the record of a message has its queue offset."""
    return PopAnswer(
        pop_time=found[0].handle.pop_time,
        invisible_time=invisible_ms,
        revive_qid=found[0].handle.serial,
        order_count_info=";".join(str(each.attempt_count - 1) for each in found),
    )


def _change_of(entry: BodyObject) -> LiteChange:
    found = entry.member("offsetOption")
    option = OffsetOption(found.text("type", "POLICY"), found.integer("value", 0))
    return LiteChange(
        action=entry.name("action", ACTIONS, ""),
        client_id=entry.text("clientId", ""),
        group=entry.text("group", ""),
        topic=entry.text("topic", ""),
        lite_topics=entry.texts("liteTopicSet"),
        option=option if found.found else None,
    )


def _tell(peer: Connection, client_id: str, group: str, light_queue: str) -> None:
    """Have a client forget a lite topic that another client has now."""
    if peer.is_open:
        header = LiteUnsubscribed(
            lite_topic=lite_topic_of(light_queue), consumer_group=group, client_id=client_id
        )
        code = RequestCode.NOTIFY_UNSUBSCRIBE_LITE
        peer.tell(Command.request(code, header, one_way=True))
