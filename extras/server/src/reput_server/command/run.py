"""Runs a server over a store until a signal comes."""

from __future__ import annotations

import contextlib
import errno
import gc
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from reput_tools.cli.kit import ExitCode, Failure, warn

if TYPE_CHECKING:
    from reput import Store
    from reput_server.config import ServerConfig
    from reput_server.server import Server
    from reput_server.wire.ports import Ports
    from reput_tools.cli.kit import GracefulStop

_TURN_SECONDS: Final = 0.0005
"""After how long a thread that computes lets the event loop go on, s; 5 ms by default."""


def run(
    path: str,
    config: ServerConfig,
    sections: Mapping[str, Mapping[str, object]],
    given: Mapping[str, Any],
    *,
    read_only: bool,
    as_json: bool,
) -> None:
    """Serve the store at ``path`` until a signal comes.

    Args:
        path: the store's directory.
        config: the server's options.
        sections: options of the store that the command line gives.
        given: options that a file gives.
        read_only: whether nothing may be changed.
        as_json: whether to print one line, for programs.

    Raises:
        Failure: it cannot be served.
    """
    from reput_server.command.options import sections_of
    from reput_server.command.storeopening import opened
    from reput_server.wire.ports import Ports
    from reput_tools.cli.kit import GracefulStop

    try:
        ports = Ports.take(config)
    except OSError as error:
        raise Failure(_unavailable(error, config), ExitCode.UNAVAILABLE) from None
    passed_over = sorted(set(given) - {"server"})
    if read_only and passed_over:
        warn(f"[{passed_over[0]}] is for who writes the store; --read-only passes it over")
    log = {**sections.get("commitlog", {}), **ports.log_options()}
    options = sections_of(given, {**sections, "commitlog": log})
    with (
        ports,
        GracefulStop() as ending,
        opened(path, read_only=read_only, config=options) as store,
    ):
        _serve_on(store, config, ports, ending, read_only=read_only, as_json=as_json)


def _unavailable(error: OSError, config: ServerConfig) -> str:
    """Return why an address cannot be had, and which options name it."""
    text = str(error.strerror or error)
    addresses = {
        "--listen": config.listen,
        "--namesrv": config.name_server,
        "--grpc": config.grpc,
        "--replicas": config.replicas,
        "--metrics": config.metrics,
        "--web": None if config.web is None else config.web.address,
    }
    own = [
        option
        for option, address in addresses.items()
        if address and text.startswith((f"{address[0]}:{address[1]} ", f"{address[0]} "))
    ]
    if len(own) > 1 and error.errno == errno.EADDRINUSE:
        return f"{text}; {' and '.join(own)} name the same address: choose another one for each"
    return f"{text}; choose another address with {' and '.join(own) or ', '.join(addresses)}"


@contextlib.contextmanager
def _at_hand() -> Iterator[None]:
    """Have the process answer soon: its event loop waits neither for other threads nor for gc."""
    turn = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_SECONDS)
    # All objects before the first request stay: no collection looks at it again.
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(turn)


def _serve_on(
    store: Store,
    config: ServerConfig,
    ports: Ports,
    ending: GracefulStop,
    *,
    read_only: bool,
    as_json: bool,
) -> None:
    import asyncio

    from reput_server.errors import ServerError
    from reput_server.server import Server
    from reput_server.wire.eventloop import loop_factory

    server = Server(store, config, not read_only, ports)
    try:
        with _at_hand(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(server, ending, as_json=as_json))
    except ServerError as error:
        raise Failure(str(error), ExitCode.UNAVAILABLE) from None


async def _serve(server: Server, ending: GracefulStop, *, as_json: bool) -> None:
    import asyncio

    from reput_server.command.display import show
    from reput_server.wire.filedescriptors import raise_limit, word_accept_errors

    stops, loop = asyncio.Event(), asyncio.get_running_loop()
    raise_limit()
    word_accept_errors(loop)
    ending.call(lambda: loop.call_soon_threadsafe(stops.set))
    try:
        await server.start()
    except OSError as error:
        raise Failure(_unavailable(error, server.config), ExitCode.UNAVAILABLE) from None
    try:
        show(server, as_json=as_json)
        await stops.wait()
        if not as_json:
            click.echo("stopping; a second signal ends at once", err=True)
    finally:
        await server.stop()
    if not as_json:
        from reput_tools.cli.kit import format_count

        count = 0 if server.service is None else server.service.request_count
        click.echo(f"stopped after {format_count(count, 'request')}", err=True)
