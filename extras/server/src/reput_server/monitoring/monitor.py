"""`Monitor`: serves metrics and the health of a server; `FigureKeeper`: its figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import attrs

from reput.installhints import extra_needed
from reput_server.errors import ServerError
from reput_server.monitoring.httppages import HttpPages, Page
from reput_server.monitoring.serverfigures import ServerFigures, figures_of

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.broker.broker import Broker
    from reput_server.monitoring.prometheus import Exposition
    from reput_server.protocolservice import ProtocolService
    from reput_server.wire.portservice import PortService

_MAX_AGE: Final = 1.0
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_ADDRESSES: Final = (
    "/metrics  metrics, for Prometheus\n"
    "/health   whether the server works, for programs that restart it\n"
    "\n"
    "Pages for people: reput serve STORE --web HOST:PORT\n"
)


@attrs.define(eq=False)
class FigureKeeper:
    """Gathers the figures of one server, on its event loop; the store is read elsewhere."""

    broker: Broker
    ports: Callable[[], Mapping[str, PortService]]
    """Returns the server's ports, ``broker`` and ``names``."""
    beside: ProtocolService | None = None
    """Serves clients of RocketMQ 5."""
    max_age: float = _MAX_AGE
    """Figures are gathered at most once in this time, s, however many requests come."""
    _since: int = attrs.field(init=False)
    _last: tuple[float, ServerFigures] | None = attrs.field(init=False, default=None)
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)

    def __attrs_post_init__(self) -> None:
        self._since = self.broker.context.clock()

    async def figures(self) -> ServerFigures:
        """Return the figures, which may be as old as ``max_age``."""
        async with self._turn:
            now = self.broker.context.loop.time()
            if self._last is None or now - self._last[0] >= self.max_age:
                found = await figures_of(self.broker, self.ports(), self._since, self.beside)
                self._last = now, found
            return self._last[1]


@attrs.define(eq=False)
class Monitor:
    """Answers programs about one server. Used on the event loop."""

    keeper: FigureKeeper
    _pages: HttpPages = attrs.field(init=False)
    _exposition: Exposition | None = attrs.field(init=False, default=None)
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)

    def __attrs_post_init__(self) -> None:
        by_path = {"/": self._addresses, "/metrics": self._metrics, "/health": self._health}
        self._pages = HttpPages(by_path)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._pages.address

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
            ServerError: what makes metrics is not installed.
        """
        try:
            from reput_server.monitoring.prometheus import Exposition
        except ModuleNotFoundError as error:
            text = extra_needed("serving metrics", error.name, "tools", "prometheus")
            raise ServerError(text) from None
        self._exposition = Exposition(self.keeper.broker.context.store)
        await self._pages.start(address)

    async def stop(self) -> None:
        """Close all connections."""
        await self._pages.stop()

    async def _addresses(self) -> Page:
        return Page(_ADDRESSES.encode(), _TEXT)

    async def _metrics(self) -> Page:
        from reput_server.monitoring.prometheus import CONTENT_TYPE

        assert self._exposition is not None
        async with self._turn:
            found = await self.keeper.figures()
            content = await asyncio.to_thread(self._exposition.text, found)
        return Page(content, CONTENT_TYPE)

    async def _health(self) -> Page:
        health = (await self.keeper.figures()).health
        is_failing = health.status == "failing"
        status = HTTPStatus.SERVICE_UNAVAILABLE if is_failing else HTTPStatus.OK
        found = {"status": health.status, "reasons": health.reasons}
        return Page((json.dumps(found) + "\n").encode(), _JSON, status)
