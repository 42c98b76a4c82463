"""A server over a store of its own, on free ports of loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
from durablesends import SEND, Disk, count_shared, ordinary
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import ResponseCode
from reput_server import Server, ServerConfig, serving
from reput_server.wire.serverconnection import _SHARED_AFTER

SMALL = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1_000},
}
PLUGINS = frozenset({"consumequeue", "consumer", "filter", "index", "schedule", "transaction"})
ANYWHERE = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))


@attrs.frozen(eq=False)
class Served:
    """A store, and the server before it."""

    store: reput.Store
    server: Server
    _open: ExitStack

    def peer(self) -> WirePeer:
        """A connection to the broker."""
        return self._open.enter_context(WirePeer(self.server.address))

    def names(self) -> WirePeer:
        """A connection to the name server."""
        return self._open.enter_context(WirePeer(self.server.name_server))

    def wait_counted(self) -> None:
        """Return when all messages have come to their queues and were counted."""
        statistics, end = self.server.broker.context.statistics, self.store.log.max_physical_offset
        assert self.store.wait_dispatched(timeout=20)
        pause, deadline = threading.Event(), time.monotonic() + 20
        while statistics.counted_to < end:
            assert time.monotonic() < deadline
            pause.wait(0.001)

    def wait_until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds on the server's loop, turn by turn of it."""
        for _ in range(100_000):
            found: list[object] = []
            self.on_loop(lambda found=found: found.append(holds()))
            if found[0]:
                return
        raise AssertionError("it never came to hold")

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call something on the server's event loop, and wait for it."""
        import asyncio

        async def run() -> None:
            call()

        asyncio.run_coroutine_threadsafe(run(), self.server.service.loop).result(20)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serves the test's store; arguments: plugins, options of the server, sections of the store."""
    with ExitStack() as stack:

        def begin(
            plugins: frozenset[str] = PLUGINS, *, mode: str = "w", sections=None, **options: object
        ) -> Served:
            store = stack.enter_context(
                reput.open(
                    tmp_path / "store", mode, plugins=plugins, config={**SMALL, **(sections or {})}
                )
            )
            config = attrs.evolve(ANYWHERE, **options)
            server = stack.enter_context(serving(store, config, is_writable=mode == "w"))
            return Served(store, server, stack)

        yield begin


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A store with the plugins of a broker, and its server."""
    return serve()


@pytest.fixture
def durable(serve: Callable[..., Served]) -> Served:
    """A server whose answers wait for the disk, with a topic."""
    served = serve(sections={"commitlog": {"flush": "sync"}})
    served.server.broker.sends.clock = lambda: 0.0  # no put is slow
    assert served.peer().ask(SEND, message("orders"), body=b"").code == ResponseCode.SUCCESS
    return served


@pytest.fixture
def disk(durable: Served) -> Disk:
    """Waits for the disk, which a test may hold up or let fail."""
    return Disk(durable)


@pytest.fixture
def sharing(durable: Served, disk: Disk) -> list[WirePeer]:
    """Connections that are read together; their last answers came when messages were on disk."""
    peers = [durable.peer() for _ in range(3)]
    for at in range(2 * _SHARED_AFTER):
        for peer in peers:
            peer.socket.sendall(ordinary(at))
            assert peer.receive().opaque == at
    assert count_shared(durable) == 3
    disk.begun.clear()
    return peers
