"""`Listener`: one address, its connections, and what these may take together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_server.grpc.transport.answermemory import AnswerMemory
from reput_server.grpc.transport.connection import Connection
from reput_server.grpc.transport.receivequeue import ReceiveQueue
from reput_server.wire import filedescriptors
from reput_server.wire.admission import Admission
from reput_server.wire.encryption import ProtocolDetector
from reput_server.wire.ports import listening, stop_listening

if TYPE_CHECKING:
    import socket

    from reput_server.config import Limits
    from reput_server.grpc.transport.methods import Method
    from reput_server.wire.encryption import Encryption

_CALLS: Final = 20_000
"""At once; further ones are refused."""
_SWEEP_SECONDS: Final = 10.0
_UNREAD_SECONDS: Final = 10.0
"""How long a client may leave a part of an answer unread while others wait for the memory."""
_CLOSE_SECONDS: Final = 2.0
"""How long clients may take to read their answers once the server stops."""


@attrs.define(eq=False, repr=False)
class Listener:
    """Listens on one address. All of it runs on the event loop."""

    loop: asyncio.AbstractEventLoop
    methods: Mapping[str, Method]
    """By path."""
    limits: Limits
    encryption: Encryption | None = None
    """How connections may be encrypted; None if they may not."""
    answers: AnswerMemory = attrs.field(init=False)
    receiving: ReceiveQueue = attrs.field(init=False)
    _connections: set[Connection] = attrs.field(init=False, factory=set)
    _servers: list[asyncio.Server] = attrs.field(init=False, factory=list)
    _sweep: asyncio.TimerHandle | None = attrs.field(init=False, default=None)
    _held_size: int = attrs.field(init=False, default=0)
    _call_count: int = attrs.field(init=False, default=0)
    _admission: Admission = attrs.field(init=False)
    _changed: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    """Set when a call or a connection has ended."""

    def __attrs_post_init__(self) -> None:
        self._admission = Admission(self.limits)
        self.answers = AnswerMemory.of(self.limits, self._cut_unread)
        self.receiving = ReceiveQueue(self.loop)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Listen on sockets that are bound.

        Raises:
            OSError: one of them cannot be listened on.
        """
        for each in sockets:
            server = await listening(self.loop, self._new_connection, each)
            self._servers.append(server)
            filedescriptors.listen_long(server)
        self._sweep = self.loop.call_later(_SWEEP_SECONDS, self._sweep_idle)

    def _new_connection(self) -> asyncio.Protocol:
        connection = Connection(self)
        return (
            connection if self.encryption is None else ProtocolDetector(connection, self.encryption)
        )

    async def stop(self, grace: float) -> None:
        """Take no more calls, give open calls some seconds, and close all connections."""
        await stop_listening(self.loop, self._servers)
        if self._sweep is not None:
            self._sweep.cancel()
        for each in list(self._connections):
            each.shut()
        await self._until(lambda: not self._call_count, grace)
        for each in list(self._connections):
            each.cancel_all()
        await self._until(lambda: not self._call_count, _CLOSE_SECONDS)
        for each in list(self._connections):
            each.flush()  # the last answers
            each.end()
        await self._until(lambda: not self._connections, _CLOSE_SECONDS)
        for each in list(self._connections):
            each.cut("it leaves its answers unread, and the server stops")
        await self._until(lambda: not self._connections, _CLOSE_SECONDS)

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()

    # ------------------------------------------------------------------ for connections

    def admit(self, connection: Connection, descriptor: int) -> bool:
        """Note a new connection; False if there are too many."""
        self._connections.add(connection)
        return self._admission.allows(len(self._connections), descriptor)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that is gone."""
        self._connections.discard(connection)
        self._changed.set()

    def begin(self) -> bool:
        """Count a call; False if there are too many."""
        if self._call_count >= _CALLS:
            return False
        self._call_count += 1
        return True

    def end(self) -> None:
        """Count a call no more."""
        self._call_count -= 1
        self._changed.set()

    def count_held(self, size: int) -> None:
        """Note by how many bytes what requests hold in memory has grown."""
        self._held_size += size

    @property
    def is_full(self) -> bool:
        """Whether requests take all the memory that they may."""
        return self._held_size > self.limits.bytes_of_all

    def _cut_unread(self) -> None:
        """Cut the connection that leaves most of its answers unread, and does so for long."""
        since = self.loop.time() - _UNREAD_SECONDS
        found = [each for each in self._connections if each.unread_since < since]
        if found:
            most = max(found, key=lambda each: each.answers.held_size)
            most.cut("of all connections it leaves most of its answers unread")

    def _sweep_idle(self) -> None:
        """Close connections on which nothing has moved for long."""
        self._sweep = self.loop.call_later(_SWEEP_SECONDS, self._sweep_idle)
        now = self.loop.time()
        for each in list(self._connections):
            if now - each.last_moved > self.limits.idle_seconds:
                each.close_idle()
