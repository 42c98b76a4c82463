"""Reads what `reput follow` is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import click

from reput.installhints import extra_needed
from reput_tools.cli.kit import ExitCode, Failure

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.follow.follower.source import AnySource

_NAME_SERVER_PORT: Final = 9876


def read_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    """Return a peer's address."""
    return None if value is None else _parsed(context, option, value, 1)


def read_metrics_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    """Return an address to listen on, port 0 for a free one, if what makes metrics is installed."""
    import importlib.util

    if value is None:
        return None
    found = _parsed(context, option, value, 0)
    if importlib.util.find_spec("prometheus_client") is None:
        text = extra_needed("--metrics", "prometheus_client", "tools", "prometheus")
        raise Failure(text, ExitCode.UNAVAILABLE)
    return found


def read_listen_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | Literal["none"] | None:
    """Return an address to listen on, port 0 for a free one, or ``none`` where that is a choice."""
    if value is None:
        return None
    if value == "none" and option.name == "serve_namesrv":
        return "none"
    return _parsed(context, option, value, 0)


def _parsed(
    context: click.Context, option: click.Parameter, value: str, least_port: int
) -> Address:
    from reput_client.remoting import AddressError, parse_address

    try:
        return parse_address(value, least_port=least_port)
    except AddressError as error:
        raise click.BadParameter(str(error), context, option) from None


def serving_of(
    listen: Address | None, names: Address | Literal["none"] | None
) -> tuple[Address, Address | None] | None:
    """Return where broker and name server of the store listen; None if it is not served.

    Raises:
        click.UsageError: a name server alone is given, or clients on other machines could not
            be given an address.
    """
    if listen is None:
        if names is not None:
            raise click.UsageError("--serve-namesrv goes with --serve HOST:PORT")
        return None
    if listen[0] in ("0.0.0.0", "::"):
        text = f"--serve: {listen[0]} is not an address for clients; name one that they can reach"
        raise click.UsageError(text)
    if names is None:
        return listen, (listen[0], _NAME_SERVER_PORT)
    return listen, None if names == "none" else names


def read_begin(context: click.Context, option: click.Parameter, value: str) -> str | int:
    """Return ``oldest``, ``latest`` or a physical offset."""
    if value in ("oldest", "latest"):
        return value
    if value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    text = f"{value!r}: oldest, latest or a physical offset is expected"
    raise click.BadParameter(text, context, option)


def source_of(
    address: Address | None, name_servers: str | None, broker: str | None, directory: str | None
) -> AnySource:
    """Return the source that the options name.

    Raises:
        click.UsageError: they name none, or two.
    """
    from reput_client.remoting import AddressError
    from reput_server.follow.follower.source import DirectorySource, Source

    if [address, name_servers, directory].count(None) != 2:
        text = "name the broker: either --from HOST:PORT, or --namesrv HOST:PORT and --broker NAME"
        raise click.UsageError(f"{text}, or --directory PATH")
    if directory is not None:
        if broker is not None:
            raise click.UsageError("--broker goes with --namesrv; --directory names the broker")
        return DirectorySource(directory)
    if address is not None:
        if broker is not None:
            raise click.UsageError("--broker goes with --namesrv; --from names the broker already")
        return Source(address=address)
    if not broker:
        raise click.UsageError("--namesrv needs --broker NAME, as a name server knows many brokers")
    assert name_servers is not None
    try:
        return Source.named(name_servers, broker)
    except AddressError as error:
        raise click.UsageError(f"--namesrv: {error}") from None


def plugins_of(path: str, given: str | None) -> list[str] | None:
    """Return the plugins to open a store with; None for its recorded ones, or a new store's.

    Args:
        path: the store's directory.
        given: names with commas between them; an existing store also keeps its own.
    """
    if given is None:
        return None
    names = [each.strip() for each in given.split(",") if each.strip()]
    return sorted({*names, *_used(path)})


def _used(path: str) -> tuple[str, ...]:
    from reput.errors import StoreNotFoundError
    from reput_tools.cli.kit import check_store, used_plugins

    try:
        return used_plugins(check_store(path)) or ()
    except StoreNotFoundError:
        return ()
