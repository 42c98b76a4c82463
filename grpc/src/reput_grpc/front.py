"""`Front`: plain and encrypted connections on one port, told apart by their first byte.

gRPC's library encrypts a port or does not. So it listens on two sockets of the file system, and the
front passes the bytes of each connection on to one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput_remoting import Address

__all__ = ["Front"]

_TLS_HANDSHAKE: Final = b"\x16"
_FIRST_SECONDS: Final = 30.0
_CHUNK: Final = 64 << 10


@attrs.define(eq=False)
class Front:
    """Accepts connections. Used on the event loop."""

    connections_max: int
    _directory: str = attrs.field(init=False)
    _server: asyncio.Server | None = attrs.field(init=False, default=None)
    _connections: set[asyncio.Task[None]] = attrs.field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="reput-grpc-")  # for this user alone

    @property
    def plain(self) -> str:
        """Path of the socket for plain connections."""
        return os.path.join(self._directory, "plain")

    @property
    def encrypted(self) -> str:
        """Path of the socket for encrypted connections."""
        return os.path.join(self._directory, "tls")

    async def start(self, listen: Address) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server = await asyncio.start_server(self._accept, *listen)
        return int(self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) <= self.connections_max:
                await self._pass_on(reader, writer)
        except (OSError, EOFError, TimeoutError):
            pass  # one of the two ends is gone
        finally:
            self._connections.discard(task)
            _close(writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_FIRST_SECONDS):
            first = await reader.readexactly(1)
        path = self.encrypted if first == _TLS_HANDSHAKE else self.plain
        inner_reader, inner_writer = await asyncio.open_unix_connection(path)
        try:
            inner_writer.write(first)
            ways = [
                asyncio.ensure_future(_copy(reader, inner_writer)),
                asyncio.ensure_future(_copy(inner_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in ways:
                    each.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            _close(inner_writer)

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        shutil.rmtree(self._directory, ignore_errors=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


def _close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()
