"""The options of commands that serve pages beside something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import CheckedPath, ExitCode, Failure

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.webpages.webconfig import WebConfig


def _read_address(
    context: click.Context, option: click.Parameter, value: str | None
) -> Address | None:
    from reput_client.remoting import AddressError, parse_address
    from reput_server.errors import ServerError
    from reput_server.webpages.pages import pages_class

    if value is None:
        return None
    try:
        found = parse_address(value, least_port=0)
    except AddressError as error:
        raise click.BadParameter(str(error), context, option) from None
    try:
        pages_class()
    except ServerError as error:
        raise Failure(f"--web: {error}", ExitCode.UNAVAILABLE) from None
    return found


_OPTIONS = (
    click.option(
        "--web",
        metavar="HOST:PORT",
        callback=_read_address,
        help="Where to serve pages that show the store in a browser; other addresses than loopback "
        "only with --web-password-file.",
    ),
    click.option(
        "--web-write",
        is_flag=True,
        help="Let these pages offer actions that change the store.",
    ),
    click.option(
        "--web-password-file",
        metavar="FILE",
        type=CheckedPath(dir_okay=False, exists=True),
        help="File whose first line is the password that a browser asks for, with any user name.",
    ),
    click.option(
        "--web-name",
        "web_names",
        metavar="NAME",
        multiple=True,
        help="Host name by which browsers may address the pages; may be repeated.",
    ),
    click.option(
        "--web-tls-cert",
        metavar="FILE",
        type=CheckedPath(dir_okay=False, exists=True),
        help="PEM file of the pages' certificate for encrypted connections.",
    ),
    click.option(
        "--web-tls-key",
        metavar="FILE",
        type=CheckedPath(dir_okay=False, exists=True),
        help="PEM file of its private key. Default: the key in the file of --web-tls-cert.",
    ),
)


def web_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of pages to a command; `web_config_of` takes their values."""
    for each in reversed(_OPTIONS):
        command = each(command)
    return command


def web_config_of(
    web: Address | None,
    web_write: bool,
    web_password_file: str | None,
    web_names: tuple[str, ...],
    web_tls_cert: str | None,
    web_tls_key: str | None,
) -> WebConfig | None:
    """Return where pages are served; None for nowhere.

    Raises:
        click.UsageError: an option is given without another one that it needs.
    """
    from reput_server.webpages.webconfig import WebConfig, is_loopback
    from reput_tools.cli.kit import follows_links

    if web is None:
        given = {
            "--web-write": web_write,
            "--web-password-file": web_password_file,
            "--web-name": web_names,
            "--web-tls-cert": web_tls_cert,
            "--web-tls-key": web_tls_key,
        }
        for option, value in given.items():
            if value:
                raise click.UsageError(f"{option} is for pages: name their address with --web")
        return None
    if not is_loopback(web[0]) and web_password_file is None:
        text = "--web: other machines reach this address, so it needs --web-password-file"
        raise click.UsageError(text)
    if web_tls_key is not None and web_tls_cert is None:
        raise click.UsageError("--web-tls-key is the key of --web-tls-cert: give that, too")
    return WebConfig(
        address=web,
        can_write=web_write,
        password_file=web_password_file,
        names=web_names,
        tls_cert=web_tls_cert,
        tls_key=web_tls_key,
        follow_links=follows_links(),
    )
