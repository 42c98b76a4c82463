"""`Ports`: the addresses of a server, taken before it serves.

Records name the address of their broker, so a store needs it when it is opened, and the system may
have yet to choose the port. A port that is taken refuses before a store is
opened, or made, for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from reput_client.remoting import address_text
from reput_server.wire import filedescriptors

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.config import ServerConfig

FAST_BELOW: Final = 2
"""Java clients up to 4.5.0, and Java slaves, send requests there (``listenPort - 2``)."""
_PAIRS_TRIED: Final = 16
_TURNS: Final = 4


@attrs.frozen(eq=False)
class Ports:
    """Sockets that are bound, and that nobody listens on yet; a context manager."""

    broker: tuple[socket.socket, ...] = ()
    """Those of the broker; none if there is to be none."""
    names: tuple[socket.socket, ...] = ()
    """Those of the name server."""
    fast: tuple[socket.socket, ...] = ()
    """Those two ports below the broker's; none if there are to be none, or none are free."""
    replicas: tuple[socket.socket, ...] = ()
    """Those of the HA port; none if there is to be none."""
    fast_error: str = ""
    """Why there are none, if there are to be some."""
    address: Address = ("", 0)
    """Host and port of the broker that clients get, as given."""
    store_address: Address = ("", 0)
    """The same by number, as records and message ids have it."""

    @classmethod
    def take(cls, config: ServerConfig) -> Ports:
        """Bind the addresses of a server.

        Raises:
            OSError: one of them cannot be had; none is taken, then.
        """
        with contextlib.ExitStack() as taken:
            broker, fast, fast_error = _pair(config, taken)
            names = take_address(config.name_server, taken)
            replicas = take_address(config.replicas, taken)
            address = numbered = ("", 0)
            if config.listen is not None:
                address = config.advertise or config.listen[0], broker[0].getsockname()[1]
                host = str(_resolved(*address)[0][1][0])
                numbered = host.partition("%")[0], address[1]
            taken.pop_all()
        return cls(broker, names, fast, replicas, fast_error, address, numbered)

    def log_options(self) -> dict[str, object]:
        """Return the options of a store's section ``commitlog`` that name the broker."""
        host, port = self.store_address
        if not host:
            return {}
        return {"store_address": address_text((host, port))}

    def close(self) -> None:
        """Give back what nobody listens on."""
        for each in (*self.broker, *self.names, *self.fast, *self.replicas):
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def bound_to(sockets: Sequence[socket.socket]) -> Address:
    """Return the first of the addresses that sockets are bound to, its host by number."""
    host, port = sockets[0].getsockname()[:2]
    return str(host), int(port)


def _pair(
    config: ServerConfig, taken: contextlib.ExitStack
) -> tuple[tuple[socket.socket, ...], tuple[socket.socket, ...], str]:
    """Bind the broker's addresses and those two ports below; return why these cannot be had, too.

    Of ports that the system chooses, those are taken below which the other is free.
    """
    if config.listen is None or not config.fast_port:
        return take_address(config.listen, taken), (), ""
    # Kept until the end, so that the system chooses another one each time.
    with contextlib.ExitStack() as passed_over:
        for _ in range(0 if config.listen[1] else _PAIRS_TRIED):
            kept = passed_over.enter_context(contextlib.ExitStack())
            broker = take_address(config.listen, kept)
            fast, error = _beside(config.listen[0], broker, kept, broker_is_chosen=True)
            if fast:
                taken.push(kept.pop_all())
                return broker, fast, error
    broker = take_address(config.listen, taken)
    chosen = not config.listen[1]
    return broker, *_beside(config.listen[0], broker, taken, broker_is_chosen=chosen)


def _beside(
    host: str,
    broker: Sequence[socket.socket],
    taken: contextlib.ExitStack,
    *,
    broker_is_chosen: bool,
) -> tuple[tuple[socket.socket, ...], str]:
    """Bind the addresses two ports below the broker's; return why they cannot be had, too."""
    port = broker[0].getsockname()[1] - FAST_BELOW
    if port < 1:
        return (), f"{host}:{port} is not a port"
    with contextlib.ExitStack() as tried:
        try:
            # The port that is chosen decides this one, so another process may get it, too.
            fast = take_address((host, port), tried, is_chosen=broker_is_chosen)
        except OSError as error:
            return (), str(error.strerror or error)
        taken.push(tried.pop_all())
        return fast, ""


def take_address(
    address: Address | None, taken: contextlib.ExitStack, *, is_chosen: bool = False
) -> tuple[socket.socket, ...]:
    """Bind all addresses of a name, such as those of both kinds that ``localhost`` has.

    Args:
        address: host and port; the system chooses the port 0.
        taken: gets the sockets.
        is_chosen: whether the port follows from one that the system chose.

    Raises:
        OSError: one of them cannot be had.
    """
    if address is None:
        return ()
    host, port = address
    is_chosen = is_chosen or not port
    sockets: list[socket.socket] = []
    for family, each in _resolved(host, port):
        # With its protocol by name: only then does asyncio have connections send small answers at
        # once, and not 40 ms later, when the peer's system has acknowledged the answer before.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        taken.enter_context(bound)
        # With the option, several processes can bind one port until one of them listens on it,
        # and the system may choose such a port. `listening` sets it for a port that was chosen.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(not is_chosen))
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            # A port that the system chose for one is that of all.
            chosen = port or (sockets[0].getsockname()[1] if sockets else 0)
            bound.bind((each[0], chosen, *each[2:]))
        except OSError as error:
            text = f"{host}:{port} cannot be listened on: {error.strerror or error}"
            raise OSError(error.errno, text) from None
        sockets.append(bound)
    return tuple(sockets)


async def listening(
    loop: asyncio.AbstractEventLoop,
    new_connection: Callable[[], asyncio.BaseProtocol],
    bound: socket.socket,
) -> asyncio.Server:
    """Listen on a socket of `take_address`.

    Raises:
        OSError: it cannot be listened on.
    """
    server = await loop.create_server(
        new_connection, sock=bound, backlog=filedescriptors.ACCEPTED_AT_ONCE
    )
    # Now nobody else can have the port, and a later process gets it although connections linger.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return server


async def stop_listening(
    loop: asyncio.AbstractEventLoop, servers: Sequence[asyncio.Server]
) -> None:
    """Accept no more connections, and close servers when accepted connections have protocols.

    A server of asyncio that is closed in the turn in which it accepts a connection leaves the
    connection open, without a protocol: its `_attach` refuses, and the error is dropped. So reading
    ends first, and the server is closed some turns later.
    """
    for server in servers:
        for each in server.sockets:
            loop.remove_reader(each.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    for server in servers:
        server.close()


def _resolved(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """Return families and addresses by number; those of IPv4, which all readers know, first."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        text = f"{host} is not an address of a host: {error.strerror or error}"
        raise OSError(error.errno, text) from None
    listed = dict.fromkeys((int(family), each) for family, _, _, _, each in found)
    return sorted(listed, key=lambda each: each[0] != socket.AF_INET)
