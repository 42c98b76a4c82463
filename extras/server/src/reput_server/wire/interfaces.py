"""What requests, connections and ports are to each other.

A handler sees a `Connection`; a connection sees the `Host` that counts for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Protocol

import attrs

from reput_client.remoting import Command
from reput_server.config import Limits

FromBytes = tuple[bytes, int, int]
"""What was taken from a connection's bytes: answers, size of the requests, and how many of them."""
Socket = tuple[int, tuple[str, int]]
"""A connection's descriptor, which does not block, and the peer's address."""
Rest = tuple[int, bytes, bytes]
"""Of a socket's place in a list: bytes that were read and not taken, and answers not written. Both
are empty where nothing more can be read."""
FromSockets = tuple[int, list[Rest]]
"""How many requests were taken of several sockets, and what is left of them."""
TakeSockets = Callable[[Sequence[Socket], Sequence["Connection"]], FromSockets | None]
"""Reads sockets, and takes requests of the connections that they belong to; the answers may come
later. None if it read none of them."""


class Connection(Protocol):
    """A peer, as handlers see it. Used on the event loop."""

    address: tuple[str, int]
    is_open: bool

    @property
    def direct_descriptor(self) -> int:
        """Its socket, if answers may be written there by others now; -1 if only `write` may."""
        ...

    def answer(self, command: Command, answer: Command) -> None:
        """Send the answer to a request, unless nobody waits for one."""
        ...

    def hold(self, count: int, size: int) -> None:
        """Count requests that were taken from bytes and are not answered yet, until `release`."""
        ...

    def write(self, answers: bytes) -> None:
        """Write whole frames, or what is left of them."""
        ...

    def release(self, count: int, size: int) -> None:
        """End such requests, whose answers were written."""
        ...

    def let_pass(self, request: Request) -> None:
        """Let others overtake a request that is worked on, and is not answered yet."""
        ...

    def let_pass_taken(self) -> None:
        """Let others overtake a request that was taken at once; `finish` gets their number."""
        ...

    def finish(
        self, count: int, size: int, answers: Sequence[bytes | Command], passed_count: int = 0
    ) -> None:
        """End requests that were taken at once, as many as ``count``.

        Args:
            count: requests.
            size: bytes that they took, the sum of `Request.size`.
            answers: the answers that peers wait for; bytes are whole frames.
            passed_count: for how many of them `let_pass_taken` was called.
        """
        ...

    def tell(self, command: Command) -> None:
        """Send a request that is not answered."""
        ...

    async def ask(self, command: Command, timeout: float) -> Command:
        """Send a request, and return its answer.

        Raises:
            TimeoutError: none came in time.
            ConnectionError: the peer has gone.
        """
        ...

    def remember(self, what: Hashable, on_close: Callable[[], object]) -> None:
        """Have ``on_close`` called once the connection is gone; at once if it is."""
        ...

    def forget(self, what: Hashable) -> None:
        """Undo `remember`."""
        ...

    def cut(self, reason: str) -> None:
        """Close the connection at once."""
        ...

    def go_on(self) -> None:
        """Read on, if there is space again."""
        ...


@attrs.frozen(eq=False)
class Request:
    """A request, and who sent it."""

    command: Command
    peer: Connection
    size: int = 0
    """Bytes of memory that it takes, about."""


class Host(Protocol):
    """The port that a connection came to."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    held_bytes: int
    """Bytes of frames that are not whole yet, of all connections."""
    request_bytes: int
    """What requests that are worked on take of the memory, bytes, of all connections."""
    is_stopping: bool
    """Whether no further requests are taken."""
    paused: set[Any]
    """Connections of which nothing is read at the moment."""
    deaf: set[Any]
    """Connections that leave answers unread at the moment."""

    def admit(self, peer: Any, descriptor: int) -> bool:
        """Note a new connection, and its descriptor; False if there are too many."""
        ...

    def forget(self, peer: Any) -> None:
        """Drop a connection that is gone."""
        ...

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done, and keep it from being collected meanwhile."""
        ...

    def take_bytes(self, peer: Any, data: bytes | bytearray) -> FromBytes:
        """Take requests with which a connection's bytes begin, and end them."""
        ...

    def share(self, peer: Any, descriptor: int) -> bool:
        """Have a connection read together with others; False if that is not done here."""
        ...

    def unshare(self, descriptor: int) -> None:
        """Have a connection read by its transport again."""
        ...

    def may_take(self, code: int) -> bool:
        """Whether requests of this code can be taken at once, or from their bytes."""
        ...

    def take(self, request: Request) -> bool:
        """Take a request at once, which `Connection.finish` ends; False if that cannot be."""
        ...

    def held(self, count: int) -> None:
        """Note that requests were taken that are answered later; `finished` ends them."""
        ...

    def finished(self, count: int) -> None:
        """Note that requests have ended that were taken at once."""
        ...

    async def answer(self, request: Request) -> Command | None:
        """Return the answer to a request; None if it comes later, or never."""
        ...

    def unread_bytes(self) -> int:
        """Return the bytes of answers that wait for connections to be read."""
        ...

    def cut_heaviest(self) -> None:
        """Cut the connection whose unfinished frame takes most."""
        ...

    def cut_deafest(self) -> None:
        """Cut the connection that leaves most of its answers unread."""
        ...

    def go_on(self) -> None:
        """Let connections be read again that waited for others."""
        ...
