"""Answers which queues a member of a group is to read, and whether by pull or by pop (400, 401).

Clients with ``setClientRebalance(false)`` send this. They get queues of this broker alone.

Source: RocketMQ ``QueryAssignmentProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    AssignmentOf,
    ModeOf,
    QueueName,
    RequestCode,
    ResponseCode,
    encode_assignments,
)
from reput_consumer import Average, Circle, MessageQueue, RequestMode
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_client.remoting import Command
    from reput_consumer import ConsumerBackend
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_STRATEGIES: Final = {each.name: each for each in (Average(), Circle())}
_ANY: Final = -1
"""In the place of a queue id: any queue of the broker."""
_RETRY: Final = "%RETRY%"
_SHARE_MAX: Final = 10_000


@attrs.frozen(eq=False)
class AssignHandlers:
    """The requests about who reads what."""

    context: BrokerContext
    groups: GroupRegistry

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
        }

    async def query(self, request: Request) -> Command:
        """Answer the queues of one member."""
        asked = AssignmentOf.decode(request.command.body)
        mode = self.context.plugin.popper.modes.get(asked.topic, asked.group)
        queues = await self.context.run_in_turn(self._assigned, asked, mode)
        named = None if queues is None else [QueueName(*each) for each in queues]
        body = encode_assignments(named, pops=mode.pops)
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _assigned(self, asked: AssignmentOf, mode: RequestMode) -> Sequence[MessageQueue] | None:
        """Return the queues of one member; None if it is to keep those it has."""
        port: ConsumerBackend = self.context.port
        topic = self.context.topics.known(asked.topic) or self.context.topics.find(asked.topic)
        strategy = _STRATEGIES.get(asked.strategy)
        if topic is None or strategy is None:
            return None
        queues = [self.context.queue(asked.topic, each) for each in range(topic.read_queues)]
        if asked.is_broadcasting:
            return queues
        members = sorted(port.members(asked.group))
        if not members:
            return None
        if not mode.pops:
            return strategy.allocate(asked.client_id, queues, members)
        count = mode.share_queues
        if count <= 0 or count >= len(members) - 1:
            return [self.context.queue(asked.topic, _ANY)]
        if asked.client_id not in members:
            return []
        place = members.index(asked.client_id)
        if len(members) > len(queues):
            return [queues[place % len(queues)]]
        sharing = [members[(place + at) % len(members)] for at in range(count + 1)]
        found = [strategy.allocate(each, queues, members) for each in sharing]
        return [queue for each in found for queue in each]

    async def set_mode(self, request: Request) -> Command:
        """Note whether a group pops a topic."""
        asked = ModeOf.decode(request.command.body)
        context = self.context
        context.check_writable()
        if asked.topic.startswith(_RETRY):
            raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if await context.run(context.topics.find, asked.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        if context.plugin.subscription_groups.get(asked.group) is None:
            text = "subscription group does not exist"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        mode = RequestMode(pops=asked.pops, share_queues=min(asked.share_queues, _SHARE_MAX))
        await context.run(context.plugin.popper.modes.put, asked.topic, asked.group, mode)
        await self.groups.join_again(asked.group)
        return request.command.answer(ResponseCode.SUCCESS)
