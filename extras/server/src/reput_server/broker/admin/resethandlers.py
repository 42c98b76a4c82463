"""Answers operators who move groups (222, 314).

A group goes on at its new offsets whether or not it is there: they are committed at once, consumers
in this process move, and others learn it from the answer to their next pull. Tools
older than 5.0 expect what an old broker does: it sends clients a request (220), and a group
without a client is refused with 206.

Source: RocketMQ ``AdminBrokerProcessor#resetOffset``, ``#cloneGroupOffset``, ``Broker2Client``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    CloneOffsets,
    Command,
    Language,
    QueueName,
    RequestCode,
    ResetOffset,
    ResponseCode,
    version_number,
    write_body,
)
from reput_consumer import MessageQueue, checked_group
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_client.remoting import TopicSettings
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import Client, GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_TOLD_BY_PULLS: Final = version_number(5, 0, 0) - 1
"""Version from which on a tool expects brokers to give new offsets in answers to pulls."""
_ALL_QUEUES: Final = -1
_NO_OFFSET: Final = -1

Offsets = Mapping[MessageQueue, int]


@attrs.frozen(eq=False)
class ResetHandlers:
    """The requests that move groups."""

    context: BrokerContext
    groups: GroupRegistry
    move: Callable[[str, Offsets], Awaitable[None]]
    """Moves a group; its members learn it by their next pull."""

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    async def reset(self, request: Request) -> Command:
        """Have a group go on at a time, or at an offset, and answer where that is."""
        asked: ResetOffset = request.command.header(ResetOffset)
        self.context.check_writable()
        try:
            checked_group(asked.group)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        if request.command.version < _TOLD_BY_PULLS:
            offsets = await self._tell_clients(request, asked)
        else:
            offsets = await self.context.run(self._wanted, asked)
            await self.move(asked.group, offsets)
        body = write_body({"offsetTable": _by_name(offsets)})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _wanted(self, asked: ResetOffset) -> Offsets:
        """Return the new offsets by queue; on a thread that may wait."""
        topic = self.context.topics.find(asked.topic)
        if topic is None:
            text = f"Topic {asked.topic} does not exist"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if asked.group not in self.context.plugin.groups():
            text = f"Group {asked.group} does not exist"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        queue_id = _ALL_QUEUES if asked.queue_id is None else asked.queue_id
        if queue_id < 0:
            return {queue: self._at(queue, asked.timestamp) for queue in self._queues(topic)}
        queue = self.context.queue(asked.topic, queue_id)
        if asked.offset is None or asked.offset == _NO_OFFSET:
            return {queue: self._at(queue, asked.timestamp)}
        low, high = self.context.port.bounds(queue)
        if not low <= asked.offset <= high:
            text = f"Target offset {asked.offset} not in consume queue range [{low}-{high}]"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        return {queue: asked.offset}

    def _queues(self, topic: TopicSettings) -> list[MessageQueue]:
        return [self.context.queue(topic.topic, number) for number in range(topic.read_queues)]

    def _at(self, queue: MessageQueue, timestamp: int) -> int:
        """Return the offset of a queue's first message from a time on; the end for no time."""
        low, high = self.context.port.bounds(queue)
        if timestamp < 0:
            return high
        return min(max(self.context.port.offset_by_time(queue, timestamp), low), high)

    # ------------------------------------------------------------------ for tools before 5.0

    async def _tell_clients(self, request: Request, asked: ResetOffset) -> Offsets:
        offsets = await self.context.run(self._wanted_by_old_tool, asked)
        group = self.groups.get(asked.group)
        clients = [] if group is None else list(group.clients.values())
        members = await self.context.run_in_turn(self.context.port.members, asked.group)
        if not members and not clients:
            text = (
                f"Consumer not online, so can not reset offset, Group: {asked.group} "
                f"Topic: {asked.topic} Timestamp: {asked.timestamp}"
            )
            raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, text)
        await self.context.run(self.context.plugin.move_group, asked.group, offsets)
        for client in clients:
            client.peer.tell(_told(client, request.command.language, asked, offsets))
        return offsets

    def _wanted_by_old_tool(self, asked: ResetOffset) -> Offsets:
        topic = self.context.topics.find(asked.topic)
        if topic is None:
            text = "[reset-offset] reset offset failed, no topic in this broker. topic="
            raise Refusal(ResponseCode.SYSTEM_ERROR, text + asked.topic)
        offsets = {}
        for queue in self._queues(topic):
            offset = self._at(queue, asked.timestamp)
            committed = self.context.port.committed(asked.group, queue)
            # Forward only if the request wants that.
            is_moved = asked.is_force or committed is None or offset < committed
            offsets[queue] = offset if is_moved or committed is None else committed
        return offsets

    # ------------------------------------------------------------------ one group as another

    async def clone(self, request: Request) -> Command:
        """Have a group go on where another one is."""
        asked: CloneOffsets = request.command.header(CloneOffsets)
        self.context.check_writable()
        try:
            checked_group(asked.src_group)
            checked_group(asked.dest_group)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        source = self.groups.get(asked.src_group)
        read = None if source is None or asked.offline else set(source.subscriptions)
        await self.context.run(self._clone, asked, read)
        return request.command.answer(ResponseCode.SUCCESS)

    def _clone(self, asked: CloneOffsets, read: set[str] | None) -> None:
        """Copy offsets, of the topics in ``read`` if it is not None; on a thread that may wait."""
        found = {
            self.context.queue(topic, queue_id): offset
            for (topic, queue_id), offset in self.context.plugin.port.offsets.of_group(
                asked.src_group
            ).items()
            if (not asked.topic or topic == asked.topic)
            and (read is None or topic in read)
            and self.context.topics.find(topic) is not None
        }
        if found:
            self.context.plugin.move_group(asked.dest_group, found)


def _by_name(offsets: Offsets) -> dict[QueueName, int]:
    return {QueueName(*queue): offset for queue, offset in offsets.items()}


def _told(client: Client, asker: Language, asked: ResetOffset, offsets: Offsets) -> Command:
    """Return the request that gives a client its new offsets."""
    table: object = _by_name(offsets)
    if Language.CPP in (client.language, asker):
        table = list(_for_cpp(offsets.items()))
    header = ResetOffset(
        topic=asked.topic, group=asked.group, timestamp=asked.timestamp, is_force=asked.is_force
    )
    return Command.request(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        header,
        body=write_body({"offsetTable": table}),
        one_way=True,
    )


def _for_cpp(offsets: Iterable[tuple[MessageQueue, int]]) -> Iterable[dict[str, object]]:
    for queue, offset in offsets:
        yield {
            "brokerName": queue.broker,
            "offset": offset,
            "queueId": queue.queue_id,
            "topic": queue.topic,
        }
