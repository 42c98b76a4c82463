"""Requests of operators about groups (200, 201, 203, 204, 208, 225, 328, 352).

Source: RocketMQ ``AdminBrokerProcessor``, ``SubscriptionGroupManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from reput_client.remoting import (
    BodyObject,
    Command,
    ConsumeStatsOf,
    GroupNamed,
    GroupOf,
    ProducerGroupOf,
    RequestCode,
    ResponseCode,
    write_body,
)
from reput_consumer import GroupSettings, checked_group
from reput_server.broker.admin.consumestats import consumption
from reput_server.broker.admin.groupattributes import changed_attributes
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import Client, GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler


@attrs.frozen(eq=False)
class GroupHandlers:
    """The requests of operators about groups."""

    context: BrokerContext
    groups: GroupRegistry

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.put_many,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.one,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.GET_CONSUME_STATS: self.progress,
        }

    async def put(self, request: Request) -> Command:
        """Make a group, or change what may be done with it."""
        found = BodyObject.of(request.command.body, "subscription group")
        return await self._put(request, [found])

    async def put_many(self, request: Request) -> Command:
        """Make groups, or change what may be done with them; none of them if one cannot be."""
        found = BodyObject.of(request.command.body, "subscription groups")
        return await self._put(request, found.objects("groupConfigList"))

    async def _put(self, request: Request, found: list[BodyObject]) -> Command:
        self.context.check_writable()
        try:
            await self.context.run_in_turn(self._put_now, found)
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return request.command.answer(ResponseCode.SUCCESS)

    def _put_now(self, found: list[BodyObject]) -> None:
        """Change groups, in turn: each change begins with the attributes of the one before."""
        groups = self.context.plugin.subscription_groups
        groups.put_many([_settings_of(each, groups.get) for each in found])

    async def all(self, request: Request) -> Command:
        """Answer the settings of all groups."""
        groups = self.context.plugin.subscription_groups
        found = [(name, groups.get(name)) for name in sorted(groups.names())]
        table = {name: _members(each) for name, each in found if each is not None}
        version = self.context.data_version_of("groups", write_body(table))
        body = write_body(
            {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": table}
        )
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def one(self, request: Request) -> Command:
        """Answer the settings of one group."""
        asked: GroupNamed = request.command.header(GroupNamed)
        found = await self.context.run_in_turn(self.context.group, asked.group)
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(_members(found)))

    async def connections(self, request: Request) -> Command:
        """Answer the clients of a consumer group, and what they want."""
        asked: GroupOf = request.command.header(GroupOf)
        group = self.groups.get(asked.consumer_group)
        if group is None:
            text = f"the consumer group[{asked.consumer_group}] not online"
            raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, text)
        body = write_body(
            {
                "connectionSet": _connections(group.clients.values()),
                "consumeFromWhere": group.data.consume_from,
                "consumeType": group.data.consume_type,
                "messageModel": group.data.message_model,
                "subscriptionTable": {
                    topic: each.members() for topic, each in group.subscriptions.items()
                },
            }
        )
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def producers(self, request: Request) -> Command:
        """Answer the clients of a producer group."""
        asked: ProducerGroupOf = request.command.header(ProducerGroupOf)
        clients = self.groups.producers.get(asked.producer_group)
        if not clients:
            text = f"the producer group[{asked.producer_group}] not exist"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        body = write_body({"connectionSet": _connections(clients.values())})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def all_producers(self, request: Request) -> Command:
        """Answer the clients of all producer groups."""
        table = {
            group: [_producer(client) for client in clients.values()]
            for group, clients in self.groups.producers.items()
        }
        return request.command.answer(ResponseCode.SUCCESS, body=write_body({"data": table}))

    async def progress(self, request: Request) -> Command:
        """Answer how far a group is in each queue."""
        asked: ConsumeStatsOf = request.command.header(ConsumeStatsOf)
        try:
            checked_group(asked.consumer_group)
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
        wanted = set(filter(None, [asked.topic, *(asked.topic_list or "").split(";")]))
        table = await self.context.run(
            consumption, self.context, self.groups, asked.consumer_group, wanted
        )
        topics = {queue.topic for queue in table}
        rate = self.context.statistics.get_rate_of(asked.consumer_group, topics)
        body = write_body({"consumeTps": rate, "offsetTable": table})
        return request.command.answer(ResponseCode.SUCCESS, body=body)


def _settings_of(found: BodyObject, known: Callable[[str], GroupSettings | None]) -> GroupSettings:
    """Return the settings of a group.

    Raises:
        BodyError: a member is missing, or of another type.
        ValueError: a name that no group can have, or an attribute that groups do not have.
    """
    name = checked_group(found.text("groupName"))
    before = known(name)
    return GroupSettings(
        group=name,
        attributes=changed_attributes(
            {} if before is None else before.attributes, found.member("attributes")
        ),
        consume_enable=found.flag("consumeEnable", default=True),
        consume_broadcast_enable=found.flag("consumeBroadcastEnable", default=True),
        consume_message_orderly=found.flag("consumeMessageOrderly", default=False),
        retry_queue_nums=found.integer("retryQueueNums", 1, bits=32),
        retry_max_times=found.integer("retryMaxTimes", 16, bits=32),
    )


def _members(settings: GroupSettings) -> dict[str, object]:
    return {
        "attributes": dict(settings.attributes),
        "brokerId": 0,
        "consumeBroadcastEnable": settings.consume_broadcast_enable,
        "consumeEnable": settings.consume_enable,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": settings.consume_message_orderly,
        "consumeTimeoutMinute": 15,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "groupName": settings.group,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": settings.retry_max_times,
        "retryQueueNums": settings.retry_queue_nums,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def _connections(clients: Iterable[Client]) -> list[dict[str, object]]:
    return [
        {
            "clientAddr": "{}:{}".format(*client.peer.address),
            "clientId": client.client_id,
            "language": client.language.name,
            "version": client.version,
        }
        for client in clients
    ]


def _producer(client: Client) -> dict[str, object]:
    return {
        "clientId": client.client_id,
        "language": client.language.name,
        "lastUpdateTimestamp": client.last,
        "remoteIP": "{}:{}".format(*client.peer.address),
        "version": client.version,
    }
