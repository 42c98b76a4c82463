"""`NameServers`: sends requests to one name server, and to another one when that fails.

Source: RocketMQ ``NettyRemotingClient#getAndCreateNameserverChannel``.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from reput_client.errors import (
    ClientError,
    ConnectError,
    ConnectionLostError,
    RequestTimeoutError,
)
from reput_client.remoting import AddressError, parse_address

if TYPE_CHECKING:
    from reput_client.connection.connectionpool import ConnectionPool
    from reput_client.remoting import Command

logger = logging.getLogger(__name__)

_FAILURES: Final = (ConnectError, ConnectionLostError, RequestTimeoutError)


def addresses_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return addresses of name servers from what a caller gave: several, or one text with ``;``.

    Raises:
        AddressError: the text has no address, or one that is not valid.
    """
    listed = given.replace(",", ";").split(";") if isinstance(given, str) else list(given)
    found = tuple(dict.fromkeys(each.strip() for each in listed if each.strip()))
    if not found:
        raise AddressError(";".join(listed))
    for each in found:
        parse_address(each)
    return found


class NameServers:
    """Name servers that all know the same. Used on the thread of the loop."""

    def __init__(
        self, addresses: Iterable[str], connections: ConnectionPool, seconds: float
    ) -> None:
        """Use ``addresses``, each for ``seconds`` at most, beginning with any."""
        self.addresses = list(addresses)
        # Clients spread over the name servers.
        random.shuffle(self.addresses)
        self._connections = connections
        self._seconds = seconds
        self._chosen = 0

    async def request(self, command: Command) -> tuple[str, Command]:
        """Return the address that answered, and its answer, whatever its code.

        Raises:
            ClientError: no name server answers; the error is that of the last one.
        """
        failure: ClientError = ConnectError("name servers", "none is known")
        for _ in self.addresses:
            address = self.addresses[self._chosen]
            try:
                return address, await self._connections.request(address, command, self._seconds)
            except _FAILURES as error:
                failure = error
                logger.warning("name server skipped: %s", error)
                self._chosen = (self._chosen + 1) % len(self.addresses)
        raise failure
