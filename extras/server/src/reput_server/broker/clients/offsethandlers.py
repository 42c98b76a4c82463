"""Answers how far groups are, and which offsets queues have.

Source: RocketMQ ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import attrs

from reput_client.remoting import (
    Command,
    GroupOffset,
    OffsetAnswer,
    OffsetByTime,
    QueueOf,
    RequestCode,
    ResponseCode,
    TimestampAnswer,
    UpdateGroupOffset,
)
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.pendingresets import PendingResets
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler


@attrs.frozen(eq=False)
class OffsetHandlers:
    """Offsets of groups and of queues."""

    context: BrokerContext
    marks: PendingResets

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.committed,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.commit,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.by_time,
            RequestCode.GET_MAX_OFFSET: self.maximum,
            RequestCode.GET_MIN_OFFSET: self.minimum,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest,
        }

    async def committed(self, request: Request) -> Command:
        """Answer how far a group is; from the beginning if it is new and the topic is young."""
        asked: GroupOffset = request.command.header(GroupOffset)
        found = await self.context.run(self._committed, asked)
        if found is None:
            text = "Not found, maybe this group consumer boot first"
            if asked.set_zero_if_not_found is False:
                text = "Not found, do not set to zero, maybe this group boot first"
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, text)
        return request.command.answer(ResponseCode.SUCCESS, OffsetAnswer(offset=found))

    def _committed(self, asked: GroupOffset) -> int | None:
        queue = self.context.queue(asked.topic, asked.queue_id)
        found = self.context.port.committed(asked.consumer_group, queue)
        if found is not None:
            return found
        first, following = self.context.port.bounds(queue)
        # A topic that was deleted and recreated goes on at the next queue offset: there it begins.
        begin = self.context.plugin.deleted.floor(asked.topic, asked.queue_id)
        is_young = first <= begin < following
        return begin if is_young and asked.set_zero_if_not_found is not False else None

    async def commit(self, request: Request) -> Command:
        """Note how far a group is."""
        asked: UpdateGroupOffset = request.command.header(UpdateGroupOffset)
        self.context.check_writable()
        await self._check_known(asked)
        if self.marks.has(asked.consumer_group, asked.topic, asked.queue_id):
            text = "Offset has been previously reset"
            return request.command.answer(ResponseCode.SUCCESS, remark=text)
        port = self.context.plugin.port
        is_start = port.offsets.get(asked.consumer_group, asked.topic, asked.queue_id) is None
        queue = self.context.queue(asked.topic, asked.queue_id)
        offsets = {queue: asked.commit_offset}
        try:
            # Noted in memory, and here: on threads, an offset could overtake a newer one.
            port.commit(asked.consumer_group, offsets)
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if is_start:
            # Where a group begins is durable before its client pulls: after a kill of both, the
            # group would begin at an end that has moved.
            await self.context.run(port.save)
        return request.command.answer(ResponseCode.SUCCESS)

    async def _check_known(self, asked: UpdateGroupOffset) -> None:
        context = self.context
        known = context.topics.known(asked.topic)
        if known is None and await context.run(context.topics.find, asked.topic) is None:
            # Members of a deleted topic's groups commit for a while what they had.
            text = f"Topic {asked.topic} not exist!"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if context.plugin.subscription_groups.get(asked.consumer_group) is None:
            text = f"Group {asked.consumer_group} not exist!"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)

    async def by_time(self, request: Request) -> Command:
        """Answer the offset of the first message from a time on, or of the last until then."""
        asked: OffsetByTime = request.command.header(OffsetByTime)
        is_upper = (asked.boundary_type or "lower").lower() == "upper"
        boundary: Literal["lower", "upper"] = "upper" if is_upper else "lower"
        key = asked.topic, asked.queue_id
        offset = await self.context.run(
            self.context.store.offset_by_time, *key, asked.timestamp, boundary
        )
        offset = max(offset, self.context.plugin.deleted.floor(*key))
        return request.command.answer(ResponseCode.SUCCESS, OffsetAnswer(offset=offset))

    async def maximum(self, request: Request) -> Command:
        """Answer the offset of a queue's next message."""
        _, following = await self._bounds(request)
        return request.command.answer(ResponseCode.SUCCESS, OffsetAnswer(offset=following))

    async def minimum(self, request: Request) -> Command:
        """Answer the offset of a queue's first message."""
        first, _ = await self._bounds(request)
        return request.command.answer(ResponseCode.SUCCESS, OffsetAnswer(offset=first))

    async def _bounds(self, request: Request) -> tuple[int, int]:
        asked: QueueOf = request.command.header(QueueOf)
        queue = self.context.queue(asked.topic, asked.queue_id)
        return await self.context.run(self.context.port.bounds, queue)

    async def earliest(self, request: Request) -> Command:
        """Answer when a queue's first message was stored."""
        asked: QueueOf = request.command.header(QueueOf)
        timestamp = await self.context.run(self._earliest, asked)
        return request.command.answer(ResponseCode.SUCCESS, TimestampAnswer(timestamp=timestamp))

    def _earliest(self, asked: QueueOf) -> int:
        key, port = (asked.topic, asked.queue_id), self.context.plugin.port
        first, _ = port.bounds(self.context.queue(*key))
        messages = port.read(*key, first, 1).messages
        return messages[0].store_timestamp if messages else -1
