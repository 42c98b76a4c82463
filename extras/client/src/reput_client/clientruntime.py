"""`ClientRuntime`: what producers and consumers share: loop, routes, sessions, timers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reput_client.clientid import ClientIds, own_address
from reput_client.connection.connectionpool import ConnectionPool
from reput_client.connection.eventloopthread import EventLoopThread
from reput_client.connection.nameservers import NameServers, addresses_of
from reput_client.errors import ClientError
from reput_client.remoting import Command, ResponseCode, UniqueKeys, sign
from reput_client.route.routetable import RouteTable
from reput_client.session.brokersession import BrokerSession

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput_client.config import ClientOptions
    from reput_client.connection.connection import Connection, Signer

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_MISSING_SECONDS: Final = 2.0
"""Time between looks for the route of a topic that consumers wait for."""


class ClientRuntime:
    """The inside of a client. Thread-safe, unless a method says otherwise."""

    def __init__(
        self, name_servers: str | Iterable[str], options: ClientOptions, clock: Callable[[], int]
    ) -> None:
        """Start the loop; nothing is connected yet.

        Raises:
            ValueError: an address of a name server that is none.
        """
        addresses = addresses_of(name_servers)
        self.name_servers = tuple(addresses)
        self.options = options
        self.clock = clock
        self.routes_changed: Callable[[set[str]], None] = lambda topics: None
        """Called on the loop's thread with topics whose route is another one."""
        address = options.address or own_address(addresses[0])
        self.ids = ClientIds(address, options.instance)
        self.keys = UniqueKeys(address, clock)
        self._signer = _signer_of(options)
        self._to_name_servers = ConnectionPool(options, _refuse, self._signer)
        names = NameServers(addresses, self._to_name_servers, options.request_timeout)
        self.routes = RouteTable(names, lambda topics: self.routes_changed(topics))
        self._sessions: set[BrokerSession] = set()
        self.session = self.new_session(self.ids.next())
        """That of all producers."""
        self._background = EventLoopThread()
        self._timers: list[asyncio.Task[None]] = []
        self._background.call_soon(self._start_timers)

    # ------------------------------------------------------------------ the loop

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """See `EventLoopThread.call`."""
        return self._background.call(work)

    def submit(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        """See `EventLoopThread.submit`."""
        return self._background.submit(work)

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        """See `EventLoopThread.call_soon`."""
        self._background.call_soon(function, *arguments)

    async def ask(self, address: str, command: Command, *also: int) -> Command:
        """See `ConnectionPool.ask`, with the usual time limit. On the loop's thread."""
        return await self.session.connections.ask(
            address, command, self.options.request_timeout, *also
        )

    # ------------------------------------------------------------------ sessions

    def new_session(self, client_id: str) -> BrokerSession:
        """Return another session; its heartbeats are sent from now on."""
        session = BrokerSession(client_id, self.options, self.routes, self._signer)
        self._sessions.add(session)
        return session

    async def end_session(self, session: BrokerSession) -> None:
        """Unregister a session at its brokers. On the loop's thread."""
        self._sessions.discard(session)
        await session.leave()

    # ------------------------------------------------------------------ timers

    def _start_timers(self) -> None:
        loop, options = asyncio.get_running_loop(), self.options
        for interval, work in (
            (options.route_interval, self.routes.refresh),
            (min(_MISSING_SECONDS, options.route_interval), self.routes.look_for_missing),
            (options.heartbeat_interval, self._beat),
            (options.idle_timeout / 2, self._close_idle),
        ):
            self._timers.append(loop.create_task(_every(interval, work)))

    async def _beat(self) -> None:
        await asyncio.gather(*(each.beat() for each in list(self._sessions)))

    async def _close_idle(self) -> None:
        self._to_name_servers.close_idle(self.options.idle_timeout)
        for each in self._sessions:
            each.connections.close_idle(self.options.idle_timeout)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Unregister at all brokers, and end everything."""
        try:
            self._background.call(self._close())
        except ClientError as error:
            logger.debug("client was closed before: %s", error)
        self._background.close()

    async def _close(self) -> None:
        for each in self._timers:
            each.cancel()
        sessions, self._sessions = list(self._sessions), set()
        await asyncio.gather(*(each.leave() for each in sessions))
        await self._to_name_servers.close()


async def _every(interval: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        await asyncio.sleep(interval)
        try:
            await work()
        except Exception:
            logger.exception("timed work of a client failed; the next round tries again")


async def _refuse(connection: Connection, command: Command) -> Command:
    text = f" request type {command.code} not supported"
    return command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=text)


def _signer_of(options: ClientOptions) -> Signer | None:
    access_key, secret_key = options.access_key, options.secret_key
    if access_key is None and secret_key is None:
        return None
    if access_key is None or secret_key is None:
        raise ValueError("access_key and secret_key: both expected, or none of them")
    token = options.security_token
    return lambda command: sign(command, access_key, secret_key, token)
