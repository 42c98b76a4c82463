"""`BrokerContext`: the store, and what all requests of a broker share."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import attrs

from reput_consumer import GroupSettings, checked_group
from reput_remoting import MASTER_ID, BrokerData, ResponseCode, UniqueKeys
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput import Store
    from reput_consumer import ConsumerPlugin, ConsumerPort, MessageQueue
    from reput_server.broker.options import Options
    from reput_server.broker.statistics.pools import WatchedPool
    from reput_server.broker.statistics.table import Statistics
    from reput_server.broker.topics import TopicTable
    from reput_server.config import Address, ServerConfig

__all__ = ["BrokerContext"]

AnswerT = TypeVar("AnswerT")
_PORT_SIZE = 4  # bytes of a port in a message id
_NAME_SHOWN = 80


@attrs.define(eq=False)
class BrokerContext:
    """One broker. Handlers run on the event loop and leave it for whatever asks the store."""

    store: Store
    plugin: ConsumerPlugin
    options: Options
    loop: asyncio.AbstractEventLoop
    pool: WatchedPool
    """Threads that ask the store."""
    serial: WatchedPool
    """One thread, for what must happen in the order in which it came."""
    clock: Callable[[], int]
    is_writable: bool
    topics: TopicTable
    statistics: Statistics
    address: Address
    """What clients are told."""
    packed_host: bytes
    """The same in message ids."""
    handed_out: dict[tuple[str, str, int], int] = attrs.field(init=False, factory=dict)
    """Where a group's pulls went on last, by group, topic and queue id."""
    _keys: UniqueKeys | None = attrs.field(init=False, default=None)

    @property
    def config(self) -> ServerConfig:
        """The server's options, as they are now."""
        return self.options.config

    @property
    def port(self) -> ConsumerPort:
        """The store as consumers ask it."""
        return self.plugin.port

    @property
    def name(self) -> str:
        """Name of the broker."""
        return self.plugin.config.broker_name

    @property
    def data(self) -> BrokerData:
        """What routes say of the broker."""
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        return BrokerData(
            cluster=self.config.cluster, broker=self.name, addresses={MASTER_ID: f"{shown}:{port}"}
        )

    def data_version(self) -> dict[str, int]:
        """Return the version of topics and groups that a reader compares."""
        return {"counter": 1, "stateVersion": 0, "timestamp": self.clock()}

    def message_id(self, physical_offset: int) -> str:
        """Return the offset message id by which clients ask this broker for a message."""
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
        from reput_consumer import MessageQueue

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
