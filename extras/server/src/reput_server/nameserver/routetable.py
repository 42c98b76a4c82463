"""`RouteTable`: brokers, their topics, and settings by namespace; all in memory.

Source: RocketMQ ``RouteInfoManager`` and ``KVConfigManager``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import attrs

from reput_client.remoting import (
    MASTER_ID,
    BrokerData,
    QueueData,
    Registration,
    TopicRoute,
    TopicSettings,
)

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
WRITE: Final = 2
_TIMEOUT_MS: Final = 120_000


class RegisteredBroker(Protocol):
    """The broker of this process, which need not register."""

    @property
    def data(self) -> BrokerData:
        """Its name, its cluster and its address."""
        ...

    @property
    def ha_address(self) -> str:
        """``HOST:PORT`` at which its slaves get the log; empty if they get it nowhere."""
        ...

    def topics(self) -> Mapping[str, TopicSettings]:
        """Return all its topics."""
        ...

    async def topic(self, name: str) -> TopicSettings | None:
        """Return one of its topics; None if it has no such topic."""
        ...

    async def look(self) -> Mapping[str, TopicSettings]:
        """Return all its topics, including the newest ones."""
        ...


@attrs.define(eq=False, repr=False)
class _Live:
    """One address that registered."""

    broker: str
    broker_id: int
    last: int
    timeout_ms: int
    version: Mapping[str, int]
    ha_address: str


@attrs.define(eq=False, repr=False)
class RouteTable:
    """What brokers have registered. Used on the event loop only."""

    local: RegisteredBroker | None = None
    entries: dict[str, dict[str, str]] = attrs.field(init=False, factory=dict)
    """Settings by namespace and key."""
    _brokers: dict[str, BrokerData] = attrs.field(init=False, factory=dict)
    _queues: dict[str, dict[str, QueueData]] = attrs.field(init=False, factory=dict)
    """By topic and broker name."""
    _live: dict[str, _Live] = attrs.field(init=False, factory=dict)
    """By address."""
    _unwritable: set[str] = attrs.field(init=False, factory=set)
    """Brokers from which the permission to write was taken."""

    # ------------------------------------------------------------------ registering

    def register(
        self,
        data: BrokerData,
        registration: Registration,
        now: int,
        *,
        timeout_ms: int | None = None,
        ha_address: str = "",
    ) -> None:
        """Note a broker, and its topics if it is a master whose topics have changed.

        Args:
            data: cluster, name, and the one address that registers.
            registration: its topics.
            now: ms.
            timeout_ms: how long it may be silent; two minutes when left out.
            ha_address: where its slaves fetch from it.
        """
        ((broker_id, address),) = data.addresses.items()
        known = self._brokers.get(data.broker)
        # An address has one id: a slave that was made master registers with its new one.
        others = {} if known is None else dict(known.addresses)
        others = {key: each for key, each in others.items() if each != address}
        self._brokers[data.broker] = attrs.evolve(data, addresses={**others, broker_id: address})
        before = self._live.get(address)
        if broker_id == MASTER_ID and (
            before is None or not registration.version or before.version != registration.version
        ):
            for name, topic in registration.topics.items():
                self._queues.setdefault(name, {})[data.broker] = queues_of(topic, data.broker)
        self._live[address] = _Live(
            data.broker,
            broker_id,
            now,
            timeout_ms or _TIMEOUT_MS,
            registration.version,
            ha_address,
        )

    def touch(self, address: str, now: int) -> _Live | None:
        """Note that a broker is still there; return it, None if it is not known."""
        found = self._live.get(address)
        if found is not None:
            found.last = now
        return found

    def unregister(self, broker: str, address: str) -> None:
        """Drop an address; with its last one, the broker and its queues."""
        self._live.pop(address, None)
        known = self._brokers.get(broker)
        if known is None:
            return
        left = {key: each for key, each in known.addresses.items() if each != address}
        if left:
            self._brokers[broker] = attrs.evolve(known, addresses=left)
            return
        del self._brokers[broker]
        self._unwritable.discard(broker)
        for topic in list(self._queues):
            self._queues[topic].pop(broker, None)
            if not self._queues[topic]:
                del self._queues[topic]

    def expire(self, now: int) -> None:
        """Drop brokers that were silent for too long."""
        for address, live in list(self._live.items()):
            if now - live.last > live.timeout_ms:
                self.unregister(live.broker, address)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic of registered brokers, or of those of one cluster."""
        queues = self._queues.get(topic, {})
        for broker in list(queues):
            data = self._brokers.get(broker)
            if cluster is None or (data is not None and data.cluster == cluster):
                del queues[broker]
        if not queues:
            self._queues.pop(topic, None)

    def add_route(self, topic: str, route: TopicRoute) -> None:
        """Note queues of a topic at brokers that are known."""
        for each in route.queues:
            if each.broker in self._brokers:
                self._queues.setdefault(topic, {})[each.broker] = each

    def set_writable(self, broker: str, *, is_writable: bool) -> int:
        """Give or take the permission to write to a broker; return how many topics it has."""
        (self._unwritable.discard if is_writable else self._unwritable.add)(broker)
        return sum(1 for name, _ in self._all_queues() if name == broker)

    # ------------------------------------------------------------------ reading

    async def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic; None if no broker has it."""
        queues = dict(self._queues.get(topic, {}))
        if self.local is not None:
            settings = await self.local.topic(topic)
            if settings is not None:
                name = self.local.data.broker
                queues[name] = queues_of(settings, name)
        brokers = self.brokers()
        found = [self._permitted(each) for name, each in queues.items() if name in brokers]
        if not found:
            return None
        return TopicRoute(
            queues=tuple(found),
            brokers=tuple(brokers[each.broker] for each in found),
            order=self.entries.get(ORDER_NAMESPACE, {}).get(topic),
        )

    def brokers(self) -> dict[str, BrokerData]:
        """Return all brokers by name."""
        if self.local is None:
            return dict(self._brokers)
        data = self.local.data
        registered = self._brokers.get(data.broker)
        # Its slaves register, the broker itself does not.
        slaves = {} if registered is None else dict(registered.addresses)
        slaves.pop(MASTER_ID, None)
        local = attrs.evolve(data, addresses={**data.addresses, **slaves})
        return {**self._brokers, data.broker: local}

    def clusters(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the brokers of each cluster."""
        found: dict[str, list[str]] = {}
        for name, data in self.brokers().items():
            found.setdefault(data.cluster, []).append(name)
        return {cluster: tuple(sorted(names)) for cluster, names in sorted(found.items())}

    def topics(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, or of the topics of a cluster; sorted."""
        brokers = self.brokers()
        names = {
            topic
            for topic, queues in self._queues.items()
            if any(cluster in (None, brokers[each].cluster) for each in queues if each in brokers)
        }
        if self.local is not None and cluster in (None, self.local.data.cluster):
            names |= self.local.topics().keys()
        return sorted(names)

    def has(self, broker: str, broker_id: int) -> bool:
        """Whether a broker has registered with an id."""
        known = self.brokers().get(broker)
        return known is not None and broker_id in known.addresses

    def sys_flags(self) -> dict[str, int]:
        """Return the flags of all topics, by topic."""
        found = {
            topic: next(iter(queues.values())).sys_flag for topic, queues in self._queues.items()
        }
        if self.local is not None:
            found |= {name: each.sys_flag for name, each in self.local.topics().items()}
        return found

    def master_of(self, broker: str) -> tuple[str, str] | None:
        """Return address of a master, and where its slaves fetch; None if it is not there."""
        if self.local is not None and self.local.data.broker == broker:
            return self.local.data.addresses[MASTER_ID], self.local.ha_address
        address = self.brokers()[broker].addresses.get(MASTER_ID)
        live = None if address is None else self._live.get(address)
        return None if address is None or live is None else (address, live.ha_address)

    def _permitted(self, queues: QueueData) -> QueueData:
        if queues.broker not in self._unwritable:
            return queues
        return attrs.evolve(queues, permissions=queues.permissions & ~WRITE)

    def _all_queues(self) -> Iterator[tuple[str, str]]:
        for topic, queues in self._queues.items():
            for broker in queues:
                yield broker, topic
        if self.local is not None:
            for topic in self.local.topics():
                yield self.local.data.broker, topic


def queues_of(topic: TopicSettings, broker: str) -> QueueData:
    """Return what a route says of a topic's queues at a broker."""
    return QueueData(
        broker=broker,
        read_queues=topic.read_queues,
        write_queues=topic.write_queues,
        permissions=topic.permissions,
        sys_flag=topic.sys_flag,
    )
