"""`Monitor`: serves metrics, the status page and the health of a server."""

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
from reput_server.monitoring.statuspage import status_page

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.broker.broker import Broker
    from reput_server.monitoring.prometheus import Exposition
    from reput_server.protocolservice import ProtocolService
    from reput_server.wire.portservice import PortService

__all__ = ["Monitor"]

_MAX_AGE: Final = 1.0
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"


@attrs.define(eq=False)
class Monitor:
    """Pages about one server. Used on the event loop; the store is read elsewhere."""

    broker: Broker
    ports: Callable[[], Mapping[str, PortService]]
    """Returns the server's ports, ``broker`` and ``names``."""
    beside: ProtocolService | None = None
    """Serves clients of RocketMQ 5."""
    max_age: float = _MAX_AGE
    """Figures are gathered at most once in this time, s, however many requests come."""
    _since: int = attrs.field(init=False)
    _pages: HttpPages = attrs.field(init=False)
    _exposition: Exposition | None = attrs.field(init=False, default=None)
    _last: tuple[float, ServerFigures] | None = attrs.field(init=False, default=None)
    _turn: asyncio.Lock = attrs.field(init=False, factory=asyncio.Lock)

    def __attrs_post_init__(self) -> None:
        self._since = self.broker.context.clock()
        by_path = {"/": self._status, "/metrics": self._metrics, "/health": self._health}
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
        self._exposition = Exposition(self.broker.context.store)
        await self._pages.start(address)

    async def stop(self) -> None:
        """Close all connections."""
        await self._pages.stop()

    async def _figures(self) -> ServerFigures:
        now = self.broker.context.loop.time()
        if self._last is None or now - self._last[0] >= self.max_age:
            found = await figures_of(self.broker, self.ports(), self._since, self.beside)
            self._last = now, found
        return self._last[1]

    async def _status(self) -> Page:
        async with self._turn:
            found = await self._figures()
            content = status_page(found).encode("utf-8", "replace")
        return Page(content, _HTML)

    async def _metrics(self) -> Page:
        from reput_server.monitoring.prometheus import CONTENT_TYPE

        assert self._exposition is not None
        async with self._turn:
            found = await self._figures()
            content = await asyncio.to_thread(self._exposition.text, found)
        return Page(content, CONTENT_TYPE)

    async def _health(self) -> Page:
        async with self._turn:
            health = (await self._figures()).health
        is_failing = health.status == "failing"
        status = HTTPStatus.SERVICE_UNAVAILABLE if is_failing else HTTPStatus.OK
        found = {"status": health.status, "reasons": health.reasons}
        return Page((json.dumps(found) + "\n").encode(), _JSON, status)
