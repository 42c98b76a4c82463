"""Answers which queues a topic has, and which of them a consumer is to read.

Source: RocketMQ ``RouteActivity``.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_server.broker.litenames import bound_topic
from reput_server.grpc.messagetypes import Code, MessageType, Permission, Refused, m, status
from reput_server.grpc.namespaces import group_of, topic_of

if TYPE_CHECKING:
    from reput_client.remoting import Address, TopicSettings
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.grpc.caller import Caller

_ATTRIBUTE: Final = "message.type"
_MIXED: Final = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
)
_READ: Final = 4
_WRITE: Final = 2
_ADDRESSES_MAX: Final = 8
_HOST_MAX: Final = 255  # characters, of a name in DNS


def types_of(topic: TopicSettings) -> tuple[MessageType, ...]:
    """Return the types of messages that a topic takes."""
    return _types_named(topic.attributes.get(_ATTRIBUTE, "NORMAL"))


@lru_cache(maxsize=64)  # each send needs it
def _types_named(name: str) -> tuple[MessageType, ...]:
    name = name.upper()
    if name in ("MIXED", "UNSPECIFIED"):
        return _MIXED
    return (MessageType.__members__.get(name, MessageType.NORMAL),)


@attrs.define(eq=False, repr=False)
class RouteCalls:
    """The calls about routes."""

    context: BrokerContext
    address: Address
    """What clients are to dial that do not say what they dialled, or if it is advertised."""

    def endpoints(self, dialled: Any) -> Any:
        """Return the address that a client gets: that it has dialled, unless one is advertised.

        Each queue has a copy, so what a client may say is bounded, and only known fields are taken.
        """
        named = dialled.addresses
        is_short = 0 < len(named) <= _ADDRESSES_MAX
        is_short = is_short and all(0 < len(each.host) <= _HOST_MAX for each in named)
        if self.context.config.advertise is None and is_short:
            copies = [m.Address(host=each.host, port=each.port) for each in named]
            return m.Endpoints(scheme=dialled.scheme, addresses=copies)
        host, port = self.address
        try:
            scheme = 1 if ipaddress.ip_address(host).version == 4 else 2
        except ValueError:
            scheme = 3
        return m.Endpoints(scheme=scheme, addresses=[m.Address(host=host, port=port)])

    async def topic(self, name: str) -> TopicSettings:
        """Return a topic's settings.

        Raises:
            Refused: it does not exist.
        """
        topics = self.context.topics
        found = topics.known(name) or await self.context.run(topics.find, name)
        if found is None:
            text = f"topic {name!r} does not exist; `reput topics create` creates it"
            raise Refused(Code.TOPIC_NOT_FOUND, text)
        return found

    @staticmethod
    def _resource(topic: Any) -> Any:
        return m.Resource(resource_namespace=topic.resource_namespace, name=topic.name)

    async def query_route(self, caller: Caller, request: Any) -> Any:
        """Answer with all queues of a topic."""
        topic = await self.topic(topic_of(request.topic))
        response = m.QueryRouteResponse(status=status())
        broker = m.Broker(name=self.context.name, id=0, endpoints=self.endpoints(request.endpoints))
        named, types = self._resource(request.topic), types_of(topic)
        allowed = topic.permissions & self.context.options.permissions
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            reads = bool(allowed & _READ) and queue_id < topic.read_queues
            writes = bool(allowed & _WRITE) and queue_id < topic.write_queues
            response.message_queues.add(
                topic=named,
                id=queue_id,
                permission=_PERMISSIONS[reads, writes],
                broker=broker,
                accept_message_types=types,
            )
        return response

    async def query_assignment(self, caller: Caller, request: Any) -> Any:
        """Answer with the sources of a consumer: the broker, or each of its queues in order."""
        topic, group = await self.topic(topic_of(request.topic)), group_of(request.group)
        if not topic.permissions & _READ or topic.read_queues < 1:
            raise Refused(Code.FORBIDDEN, f"topic {topic.topic!r} has no queue that can be read")
        settings = self.context.plugin.subscription_groups.get(group)
        is_ordered = settings is not None and settings.consume_message_orderly
        # A group of lite topics asks for all of them together.
        is_ordered = is_ordered and bound_topic(settings) is None
        response = m.QueryAssignmentResponse(status=status())
        permission = _PERMISSIONS[True, bool(topic.permissions & _WRITE)]
        named = self._resource(request.topic)
        broker = m.Broker(name=self.context.name, id=0, endpoints=self.endpoints(request.endpoints))
        for queue_id in range(topic.read_queues) if is_ordered else (-1,):
            response.assignments.add().message_queue.MergeFrom(
                m.MessageQueue(
                    topic=named,
                    id=queue_id,
                    permission=permission,
                    broker=broker,
                )
            )
        return response


_PERMISSIONS: Final = {
    (False, False): Permission.NONE,
    (True, False): Permission.READ,
    (False, True): Permission.WRITE,
    (True, True): Permission.READ_WRITE,
}
