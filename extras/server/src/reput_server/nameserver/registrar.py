"""`Registrar`: keeps a broker registered at name servers of others.

Each gets the broker's topics every 30 seconds and when they change, over one connection; one
that is not there is tried again, and nothing waits for it. Source: RocketMQ ``BrokerOuterAPI``,
``BrokerController.registerBrokerAll``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    MASTER_ID,
    ClusterInfo,
    Command,
    RegisterBroker,
    Registration,
    RemotingError,
    RequestCode,
    ResponseCode,
    TopicSettings,
    UnregisterBroker,
)
from reput_server.errors import ServerError
from reput_server.wire.serverconnection import ServerConnection
from reput_tools.offline import TEST_TOPIC

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.nameserver.routetable import RegisteredBroker
    from reput_server.wire.interfaces import Host

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 3.0
_CRC_MASK: Final = 0x7FFF_FFFF
"""A topic of every RocketMQ broker: name servers of 5.x refuse one topic at first."""
_FAILURES: Final = (OSError, TimeoutError, RemotingError, ServerError)


@attrs.define(eq=False, repr=False)
class Registrar:
    """One broker, and name servers that are to know it. Used on the event loop."""

    broker: RegisteredBroker
    addresses: Sequence[Address]
    host: Host
    """Takes the connections, and answers requests of name servers."""
    clock: Callable[[], int]
    interval_seconds: float = _INTERVAL_SECONDS
    retry_seconds: float = _RETRY_SECONDS
    """Until the first further try; each time twice as long, up to the interval."""
    registered: dict[Address, int] = attrs.field(init=False, factory=dict)
    """How often each has taken the broker's topics; those that know it at the moment."""
    _told: Mapping[str, TopicSettings] | None = attrs.field(init=False, default=None)
    _version: dict[str, int] = attrs.field(init=False, factory=dict)
    _changes: dict[Address, asyncio.Event] = attrs.field(init=False, factory=dict)
    _peers: dict[Address, ServerConnection] = attrs.field(init=False, factory=dict)
    _tasks: list[asyncio.Task[None]] = attrs.field(init=False, factory=list)

    def start(self) -> None:
        """Begin; nothing is waited for."""
        self._version = {"counter": 0, "stateVersion": 0, "timestamp": self.clock()}
        for address in self.addresses:
            self._changes[address] = asyncio.Event()
            self._tasks.append(self.host.loop.create_task(self._keep(address)))

    def changed(self) -> None:
        """Register the changed topics at all of them soon."""
        for event in self._changes.values():
            event.set()

    async def stop(self) -> None:
        """Leave all of them, so that clients look for other brokers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*map(self._leave, self._peers), return_exceptions=True)

    # ------------------------------------------------------------------ one name server

    async def _keep(self, address: Address) -> None:
        retry, event = self.retry_seconds, self._changes[address]
        while True:
            event.clear()
            try:
                await self._register(address)
            except _FAILURES as error:
                self.registered.pop(address, None)
                text = "registration failed name_server=%s:%d error=%s next_try_seconds=%.3g"
                logger.warning(text, *address, _reason_of(error), retry)
                await asyncio.sleep(retry)
                retry = min(2 * retry, self.interval_seconds)
                continue
            retry = self.retry_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.interval_seconds):
                    await event.wait()

    async def _register(self, address: Address) -> None:
        peer = await self._connected(address)
        topics = await self.broker.look()
        body = self._registration(topics).encode()
        header = RegisterBroker(
            broker_name=self.broker.data.broker,
            broker_addr=self._own,
            cluster_name=self.broker.data.cluster,
            ha_server_addr=self.broker.ha_address,
            broker_id=MASTER_ID,
            body_crc32=zlib.crc32(body) & _CRC_MASK,
        )
        await _ask(peer, Command.request(RequestCode.REGISTER_BROKER, header, body=body))
        self.registered[address] = self.registered.get(address, 0) + 1

    async def _connected(self, address: Address) -> ServerConnection:
        peer = self._peers.get(address)
        if peer is not None and peer.is_open:
            return peer
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, peer = await self.host.loop.create_connection(
                lambda: ServerConnection(self.host), *address
            )
        self._peers[address] = peer
        event = self._changes[address]
        # A name server forgets a broker with its connection.
        peer.remember(self, event.set)
        await self._warn_of_namesake(address, peer)
        logger.info("registers at name_server=%s:%d", *address)
        return peer

    async def _warn_of_namesake(self, address: Address, peer: ServerConnection) -> None:
        """Say that another broker has this one's name, whose clients would come here."""
        answer = await _ask(peer, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        found = ClusterInfo.decode(answer.body).brokers.get(self.broker.data.broker)
        other = None if found is None else found.addresses.get(MASTER_ID)
        if found is not None and other not in (None, self._own):
            text = (
                "another broker has the same name name_server=%s:%d broker=%s address=%s: clients "
                "find the one alone that registered last; give this one another with --name"
            )
            logger.warning(text, *address, found.broker, other)

    async def _leave(self, address: Address) -> None:
        peer = self._peers[address]
        if not peer.is_open:
            return
        header = UnregisterBroker(
            broker_name=self.broker.data.broker,
            broker_addr=self._own,
            cluster_name=self.broker.data.cluster,
            broker_id=MASTER_ID,
        )
        peer.forget(self)
        await _ask(peer, Command.request(RequestCode.UNREGISTER_BROKER, header))
        peer.end()

    # ------------------------------------------------------------------ the messages

    @property
    def _own(self) -> str:
        return self.broker.data.addresses[MASTER_ID]

    def _registration(self, topics: Mapping[str, TopicSettings]) -> Registration:
        if len(topics) == 1:
            topics = {
                **topics,
                TEST_TOPIC: TopicSettings(topic=TEST_TOPIC, read_queues=1, write_queues=1),
            }
        if topics != self._told:
            # By its version a name server sees that something has changed.
            self._told, self._version["counter"] = topics, self._version["counter"] + 1
        return Registration(topics=topics, version=dict(self._version))


async def _ask(peer: ServerConnection, command: Command) -> Command:
    answer = await peer.ask(command, _ANSWER_SECONDS)
    if answer.code != ResponseCode.SUCCESS:
        raise ServerError(f"it answers with code {answer.code}: {answer.remark or 'no remark'}")
    return answer


def _reason_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {_ANSWER_SECONDS:.3g} s"
    return str(getattr(error, "strerror", None) or error)
