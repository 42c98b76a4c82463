"""`BrokerSession`: one client id, as brokers know it by its connections and its heartbeats.

Brokers count members of a group by their connections, so each consumer has a session of its own;
all producers of a client share one.

Source: RocketMQ ``MQClientInstance#sendHeartbeatToAllBroker`` and ``ClientRemotingProcessor``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from reput.record import java_string_hash
from reput_client.connection.connectionpool import ConnectionPool
from reput_client.errors import ClientError
from reput_client.remoting import (
    MASTER_ID,
    Command,
    ConsumerData,
    Heartbeat,
    RequestCode,
    ResponseCode,
    Subscription,
    Unregister,
)
from reput_consumer import ALL, subscriptions_of

if TYPE_CHECKING:
    from reput_client.config import ClientOptions
    from reput_client.connection.connection import Connection, Signer
    from reput_client.route.routetable import RouteTable
    from reput_consumer import Selector

logger = logging.getLogger(__name__)

_END_SECONDS: Final = 1.0
"""For how long a broker may take to unregister a client."""

Answerer = Callable[[str, Command], Awaitable[Command | None]]
"""Answers a request of a broker, which comes with its address."""


@attrs.frozen(eq=False)
class Membership:
    """One member of a consumer group."""

    group: str
    selectors: Mapping[str, Selector]
    """By topic."""
    version: int
    """When it subscribed, ms."""
    broadcast: bool
    changed: Callable[[], None]

    pops: ClassVar[bool] = False

    @property
    def topics(self) -> set[str]:
        """The topics that it reads."""
        return set(self.selectors)

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """What it selects, as text."""
        return subscriptions_of(self.selectors)

    def data(self) -> ConsumerData:
        """Return what a heartbeat says of it."""
        return ConsumerData(
            group=self.group,
            message_model="BROADCASTING" if self.broadcast else "CLUSTERING",
            subscriptions=tuple(
                subscription(topic, selector, self.version)
                for topic, selector in self.selectors.items()
            ),
        )


def subscription(topic: str, selector: Selector, version: int) -> Subscription:
    """Return the subscription for a selector, which was made at ``version``, ms."""
    tags = tuple(sorted(selector.tags))
    return Subscription(
        topic=topic,
        expression=ALL if selector.selects_all else selector.expression,
        tags=tags,
        codes=tuple(java_string_hash(tag) for tag in tags),
        version=version,
        expression_type=selector.kind,
    )


class BrokerSession:
    """One client id and its connections. Used on the loop's thread."""

    def __init__(
        self, client_id: str, options: ClientOptions, routes: RouteTable, signer: Signer | None
    ) -> None:
        """Make a session that no broker knows yet."""
        self.client_id = client_id
        self.connections = ConnectionPool(options, self._answer, signer, self._connected)
        self.member: Membership | None = None
        self.topics: set[str] = set()
        """Those whose brokers are to know this client."""
        self.answerers: dict[int, Answerer] = {}
        """What answers requests of brokers, by their code."""
        self._producers: dict[str, int] = {}
        """Producer groups, with how many producers each has."""
        self._options = options
        self._routes = routes
        self._told: dict[str, tuple[Connection, frozenset[str]]] = {}
        """By address, a broker's last heartbeat: the connection, and the groups of producers."""
        self._beating: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ groups

    def add_producer(self, group: str) -> None:
        """Have brokers know a producer group, from the next heartbeat on."""
        self._producers[group] = self._producers.get(group, 0) + 1

    async def remove_producer(self, group: str) -> None:
        """Unregister a producer group, if this was the last of its producers."""
        self._producers[group] -= 1
        if not self._producers[group]:
            del self._producers[group]
            await self._unregister(producer_group=group)

    async def visit(self, topic: str) -> None:
        """Have the brokers of a topic know this client and its groups, if they do not yet."""
        self.topics.add(topic)
        await self.beat(only_new=True)

    async def beat(self, *, only_new: bool = False) -> None:
        """Send a heartbeat to all brokers; to unreachable ones, the next time.

        Args:
            only_new: only to brokers whose last heartbeat did not have all groups, or came on a
                connection that is lost.
        """
        if self.member is None and not self._producers:
            return
        found = self._routes.all_brokers(self.topics)
        for address in self._told.keys() - found.keys():
            del self._told[address]
        wanted = [
            address
            for address, broker_id in found.items()
            if (self.member is not None or broker_id == MASTER_ID)
            and not (only_new and self._knows_all(address))
        ]
        await asyncio.gather(*(self._beat(address) for address in wanted))

    def _knows_all(self, address: str) -> bool:
        told = self._told.get(address)
        return told is not None and not told[0].is_lost and self._producers.keys() <= told[1]

    async def _beat(self, address: str) -> None:
        beat = Heartbeat(
            client_id=self.client_id,
            producer_groups=tuple(sorted(self._producers)),
            consumers=() if self.member is None else (self.member.data(),),
        )
        command = Command(RequestCode.HEART_BEAT, body=beat.encode())
        groups = frozenset(self._producers)
        try:
            connection = await self.connections.get(address)
            self._told[address] = connection, groups
            answer = await connection.request(command, self._options.request_timeout)
        except ClientError as error:
            self._told.pop(address, None)
            logger.warning("heartbeat failed client=%s: %s", self.client_id, error)
            return
        if answer.code != ResponseCode.SUCCESS:
            self._told.pop(address, None)
            logger.warning(
                "heartbeat refused client=%s broker=%s code=%d remark=%s",
                *(self.client_id, address, answer.code, answer.remark),
            )

    def _connected(self, connection: Connection) -> None:
        """Send a heartbeat again, as the broker forgot this client with its former connection."""
        if connection.address in self._told:
            task = asyncio.get_running_loop().create_task(self._beat(connection.address))
            self._beating.add(task)
            task.add_done_callback(self._beating.discard)

    # ------------------------------------------------------------------ requests of brokers

    async def _answer(self, connection: Connection, command: Command) -> Command | None:
        answerer = self.answerers.get(command.code)
        if answerer is None:
            text = f" request type {command.code} not supported"
            return command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=text)
        try:
            return await answerer(connection.address, command)
        except Exception as error:  # whatever a broker has sent, it gets an answer
            logger.warning(
                "request not answered broker=%s code=%d: %s",
                *(connection.address, command.code, error),
            )
            return command.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))

    # ------------------------------------------------------------------ the end

    async def _unregister(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        header = Unregister(
            client_id=self.client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        command = Command.request(RequestCode.UNREGISTER_CLIENT, header)
        told = [address for address, (by, _) in self._told.items() if not by.is_lost]
        done = await asyncio.gather(
            *(self.connections.request(each, command, _END_SECONDS) for each in told),
            return_exceptions=True,
        )
        for address, found in zip(told, done, strict=True):
            if isinstance(found, ClientError):
                logger.debug("not unregistered broker=%s: %s", address, found)

    async def leave(self) -> None:
        """Unregister at all brokers, and close the connections."""
        member, self.member = self.member, None
        if member is not None:
            await self._unregister(consumer_group=member.group)
        for group in list(self._producers):
            await self._unregister(producer_group=group)
        self._producers.clear()
        await self.connections.close()
