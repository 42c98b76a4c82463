"""`Server`: a broker and a name server on one event loop, perhaps in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.files import Disk
from reput.log import ledger_in
from reput.record import pack_host
from reput_client.remoting import Address
from reput_server.broker.broker import Broker
from reput_server.broker.lite.liteexpiry import LiteExpiry
from reput_server.brokersettings import refuse_hidden_settings
from reput_server.config import ServerConfig
from reput_server.errors import ServerError
from reput_server.nameserver.configuration import NameConfiguration
from reput_server.nameserver.registrar import Registrar
from reput_server.nameserver.routehandlers import NameHandlers
from reput_server.nameserver.routetable import RouteTable
from reput_server.protocolservice import ProtocolService, service_class
from reput_server.replication.replicaservice import ReplicaService
from reput_server.wire.certificates import context_of
from reput_server.wire.encryption import Encryption
from reput_server.wire.eventloop import loop_factory
from reput_server.wire.filedescriptors import word_accept_errors
from reput_server.wire.ports import Ports, bound_to
from reput_server.wire.portservice import PortService
from reput_server.wire.requestdispatcher import RequestDispatcher
from reput_server.wire.shutdownthread import finish_on_thread

if TYPE_CHECKING:
    from reput import Store
    from reput_consumer import MessageQueue
    from reput_server.monitoring.monitor import FigureKeeper, Monitor
    from reput_server.webpages.pages import ServedPages
    from reput_server.webpages.webconfig import WebConfig

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 30.0
_PAGES_SECONDS = 60.0


@attrs.define(eq=False, repr=False)
class Server:
    """A broker over a store, a name server, or both."""

    store: Store | None = None
    """The store that the broker serves; its opener closes it, after the server."""
    config: ServerConfig = attrs.field(factory=ServerConfig)
    is_writable: bool = True
    """False if the store was opened for reading."""
    ports: Ports | None = None
    """Addresses that were taken before; those of ``config`` are taken at the start if left out."""
    broker: Broker | None = attrs.field(init=False, default=None)
    names: PortService | None = attrs.field(init=False, default=None)
    """The name server's connections."""
    service: PortService | None = attrs.field(init=False, default=None)
    """The broker's connections."""
    replicas: ReplicaService | None = attrs.field(init=False, default=None)
    """The HA port, where slaves and followers get the log."""
    expiry: LiteExpiry | None = attrs.field(init=False, default=None)
    """Deletes lite topics after a time; None if the store is only read."""
    registrar: Registrar | None = attrs.field(init=False, default=None)
    """Keeps the broker known at name servers of others; None without any."""
    fast_address: Address | None = attrs.field(init=False, default=None)
    """Where old Java clients send, two ports below the broker's; None if nobody listens there."""
    fast_error: str = attrs.field(init=False, default="")
    """Why nobody does, although somebody is to."""
    grpc: ProtocolService | None = attrs.field(init=False, default=None)
    """Serves clients of RocketMQ 5."""
    watch: Monitor | None = attrs.field(init=False, default=None)
    """Metrics and the health."""
    keeper: FigureKeeper | None = attrs.field(init=False, default=None)
    """The figures that metrics and pages are made of; None without either."""
    pages: ServedPages | None = attrs.field(init=False, default=None)
    """Pages for a browser."""

    def __repr__(self) -> str:
        """Name the addresses: what a server is made of refers to itself in thousands of ways."""
        return f"<Server broker={self.address} names={self.name_server}>"

    async def start(self) -> None:
        """Listen on all addresses.

        Raises:
            OSError: one of them cannot be listened on; nothing is, then.
            ServerError: the store cannot be served, a file of certificates cannot be used, or what
                makes metrics or pages is not installed.
        """
        try:
            await self._start(asyncio.get_running_loop())
        except BaseException:
            await self.stop()
            raise

    async def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        config = self.config
        encryption = _encryption_of(config)
        if self.ports is None:
            self.ports = await asyncio.to_thread(Ports.take, config)
        ports = self.ports
        if self.store is not None and ports.broker:
            self.service = PortService(loop, config.limits, encryption)
            if ports.replicas:
                self.replicas = await self._replicating(self.store, ports, loop, encryption)
            self.broker = Broker.of(
                self.store,
                config,
                loop,
                self.service.begin,
                ports.address,
                pack_host(*ports.store_address),
                is_writable=self.is_writable,
                replicas=self.replicas,
            )
            await self.broker.context.run(self.broker.context.topics.look)
            handlers = self.broker.handlers(config.access_keys)
            await self.service.start(ports.broker, handlers)
            if self.is_writable:
                self.expiry = LiteExpiry(
                    self.broker.context, self.broker.lite.subscriptions, self.service.begin
                )
                self.expiry.start()
            await self._listen_beside(self.service, ports)
            if config.register:
                self.registrar = self._registered(self.broker, self.service, loop)
        if ports.names:
            # Without access keys: brokers and clients of RocketMQ send none to name servers.
            names = NameHandlers(RouteTable(self.broker), _now)
            options = NameConfiguration(bound_to(ports.names), config.limits)
            self.names = PortService(loop, config.limits, encryption)
            await self.names.start(
                ports.names, RequestDispatcher({**names.by_code(), **options.by_code()})
            )
        if config.grpc is not None and self.broker is not None:
            service = service_class("grpc")(self.broker, config.grpc)
            self.grpc = service
            await service.start()
        if self.broker is not None and (config.metrics is not None or config.web is not None):
            await self._watch(self.broker)

    async def _listen_beside(self, service: PortService, ports: Ports) -> None:
        """Listen on the ports below, too; one that cannot be had costs nothing else."""
        self.fast_error = ports.fast_error
        for each in ports.fast:
            try:
                await service.listen(each)
            except OSError as error:  # another process has listened first
                self.fast_error = str(error.strerror or error)
            else:
                self.fast_address = self.fast_address or bound_to([each])
        if self.fast_error:
            logger.warning("fast port not listened on error=%s", self.fast_error)

    async def _replicating(
        self,
        store: Store,
        ports: Ports,
        loop: asyncio.AbstractEventLoop,
        encryption: Encryption | None,
    ) -> ReplicaService:
        if not self.is_writable:
            text = (
                "a store that is opened for reading cannot have replicas, because it does not "
                "know which bytes are on disk"
            )
            raise ServerError(f"{text}; leave replicas out, or open it for writing")
        if ledger_in(store.root, Disk()) is not None:
            text = "a log of DLedger has heads of entries, which the log of a replica does not have"
            raise ServerError(
                f"{store.root}: {text}; leave replicas out: `reput follow --directory` makes one"
            )
        config = self.config
        replicas = ReplicaService(store, loop, config.limits, encryption, config.sync_replicas)
        await replicas.start(ports.replicas)
        return replicas

    def _registered(
        self, broker: Broker, service: PortService, loop: asyncio.AbstractEventLoop
    ) -> Registrar:
        registrar = Registrar(broker, self.config.register, service, _now)

        def changed() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so has the broker
                loop.call_soon_threadsafe(registrar.changed)

        broker.context.topics.watch(changed)
        registrar.start()
        return registrar

    async def _watch(self, broker: Broker) -> None:
        # Imported here, as a server without them needs none of it.
        from reput_server.monitoring.monitor import FigureKeeper, Monitor

        self.keeper = FigureKeeper(broker, self._ports, self.grpc)
        if self.config.metrics is not None:
            self.watch = Monitor(self.keeper)
            await self.watch.start(self.config.metrics)
        if self.config.web is not None:
            await self._show(broker, self.keeper, self.config.web)

    async def _show(self, broker: Broker, keeper: FigureKeeper, config: WebConfig) -> None:
        from reput_server.monitoring.livedocument import live_document
        from reput_server.webpages.pages import PagesSource, started_pages

        if config.can_write and not self.is_writable:
            text = "pages cannot change a store that is opened for reading"
            raise ServerError(f"{text}; leave can_write out, or open it for writing")
        loop = asyncio.get_running_loop()

        def figures() -> dict[str, Any]:
            found = asyncio.run_coroutine_threadsafe(keeper.figures(), loop)
            return live_document(found.result(_PAGES_SECONDS), broker)

        def move_group(group: str, offsets: Mapping[MessageQueue, int]) -> None:
            moved = asyncio.run_coroutine_threadsafe(broker.move_group(group, offsets), loop)
            moved.result(_PAGES_SECONDS)

        source = PagesSource(store=broker.context.store, figures=figures, move_group=move_group)
        self.pages = await asyncio.to_thread(started_pages, source, config)

    def _ports(self) -> dict[str, PortService]:
        found = {"broker": self.service, "names": self.names}
        return {name: service for name, service in found.items() if service is not None}

    async def stop(self) -> None:
        """Finish what was begun, and close all connections."""
        if self.pages is not None:
            await asyncio.to_thread(self.pages.stop)
        if self.watch is not None:
            await self.watch.stop()
        if self.grpc is not None:
            await self.grpc.stop()
        if self.expiry is not None:
            self.expiry.stop()
        if self.registrar is not None:
            await self.registrar.stop()
        for service in (self.service, self.names):
            if service is not None:
                await service.stop()
        if self.replicas is not None:
            await self.replicas.stop()
        if self.broker is not None:
            await finish_on_thread(self.broker.close)
        if self.ports is not None:
            self.ports.close()

    @property
    def event_loop(self) -> str:
        """Whose event loop it runs on: ``uvloop`` or ``asyncio``; nothing before the start."""
        service = self.service or self.names
        return "" if service is None else type(service.loop).__module__.partition(".")[0]

    @property
    def metrics(self) -> Address | None:
        """Where metrics and the health are; None if they are nowhere."""
        return None if self.watch is None else self.watch.address

    @property
    def web(self) -> str | None:
        """Address of the first page for a browser; None without pages."""
        return None if self.pages is None else self.pages.url

    @property
    def address(self) -> Address | None:
        """Where the broker listens; None if it does not listen."""
        return None if self.service is None else self.service.address

    @property
    def name_server(self) -> Address | None:
        """Where the name server listens; None if it does not listen."""
        return None if self.names is None else self.names.address


@contextlib.contextmanager
def serving(
    store: Store | None,
    config: ServerConfig | None = None,
    *,
    is_writable: bool = True,
    ports: Ports | None = None,
) -> Iterator[Server]:
    """Serve a store from a thread of its own, for the time of a ``with`` block.

    Args:
        store: the store; None for a name server alone.
        config: addresses and limits.
        is_writable: False if the store was opened for reading.
        ports: addresses that were taken before the store was opened, so that its records name
            that of the broker; those of ``config`` when left out.

    Raises:
        OSError: an address cannot be listened on.
        ServerError: the store cannot be served.
    """
    if store is not None and is_writable:
        refuse_hidden_settings(store.root)
    server = Server(store, config or ServerConfig(), is_writable, ports)
    started: list[BaseException | None] = []
    is_ready, stops = threading.Event(), asyncio.Event()

    async def run() -> None:
        word_accept_errors(asyncio.get_running_loop())
        try:
            await server.start()
        except BaseException as error:
            started.append(error)
            raise
        finally:
            loops.append(asyncio.get_running_loop())
            is_ready.set()
        await stops.wait()
        await server.stop()

    def main() -> None:
        with (
            contextlib.suppress(Exception),  # raised in the caller
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            runner.run(run())

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=main, name="reput-serve", daemon=True)
    thread.start()
    is_ready.wait()
    if started:
        thread.join()
        raise started[0] or RuntimeError("the server ended")
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stops.set)
        thread.join(_WAIT_SECONDS)


def _encryption_of(config: ServerConfig) -> Encryption | None:
    context = context_of(config.tls)
    if config.tls is None or context is None:
        return None
    return Encryption(context, is_required=config.tls.mode == "enforcing")


def _now() -> int:
    return time.time_ns() // 1_000_000
