"""`ConnectionPool`: the connections of one client, opened at their first use."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from reput_client.connection.connection import Connection, Handler, Signer
from reput_client.errors import BrokerError, ClientClosedError, ConnectError, ConnectionLostError
from reput_client.remoting import ResponseCode, parse_address

if TYPE_CHECKING:
    from reput_client.config import ClientOptions
    from reput_client.remoting import Command

logger = logging.getLogger(__name__)


class ConnectionPool:
    """At most one connection to each address. Used on the thread of the loop."""

    def __init__(
        self,
        options: ClientOptions,
        handler: Handler,
        signer: Signer | None,
        connected: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        """Make a client without connections.

        Args:
            options: time limits and encryption.
            handler: answers requests of peers.
            signer: signs requests; None to send them as they are.
            connected: called with each new connection.
        """
        self._options = options
        self._handler = handler
        self._signer = signer
        self._connected = connected
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def request(self, address: str, command: Command, seconds: float) -> Command:
        """Send a request, and return its answer, whatever its code.

        Raises:
            ClientError: there is no connection, or no answer.
        """
        for is_last in (False, True):
            connection = await self.get(address)
            answer = await connection.request(command, seconds)
            if answer.code != ResponseCode.GO_AWAY:
                return answer
            # A server that is about to end finishes what is under way, and takes nothing new.
            self._forget(connection)
            if is_last:
                break
        raise ConnectionLostError(address, "the server is about to end")

    async def ask(self, address: str, command: Command, seconds: float, *also: int) -> Command:
        """Send a request, and return its answer if it is a success, or has one of ``also``.

        Raises:
            BrokerError: the answer has another code.
            ClientError: there is no connection, or no answer.
        """
        answer = await self.request(address, command, seconds)
        if answer.code != ResponseCode.SUCCESS and answer.code not in also:
            raise BrokerError(address, answer.code, answer.remark or "")
        return answer

    async def send(self, address: str, command: Command) -> None:
        """Send a request that is not answered.

        Raises:
            ClientError: there is no connection.
        """
        await (await self.get(address)).send(command)

    async def get(self, address: str) -> Connection:
        """Return the connection to an address; it is made if it does not exist.

        Raises:
            ConnectError: it cannot be made.
            ClientClosedError: the client is closed.
        """
        found = self._open.get(address)
        if found is not None and not found.is_lost:
            return found
        if self._is_closed:
            raise ClientClosedError
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._connect(address))
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        # One caller that gives up does not take the connection from others.
        return await asyncio.shield(opening)

    def _opened(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._opening.pop(address, None)
        if not task.cancelled():
            task.exception()  # it goes to the waiting callers, if any

    async def _connect(self, address: str) -> Connection:
        try:
            host, port = parse_address(address)
        except ValueError as error:
            raise ConnectError(address, str(error)) from None
        tls = self._options.tls
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(address, self._handler, self._signer), host, port, ssl=tls
                )
        except TimeoutError:
            text = f"no answer in {self._options.connect_timeout:.3g} s"
            raise ConnectError(address, text) from None
        except OSError as error:  # `ssl.SSLError` among them
            raise _connect_error(address, error, is_encrypted=tls is not None) from None
        self._open[address] = connection
        logger.debug("connected address=%s", address)
        self._connected(connection)
        return connection

    def _forget(self, connection: Connection) -> None:
        """Make the next request use another connection; this one ends when nothing waits for it."""
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]

    def close_idle(self, seconds: float) -> None:
        """Close connections that were not used for so long, and forget lost ones."""
        now = asyncio.get_running_loop().time()
        for address, each in list(self._open.items()):
            if each.is_lost:
                del self._open[address]
            elif not each.is_busy and now - each.used_at > seconds:
                each.abort("it was idle")
                del self._open[address]

    def addresses(self) -> list[str]:
        """Return the addresses of open connections, sorted."""
        return sorted(address for address, each in self._open.items() if not each.is_lost)

    async def close(self) -> None:
        """Close all connections; no other can be made."""
        self._is_closed = True
        for opening in self._opening.values():
            opening.cancel()
        found, self._open = list(self._open.values()), {}
        await asyncio.gather(*(each.close() for each in found), return_exceptions=True)


def _connect_error(address: str, error: OSError, *, is_encrypted: bool) -> ConnectError:
    """Say what a connection failed with, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = "give the context of tls= its CA: load_verify_locations(FILE)"
        return ConnectError(address, f"its certificate: {error.verify_message}", advice)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        return ConnectError(address, f"TLS: {reason}", "does it know this client's certificate?")
    if is_encrypted and isinstance(error, ConnectionResetError):
        reason = "it closed the connection at its first encrypted bytes"
        return ConnectError(address, reason, "it does not speak TLS: leave tls= out")
    return ConnectError(address, error.strerror or str(error))
