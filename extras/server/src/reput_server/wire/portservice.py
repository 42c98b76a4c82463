"""`PortService`: one port, its connections, and what these may take together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from reput_client.remoting import Address
from reput_server.config import Limits
from reput_server.wire import filedescriptors
from reput_server.wire.admission import Admission
from reput_server.wire.encryption import Encryption, ProtocolDetector
from reput_server.wire.ports import bound_to, listening, stop_listening
from reput_server.wire.requestdispatcher import NOTHING, RequestDispatcher
from reput_server.wire.serverconnection import ServerConnection
from reput_server.wire.sharedreads import SharedReads

if TYPE_CHECKING:
    from reput_client.remoting import Command
    from reput_server.wire.interfaces import Connection, FromBytes, FromSockets, Request, Socket
    from reput_server.wire.requestdispatcher import Handler

logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 10.0
_STOP_SECONDS = 5.0
"""How long requests that were begun may take once the server is to stop."""
_CLOSE_SECONDS = 2.0
"""How long peers may take to read their answers then."""


@attrs.define(eq=False, repr=False)
class PortService:
    """Listens on one address, or on several. All of it runs on the event loop."""

    loop: asyncio.AbstractEventLoop
    limits: Limits = attrs.field(factory=Limits)
    encryption: Encryption | None = None
    """How connections may be encrypted; None if they may not."""
    held_bytes: int = attrs.field(init=False, default=0)
    """Bytes of frames that are not whole yet, of all connections."""
    request_bytes: int = attrs.field(init=False, default=0)
    """What requests that are worked on take of the memory, bytes, of all connections."""
    request_count: int = attrs.field(init=False, default=0)
    """Requests since the start."""
    paused: set[ServerConnection] = attrs.field(init=False, factory=set)
    """Connections of which nothing is read at the moment."""
    deaf: set[ServerConnection] = attrs.field(init=False, factory=set)
    """Connections that leave answers unread at the moment."""
    peers: set[ServerConnection] = attrs.field(init=False, factory=set)
    is_stopping: bool = attrs.field(init=False, default=False)
    """Whether no further requests are taken."""
    address: Address = attrs.field(init=False, default=("", 0))
    """Where it listens, with the port that was found free."""
    _handlers: RequestDispatcher = attrs.field(init=False, factory=lambda: RequestDispatcher({}))
    _admission: Admission = attrs.field(init=False)
    _shared: SharedReads | None = attrs.field(init=False, default=None)
    """Connections that only send; None where the system cannot wait for all of them at once."""
    _taken_count: int = attrs.field(init=False, default=0)
    """Requests that were taken at once and have not ended."""
    _all_ended: asyncio.Event | None = attrs.field(init=False, default=None)
    """Set once there are none, where that is waited for."""
    _servers: list[asyncio.Server] = attrs.field(init=False, factory=list)
    _all_left: asyncio.Future[None] | None = attrs.field(init=False, default=None)
    _tasks: set[asyncio.Task[None]] = attrs.field(init=False, factory=set)
    _sweep: asyncio.TimerHandle | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._admission = Admission(self.limits)

    async def start(self, sockets: Sequence[socket.socket], handlers: RequestDispatcher) -> None:
        """Listen on sockets that are bound, and answer requests by ``handlers``.

        Raises:
            OSError: one of them cannot be listened on.
        """
        self._handlers = handlers
        for each in sockets:
            await self.listen(each)
        self.address = bound_to(sockets)
        if handlers.may_take_sockets:
            self._shared = SharedReads.on(self.loop, self._take_sockets)
        self._sweep = self.loop.call_later(_SWEEP_SECONDS, self._sweep_idle)

    async def listen(self, bound: socket.socket) -> None:
        """Take the connections of one more socket, under the same limits as all others.

        Raises:
            OSError: it cannot be listened on.
        """
        server = await listening(self.loop, self._new_connection, bound)
        self._servers.append(server)
        filedescriptors.listen_long(server)

    def answer_through(self, change: Callable[[Handler], Handler]) -> None:
        """Have each request answered by what ``change`` makes of its handler, from now on."""
        by_code = {code: change(each) for code, each in self._handlers.by_code.items()}
        self._handlers = attrs.evolve(
            self._handlers,
            by_code=by_code,
            at_once={},
            from_bytes=(),
            from_sockets=None,
            codes_from_bytes=(),
        )

    def _new_connection(self) -> asyncio.Protocol:
        peer = ServerConnection(self)
        return peer if self.encryption is None else ProtocolDetector(peer, self.encryption)

    async def stop(self) -> None:
        """Take no more requests, finish what was begun, and close all connections."""
        await stop_listening(self.loop, self._servers)
        if self._sweep is not None:
            self._sweep.cancel()
        self.is_stopping = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
        if self._taken_count:
            self._all_ended = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._all_ended.wait()
        for peer in list(self.peers):
            peer.end()
        await self._until_all_left()
        for peer in list(self.peers):
            peer.cut("it leaves its answers unread, and the server stops")
        await self._until_all_left()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
        if self._shared is not None:
            self._shared.close()

    async def _until_all_left(self) -> None:
        if self.peers:
            self._all_left = self.loop.create_future()
            await asyncio.wait([self._all_left], timeout=_CLOSE_SECONDS)

    # ------------------------------------------------------------------ for peers

    def admit(self, peer: ServerConnection, descriptor: int) -> bool:
        """Note a new connection; False if there are too many."""
        self.peers.add(peer)
        return self._admission.allows(len(self.peers), descriptor)

    def forget(self, peer: ServerConnection) -> None:
        """Drop a connection that is gone."""
        self.peers.discard(peer)
        self.paused.discard(peer)
        self.deaf.discard(peer)
        if not self.peers and self._all_left is not None and not self._all_left.done():
            self._all_left.set_result(None)

    def unread_bytes(self) -> int:
        """Return the bytes of answers that wait for connections to be read."""
        return sum(peer.unread_size for peer in self.deaf)

    def cut_heaviest(self) -> None:
        """Cut the connection whose unfinished frame takes most: not who happens to come next."""
        heaviest = max(self.peers, key=lambda peer: peer.held_size)
        heaviest.cut("unfinished frames of all connections take too much memory, its own most")

    def cut_deafest(self) -> None:
        """Cut the connection that leaves most of its answers unread."""
        deafest = max(self.deaf, key=lambda peer: peer.unread_size)
        deafest.cut("of all connections it leaves most of its answers unread")
        self.deaf.discard(deafest)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done, and keep it from being collected meanwhile."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def take_bytes(self, peer: ServerConnection, data: bytes | bytearray) -> FromBytes:
        """Take requests with which a connection's bytes begin, and end them."""
        if self.is_stopping:
            return NOTHING
        taken = self._handlers.take_bytes(peer, data)
        self.request_count += taken[2]
        return taken

    def share(self, peer: ServerConnection, descriptor: int) -> bool:
        """Have a connection read together with others; False if that is not done here."""
        if self._shared is None or not self._handlers.may_take_sockets or self.is_stopping:
            return False
        return self._shared.add(peer, descriptor)

    def unshare(self, descriptor: int) -> None:
        """Have a connection read by its transport again."""
        if self._shared is not None:
            self._shared.remove(descriptor)

    def _take_sockets(
        self, sockets: Sequence[Socket], peers: Sequence[Connection]
    ) -> FromSockets | None:
        """Take requests of connections that are read together; None if none of them was read."""
        if self.is_stopping or self.request_bytes >= self.limits.bytes_of_all:
            return None
        taken = self._handlers.take_sockets(sockets, peers)
        if taken is not None:
            self.request_count += taken[0]
        return taken

    def may_take(self, code: int) -> bool:
        """Whether requests of this code can be taken at once, or from their bytes."""
        return self._handlers.may_take(code)

    def take(self, request: Request) -> bool:
        """Take a request at once, which `Connection.finish` ends; False if that cannot be."""
        self._taken_count += 1  # first: it may have ended when this comes back
        if self._handlers.take(request):
            self.request_count += 1
            return True
        self._taken_count -= 1
        return False

    def held(self, count: int) -> None:
        """Note that requests were taken that are answered later; `finished` ends them."""
        self._taken_count += count

    def finished(self, count: int) -> None:
        """Note that requests have ended that were taken at once."""
        self._taken_count -= count
        if self._all_ended is not None and not self._taken_count:
            self._all_ended.set()

    async def answer(self, request: Request) -> Command | None:
        """Return the answer to a request; None if it comes later, or never."""
        self.request_count += 1
        return await self._handlers.answer(request)

    def go_on(self) -> None:
        """Let connections be read again that waited for others."""
        if self.paused and self.request_bytes < self.limits.bytes_of_all:
            for peer in list(self.paused):
                peer.go_on()

    def _sweep_idle(self) -> None:
        """Close connections on which nothing has moved for long."""
        self._sweep = self.loop.call_later(_SWEEP_SECONDS, self._sweep_idle)
        self.close_idle(self.loop.time())

    def close_idle(self, now: float) -> None:
        """Close connections on which nothing has moved before ``now``, s, for long enough."""
        for peer in list(self.peers):
            if now - peer.last_moved > self.limits.idle_seconds:
                peer.cut("idle")
