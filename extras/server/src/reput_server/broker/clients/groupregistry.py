"""`GroupRegistry`: the clients of each consumer group, and of each producer group.

Consumers are also members of the store's groups, so that consumers in this process and those behind
connections share queues out.

Source: RocketMQ ``ConsumerManager``, ``ConsumerGroupInfo``, ``ProducerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import ReputError
from reput_client.remoting import ConsumerData, Subscription
from reput_consumer import MemberExistsError, Selector, subscriptions_of
from reput_server.broker.clients.groupnotifier import GroupNotifier

if TYPE_CHECKING:
    from reput_client.remoting import Heartbeat, Language
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Connection

logger = logging.getLogger(__name__)

EXPIRY_MS: Final = 120_000
BROADCASTING: Final = "BROADCASTING"


@attrs.define(eq=False)
class Client:
    """One client of a group, at one connection."""

    client_id: str
    peer: Connection
    language: Language
    version: int
    last: int
    """When its last heartbeat came, ms."""


@attrs.define(eq=False, repr=False)
class ConsumerGroup:
    """The clients of a consumer group."""

    name: str
    data: ConsumerData
    """What the last heartbeat has said of the group."""
    clients: dict[str, Client] = attrs.field(factory=dict)
    subscriptions: dict[str, Subscription] = attrs.field(factory=dict)
    """By topic; the newest that any client has sent."""
    joined: dict[str, object] = attrs.field(factory=dict)
    """What each client has said of itself when it joined, by client id."""

    def subscription(self, topic: str) -> Subscription | None:
        """Return what the group wants of a topic."""
        return self.subscriptions.get(topic)

    def update(self, data: ConsumerData) -> None:
        """Take over what a client says."""
        self.data = data
        kept = {}
        for each in data.subscriptions:
            known = self.subscriptions.get(each.topic)
            kept[each.topic] = each if known is None or each.version > known.version else known
        self.subscriptions = kept


@attrs.define(eq=False, repr=False)
class GroupRegistry:
    """All groups with clients. Used on the event loop, but for the calls of the store."""

    context: BrokerContext
    produces: Callable[[str], None] = lambda group: None
    """Called with a producer group that has a client for the first time."""
    consumers: dict[str, ConsumerGroup] = attrs.field(init=False, factory=dict)
    producers: dict[str, dict[str, Client]] = attrs.field(init=False, factory=dict)
    """Clients by producer group and client id."""

    def get(self, group: str) -> ConsumerGroup | None:
        """Return a consumer group with clients; None if it has none."""
        return self.consumers.get(group)

    def by_client_id(self, client_id: str) -> Client | None:
        """Return a client that produces."""
        for clients in self.producers.values():
            if client_id in clients:
                return clients[client_id]
        return None

    async def take(self, heartbeat: Heartbeat, client: Client) -> None:
        """Note what a client says of itself."""
        for group in heartbeat.producer_groups:
            if group not in self.producers:
                self.produces(group)
            self.producers.setdefault(group, {})[heartbeat.client_id] = client
            client.peer.remember(
                ("producer", group, client.client_id),
                self._leaver(self.drop_producer, group, client),
            )
        for data in heartbeat.consumers:
            await self._take_consumer(data, client)

    async def _take_consumer(self, data: ConsumerData, client: Client) -> None:
        group = self.consumers.get(data.group)
        if group is None:
            group = self.consumers[data.group] = ConsumerGroup(data.group, data)
        before = group.clients.get(client.client_id)
        group.update(data)
        said = (
            data.message_model,
            {(each.topic, each.expression, each.expression_type) for each in data.subscriptions},
        )
        has_changed = (
            before is None
            or before.peer is not client.peer
            or group.joined.get(client.client_id) != said
        )
        group.clients[client.client_id] = client
        group.joined[client.client_id] = said
        leave = self._leaver(self.drop_consumer, data.group, client)
        client.peer.remember(("consumer", data.group, client.client_id), leave)
        # A client that has gone meanwhile has left already, and would stay for ever.
        if has_changed and client.peer.is_open:
            # The store notifies all members, this one among them: its connection may be a new one.
            try:
                await self.context.run_in_turn(self._join, data, client)
            except OSError:
                self.drop_consumer(data.group, client.client_id, client.peer)
                raise  # the next heartbeat tries again

    def _leaver(
        self, drop: Callable[[str, str, Connection], None], group: str, client: Client
    ) -> Callable[[], None]:
        return lambda: drop(group, client.client_id, client.peer)

    def drop_producer(self, group: str, client_id: str, peer: Connection) -> None:
        """Forget a client of a producer group, if it still is at that connection."""
        clients = self.producers.get(group, {})
        if client_id in clients and clients[client_id].peer is peer:
            del clients[client_id]
            if not clients:
                del self.producers[group]
        peer.forget(("producer", group, client_id))

    def drop_consumer(self, group: str, client_id: str, peer: Connection) -> None:
        """Forget a client of a consumer group, if it still is at that connection."""
        found = self.consumers.get(group)
        if found is None or client_id not in found.clients:
            return
        if found.clients[client_id].peer is not peer:
            return
        del found.clients[client_id]
        found.joined.pop(client_id, None)
        if not found.clients:
            del self.consumers[group]
        peer.forget(("consumer", group, client_id))
        self.context.serial.submit(self.context.port.leave, group, client_id)

    def expire(self, now: int) -> None:
        """Forget clients that were silent for too long."""
        for name, group in list(self.consumers.items()):
            for client in _silent(group.clients.values(), now):
                self.drop_consumer(name, client.client_id, client.peer)
        for name, clients in list(self.producers.items()):
            for client in _silent(clients.values(), now):
                self.drop_producer(name, client.client_id, client.peer)

    # ------------------------------------------------------------------ members of the store

    async def join_again(self, name: str) -> None:
        """Have the clients of a group join the store's group once more: they pop now, or pull."""
        group = self.consumers.get(name)
        if group is not None:
            clients = list(group.clients.values())
            await self.context.run_in_turn(self._join_again, group.data, clients)

    def _join_again(self, data: ConsumerData, clients: list[Client]) -> None:
        for client in clients:  # before any joins: a group has members of one kind
            self.context.port.leave(data.group, client.client_id)
        for client in clients:
            if client.peer.is_open:
                self._join(data, client)

    def _join(self, data: ConsumerData, client: Client) -> None:
        """Make a client a member of the store's group; on a thread that may wait."""
        port = self.context.plugin.port
        selectors = {each.topic: Selector() for each in data.subscriptions}

        changed = GroupNotifier(self.context.loop, client.peer, data.group).changed
        broadcast = data.message_model == BROADCASTING
        try:
            port.leave(data.group, client.client_id)  # at another connection, or for other topics
            port.join(
                data.group,
                client.client_id,
                selectors,
                changed,
                broadcast=broadcast,
                mixed=True,  # as RocketMQ, which leaves it to its users
                subscriptions=subscriptions_of(
                    {
                        each.topic: Selector(each.expression, each.expression_type)
                        for each in data.subscriptions
                    }
                ),
                pops=self.context.plugin.popper.modes.pops(data.group),
                commits=self.context.is_writable,
            )
        except MemberExistsError:
            logger.warning("two clients have one id group=%s id=%s", data.group, client.client_id)
        except ReputError as error:
            logger.warning("client not in its group group=%s error=%s", data.group, error)
        changed()


def _silent(clients: Iterable[Client], now: int) -> list[Client]:
    return [each for each in clients if now - each.last > EXPIRY_MS]
