"""Heartbeats and departures of clients, and their requests about groups.

Source: RocketMQ ``ClientManageProcessor``, ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    BodyObject,
    Command,
    GroupOf,
    Heartbeat,
    QueueLocks,
    QueueName,
    RequestCode,
    ResponseCode,
    Unregister,
    encode_locked,
    subscription_of,
    write_body,
)
from reput_consumer import MessageQueue, checked_group
from reput_server.broker.clients.groupregistry import Client, GroupRegistry
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.pullfilters import Filters
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_GROUPS_MAX: Final = 1_000
_TOPICS_MAX: Final = 10_000


@attrs.frozen(eq=False)
class MemberHandlers:
    """Heartbeats, members and locks."""

    context: BrokerContext
    groups: GroupRegistry
    filters: Filters

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.members,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
            RequestCode.CHECK_CLIENT_CONFIG: self.check,
        }

    async def heartbeat(self, request: Request) -> Command:
        """Note a client's groups, and what they want."""
        command = request.command
        now = self.context.clock()
        heartbeat = Heartbeat.decode(command.body, now)
        self.groups.expire(now)
        client = Client(heartbeat.client_id, request.peer, command.language, command.version, now)
        _check(heartbeat)
        if self.context.is_writable and heartbeat.consumers:
            names = [each.group for each in heartbeat.consumers]
            await self.context.run_in_turn(self._ensure, names)
        await self.groups.take(heartbeat, client)
        return command.answer(ResponseCode.SUCCESS)

    def _ensure(self, groups: list[str]) -> None:
        """Have settings and a retry topic for each group; on a thread that may wait."""
        for group in groups:
            self.context.plugin.subscription_groups.ensure(group)

    async def unregister(self, request: Request) -> Command:
        """Forget a client's groups."""
        asked: Unregister = request.command.header(Unregister)
        if asked.producer_group is not None:
            self.groups.drop_producer(asked.producer_group, asked.client_id, request.peer)
        if asked.consumer_group is not None:
            self.groups.drop_consumer(asked.consumer_group, asked.client_id, request.peer)
        return request.command.answer(ResponseCode.SUCCESS)

    async def members(self, request: Request) -> Command:
        """Answer the ids of a group's clients, and of its consumers in this process."""
        asked: GroupOf = request.command.header(GroupOf)
        ids = await self.context.run_in_turn(self.context.port.members, asked.consumer_group)
        if not ids:
            text = f"no consumer for this group, {asked.consumer_group}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        body = write_body({"consumerIdList": sorted(ids)})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def lock(self, request: Request) -> Command:
        """Lock queues for one client of a group."""
        asked = QueueLocks.decode(request.command.body)
        queues = [MessageQueue(*each) for each in sorted(asked.queues)]
        locked = await self.context.run(
            self.context.port.lock, asked.group, asked.client_id, queues
        )
        body = encode_locked(QueueName(*each) for each in locked)
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def unlock(self, request: Request) -> Command:
        """Give locks back."""
        asked = QueueLocks.decode(request.command.body)
        queues = [MessageQueue(*each) for each in sorted(asked.queues)]
        await self.context.run(self.context.port.unlock, asked.group, asked.client_id, queues)
        return request.command.answer(ResponseCode.SUCCESS)

    async def check(self, request: Request) -> Command:
        """Answer whether a subscription would be understood."""
        found = BodyObject.of(request.command.body, "client config")
        subscription = subscription_of(found.member("subscriptionData"))
        selector = self.filters.selector_of(subscription.expression, subscription.expression_type)
        await self.context.run(self.filters.compiled, subscription.topic, selector)
        return request.command.answer(ResponseCode.SUCCESS)


def _check(heartbeat: Heartbeat) -> None:
    """Refuse what no client is: each group is kept, and consumer groups in a file."""
    topics = sum(len(each.subscriptions) for each in heartbeat.consumers)
    groups = max(len(heartbeat.producer_groups), len(heartbeat.consumers))
    if groups > _GROUPS_MAX or topics > _TOPICS_MAX:
        text = f"a heartbeat of {groups} groups and {topics} topics"
        most = f"{_GROUPS_MAX} and {_TOPICS_MAX} are the most"
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{text}; {most}")
    try:
        for each in heartbeat.consumers:
            checked_group(each.group)
    except ValueError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
