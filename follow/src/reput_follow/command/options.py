"""Reads what `reput follow` is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput.installing import install_command
from reput_cli.kit import ExitCode, Failure

if TYPE_CHECKING:
    from reput_follow.peers import Address
    from reput_follow.running.source import Source

__all__ = ["plugins_of", "read_address", "read_begin", "read_metrics_address", "source_of"]


def read_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    """Return an address."""
    from reput_follow.errors import AddressError
    from reput_follow.peers import parse_address

    try:
        return None if value is None else parse_address(value)
    except AddressError as error:
        raise click.BadParameter(str(error), context, option) from None


def read_metrics_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """Return an address to listen on, port 0 for a free one, if what makes metrics is installed."""
    import importlib.util

    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        text = f"{value!r} is not an address; expected HOST:PORT, such as 127.0.0.1:9464"
        raise click.BadParameter(text, context, option)
    if importlib.util.find_spec("reput_metrics") is None:
        text = f"--metrics needs the distribution reput-metrics: {install_command('metrics')}"
        raise Failure(text, ExitCode.UNAVAILABLE)
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_begin(context: click.Context, option: click.Parameter, value: str) -> str | int:
    """Return ``oldest``, ``latest`` or a physical offset."""
    if value in ("oldest", "latest"):
        return value
    if value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    text = f"{value!r}: oldest, latest or a physical offset is expected"
    raise click.BadParameter(text, context, option)


def source_of(address: Address | None, name_servers: str | None, broker: str | None) -> Source:
    """Return the broker that the options name.

    Raises:
        click.UsageError: they name none, or two.
    """
    from reput_follow.errors import AddressError
    from reput_follow.running.source import Source

    if (address is None) == (name_servers is None):
        text = "name the broker: either --from HOST:PORT, or --namesrv HOST:PORT and --broker NAME"
        raise click.UsageError(text)
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
    from reput_cli.kit import check_store, used_plugins

    try:
        return used_plugins(check_store(path)) or ()
    except StoreNotFoundError:
        return ()
