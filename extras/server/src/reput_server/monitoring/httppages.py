"""`HttpPages`: answers GET requests with what functions return; bounds what a peer takes.

One request a connection, no bodies of requests, a few connections at a time, a few seconds each:
what scrapers and health checks need. `http.server` of the standard library reads the requests, on
threads; the event loop makes the answers.
"""

from __future__ import annotations

import asyncio
import io
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from reput_client.remoting import Address

logger = logging.getLogger(__name__)

_CONNECTIONS_MAX: Final = 32
_HEAD_MAX: Final = 16 << 10
"""Bytes of the first line and the headers of a request."""
_SECONDS: Final = 10.0
_LOOK_S: Final = 0.25


@attrs.frozen
class Page:
    """What a request is answered with."""

    content: bytes
    kind: str
    """Its media type."""
    status: HTTPStatus = HTTPStatus.OK


@attrs.define(eq=False)
class HttpPages:
    """Listens on one address. Its methods run on the event loop."""

    by_path: Mapping[str, Callable[[], Awaitable[Page]]]
    seconds: float = _SECONDS
    """How long a connection may last."""
    address: Address = attrs.field(init=False, default=("", 0))
    """Where it listens, with the port that was found free."""
    _server: _Server | None = attrs.field(init=False, default=None)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()

        def page(path: str) -> Page:
            found = self.by_path.get(path)
            if found is None:
                known = ", ".join(sorted(self.by_path))
                return text_page(HTTPStatus.NOT_FOUND, f"; known are {known}")
            answer = asyncio.run_coroutine_threadsafe(_awaited(found), loop)
            return answer.result(self.seconds)

        self._server = await asyncio.to_thread(_Server, address, page, self.seconds)
        name = self._server.socket.getsockname()
        self.address = str(name[0]), int(name[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_S,), name="reput-serve-http", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)


async def _awaited(found: Callable[[], Awaitable[Page]]) -> Page:
    return await found()


class _Server(ThreadingHTTPServer):
    # Threads may wait for a peer until its time is over; nobody waits for them at the end.
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: Address, page: Callable[[str], Page], seconds: float) -> None:
        self.page = page
        self.seconds = seconds
        self._open: dict[socket.socket, float] = {}
        self._turn = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Listen; the standard library also asks for the host's name, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind(self.server_address)
        except OSError as error:
            host, port = self.server_address[:2]
            text = f"{host!s}:{port} cannot be listened on: {error.strerror or error}"
            raise OSError(error.errno, text) from None
        self.server_address = self.socket.getsockname()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a connection, up to a number of them."""
        with self._turn:
            if len(self._open) >= _CONNECTIONS_MAX:
                return False
            self._open[request] = time.monotonic() + self.seconds
        return True

    def shutdown_request(self, request: Any) -> None:
        with self._turn:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections whose time is over, however slowly their peers send or read."""
        self._end(time.monotonic())

    def _end(self, until: float) -> None:
        with self._turn:
            for each, deadline in self._open.items():
                if deadline <= until:
                    try:
                        # It counts until its thread ends, which may still wait for a page.
                        each.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass  # its peer has left

    def stop(self) -> None:
        """End all connections."""
        self.shutdown()
        self.server_close()
        self._end(float("inf"))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of peers that leave."""
        logger.debug("connection failed peer=%s", client_address)


class _Head(io.BufferedReader):
    """What a request begins with; ends after so many bytes, as if no more came."""

    left: int = _HEAD_MAX

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(self.left if size is None or size < 0 else min(size, self.left))
        self.left -= len(line)
        return line


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    rfile: _Head
    protocol_version = "HTTP/1.1"
    # Else what is not HTTP is answered without status and headers, as HTTP/0.9 does.
    default_request_version = "HTTP/1.0"

    def setup(self) -> None:
        self.request.settimeout(self.server.seconds)
        super().setup()
        self.rfile = _Head(self.rfile.detach())

    def parse_request(self) -> bool:
        """Read the head, and refuse one that is too long."""
        is_valid = super().parse_request()
        if is_valid and not self.rfile.left:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return False
        return is_valid

    def finish(self) -> None:
        """Wait until the peer has the answer: closed with bytes unread, a connection is reset."""
        try:
            super().finish()
            self.connection.shutdown(socket.SHUT_WR)
            while self.connection.recv(65_536):
                pass
        except OSError:
            pass  # too slow, or gone

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            page = self.server.page(path)
        except CancelledError:  # the event loop ends
            page = text_page(HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception as error:  # whatever a page raises, its peer gets an answer
            logger.exception("page failed path=%r", path[:200])
            page = text_page(HTTPStatus.INTERNAL_SERVER_ERROR, f": {type(error).__name__}")
        self._answer(page)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, page: Page) -> None:
        self.close_connection = True
        self.send_response(page.status.value)
        fields = {
            "Content-Type": page.kind,
            "Content-Length": str(len(page.content)),
            "Cache-Control": "no-store",
            "Connection": "close",
            "Content-Security-Policy": "default-src 'none'; base-uri 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not valid, or has another method."""
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:  # for any method that has no function here
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._answer(text_page(status))

    def version_string(self) -> str:
        """Return the name in the header ``Server``, without versions."""
        return "reput"

    def log_message(self, *args: Any) -> None:
        """Write nothing per request."""


def text_page(status: HTTPStatus, more: str = "") -> Page:
    """Return a page of one line."""
    text = f"{status.value} {status.phrase}{more}\n"
    return Page(text.encode(), "text/plain; charset=utf-8", status)
