"""`BrokerContext`: the store, and what all requests of a broker share."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import attrs

from reput_client.remoting import MASTER_ID, BrokerData, ResponseCode, UniqueKeys, address_text
from reput_consumer import GroupSettings, MessageQueue, checked_group
from reput_server.config import is_everywhere
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput import Store
    from reput_client.remoting import Address
    from reput_consumer import ConsumerBackend, ConsumerPlugin
    from reput_server.broker.liveoptions import LiveOptions
    from reput_server.broker.statistics.brokerstatistics import BrokerStatistics
    from reput_server.broker.statistics.watchedpool import WatchedPool
    from reput_server.broker.topictable import TopicTable
    from reput_server.config import ServerConfig
    from reput_server.replication.replicaacks import Late
    from reput_server.replication.replicaservice import ReplicaService

AnswerT = TypeVar("AnswerT")
_PORT_SIZE = 4  # bytes of a port in a message id
_NAME_SHOWN = 80


@attrs.define(eq=False, repr=False)
class BrokerContext:
    """One broker. Handlers run on the event loop, and use the pools for the store."""

    store: Store
    plugin: ConsumerPlugin
    options: LiveOptions
    loop: asyncio.AbstractEventLoop
    pool: WatchedPool
    """Threads that use the store."""
    serial: WatchedPool
    """One thread, for what must happen in the order in which it came."""
    clock: Callable[[], int]
    is_writable: bool
    topics: TopicTable
    statistics: BrokerStatistics
    address: Address
    """The address that clients get."""
    packed_host: bytes
    """The same in message ids."""
    replicas: ReplicaService | None = None
    """The HA port; None without one."""
    handed_out: dict[tuple[str, str, int], int] = attrs.field(init=False, factory=dict)
    """Where a group's pulls went on last, by group, topic and queue id."""
    _keys: UniqueKeys | None = attrs.field(init=False, default=None)
    _versions: dict[str, tuple[bytes, dict[str, int]]] = attrs.field(init=False, factory=dict)
    """By kind of table, the last one that was handed out, and its version."""

    @property
    def config(self) -> ServerConfig:
        """The server's options, as they are now."""
        return self.options.config

    @property
    def port(self) -> ConsumerBackend:
        """The store as the backend of consumers."""
        return self.plugin.port

    @property
    def name(self) -> str:
        """Name of the broker."""
        return self.plugin.config.broker_name

    @property
    def data(self) -> BrokerData:
        """What routes say of the broker."""
        addresses = {MASTER_ID: address_text(self.address)}
        return BrokerData(cluster=self.config.cluster, broker=self.name, addresses=addresses)

    @property
    def ha_address(self) -> str:
        """``HOST:PORT`` at which slaves get the log; empty if they get it nowhere."""
        found = self.ha_port
        return "" if found is None else address_text(found)

    @property
    def ha_port(self) -> Address | None:
        """Where slaves get the log, as a name server says it; None if they get it nowhere."""
        if self.replicas is None:
            return None
        host, port = self.replicas.address
        return (self.address[0] if is_everywhere(host) else host), port

    def data_version(self) -> dict[str, int]:
        """Return the version of a table that a reader does not compare."""
        return {"counter": 1, "stateVersion": 0, "timestamp": self.clock()}

    def data_version_of(self, kind: str, table: bytes) -> dict[str, int]:
        """Return the version of a table, which is another one if its content is.

        Slaves save a table again if its version is not that which they have.
        """
        known = self._versions.get(kind)
        if known is None or known[0] != table:
            counter = 1 if known is None else known[1]["counter"] + 1
            known = table, {"counter": counter, "stateVersion": 0, "timestamp": self.clock()}
            self._versions[kind] = known
        return known[1]

    async def replicated(self) -> Late | None:
        """Wait until replicas have all that is stored now, if sends wait for them.

        Returns:
            Why they have not; None if they have, or if nothing waits for them.
        """
        waits = None if self.replicas is None else self.replicas.waits
        if waits is None:
            return None
        done: asyncio.Future[Late | None] = self.loop.create_future()

        def told(late: Late | None) -> None:
            if not done.done():
                done.set_result(late)

        waits.hold(self.store.log.max_physical_offset, told)
        return await done

    def message_id(self, physical_offset: int) -> str:
        """Return the offset message id of a message of this broker."""
        return (self.packed_host + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()

    def new_key(self) -> str:
        """Return a key for a message whose producer has given none. Used on the event loop."""
        if self._keys is None:
            address = ipaddress.ip_address(self.packed_host[:-_PORT_SIZE])
            self._keys = UniqueKeys(str(address), self.clock)
        return self._keys.next()

    def group(self, name: str) -> GroupSettings:
        """Return a group's settings; it is created if it does not exist, on a thread that may wait.

        Raises:
            Refusal: a name that no group has.
            OSError: the broker's file cannot be written.
        """
        found = self.plugin.subscription_groups.get(name)
        if found is not None:
            return found
        try:
            settings = GroupSettings(group=checked_group(name))
        except ValueError:
            text = f"subscription group not exist, {name[:_NAME_SHOWN]}"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text) from None
        return self.plugin.subscription_groups.put(settings) if self.is_writable else settings

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """Return a queue of this broker."""
        return MessageQueue(topic, self.name, queue_id)

    def check_writable(self) -> None:
        """Refuse a request that would change the store, if it may not be changed.

        Raises:
            Refusal: it was opened for reading.
        """
        if not self.is_writable:
            text = f"the broker[{self.address[0]}] is read-only: it was started with --read-only"
            raise Refusal(ResponseCode.NO_PERMISSION, text)

    def has(self, plugin: str) -> bool:
        """Whether the store uses a plugin."""
        return plugin in self.store.plugin_objects

    def missing(self, plugin: str, what: str) -> Refusal:
        """Return the refusal of a request that needs a plugin which the store does not use."""
        text = f"{what} need the plugin {plugin}, which this store does not use"
        return Refusal(ResponseCode.SYSTEM_ERROR, f"{text}; reput backfill PATH {plugin} adds it")

    async def run(self, work: Callable[..., AnswerT], *arguments: object) -> AnswerT:
        """Call ``work`` on a thread that may wait for the store."""
        return await self.loop.run_in_executor(self.pool, work, *arguments)

    async def run_in_turn(self, work: Callable[..., AnswerT], *arguments: object) -> AnswerT:
        """Call ``work`` after all that was given here before."""
        return await self.loop.run_in_executor(self.serial, work, *arguments)
