"""`HttpPages`: answers GET requests with what functions return; bounds what a peer takes.

One request a connection, no bodies of requests, a few connections at a time, a few seconds each:
what scrapers, people and health checks need.

Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import attrs

from reput_server.wire.ports import stop_listening

if TYPE_CHECKING:
    from reput_client.remoting import Address

__all__ = ["HttpPages", "Page"]

logger = logging.getLogger(__name__)

_HEAD_MAX: Final = 16 << 10
_CONNECTIONS_MAX: Final = 32
_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"


@attrs.frozen
class Page:
    """What a request is answered with."""

    content: bytes
    kind: str
    """Its media type."""
    status: HTTPStatus = HTTPStatus.OK


@attrs.define(eq=False)
class HttpPages:
    """Listens on one address. All of it runs on the event loop."""

    by_path: Mapping[str, Callable[[], Awaitable[Page]]]
    seconds: float = _SECONDS
    """How long a connection may last."""
    address: Address = attrs.field(init=False, default=("", 0))
    """Where it listens, with the port that was found free."""
    _server: asyncio.Server | None = attrs.field(init=False, default=None)
    _open: dict[asyncio.Task[None], asyncio.StreamWriter] = attrs.field(init=False, factory=dict)

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        self._server = await asyncio.start_server(self._take, *address, limit=_HEAD_MAX)
        name = self._server.sockets[0].getsockname()
        self.address = str(name[0]), int(name[1])

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            await stop_listening(asyncio.get_running_loop(), [self._server])
        tasks = list(self._open)
        for writer in self._open.values():
            writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._open[task] = writer
        try:
            async with asyncio.timeout(self.seconds):
                await self._exchange(reader, writer)
        except (TimeoutError, OSError, EOFError):
            writer.transport.abort()  # too slow, or gone
        finally:
            del self._open[task]

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            page, is_head = _told(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), False
        else:
            page, is_head = await self._page(head)
        fields = {
            "Content-Type": page.kind,
            "Content-Length": str(len(page.content)),
            "Cache-Control": "no-store",
            "Connection": "close",
            "Content-Security-Policy": _POLICY,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        if not is_head:
            writer.write(page.content)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        # Closed with bytes unread, a connection is reset, and its peer may lose the answer.
        while await reader.read(_HEAD_MAX):
            pass
        writer.close()
        await writer.wait_closed()

    async def _page(self, head: bytes) -> tuple[Page, bool]:
        """Return what a request is answered with, and whether only the head is wanted."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _told(HTTPStatus.BAD_REQUEST), False
        method, path = words[0], words[1].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return _told(HTTPStatus.METHOD_NOT_ALLOWED), False
        found = self.by_path.get(path)
        if found is None:
            known = ", ".join(sorted(self.by_path))
            return _told(HTTPStatus.NOT_FOUND, f"; there are {known}"), method == b"HEAD"
        try:
            return await found(), method == b"HEAD"
        except Exception as error:  # whatever a page raises, its peer gets an answer
            logger.exception("page failed path=%s", path)
            text = f": {type(error).__name__}"
            return _told(HTTPStatus.INTERNAL_SERVER_ERROR, text), method == b"HEAD"


def _told(status: HTTPStatus, more: str = "") -> Page:
    text = f"{status.value} {status.phrase}{more}\n"
    return Page(text.encode(), "text/plain; charset=utf-8", status)
