"""``reput browse``: serves pages that show a store, and opens them in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from reput_tools.cli.kit import (
    CheckedPath,
    ExitCode,
    Failure,
    json_option,
    path_argument,
    with_debug,
)

if TYPE_CHECKING:
    import socket

_EXAMPLES = """\b
Examples:
  reput browse STORE
  reput browse STORE --port 9000 --no-open
  reput browse STORE --write
  reput browse STORE --host 10.0.0.5 --password-file secret --tls-cert server.pem
"""
_JSON = {
    "path": "the store's directory",
    "url": "the address of the first page",
    "host": "the address that the server listens on",
    "port": "its port",
}


@click.command(short_help="Show a store in a browser: messages, groups, damage.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; other than loopback only with --password-file.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8787,
    show_default=True,
    help="Port to listen on; 0 lets the system choose one.",
)
@click.option(
    "--name",
    "names",
    metavar="NAME",
    multiple=True,
    help="Host name by which browsers may address the server; may be repeated.",
)
@click.option(
    "--password-file",
    metavar="FILE",
    type=CheckedPath(dir_okay=False, exists=True),
    help="File whose first line is the password that a browser asks for, with any user name.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=CheckedPath(dir_okay=False, exists=True),
    help="PEM file of the certificate for encrypted connections.",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=CheckedPath(dir_okay=False, exists=True),
    help="PEM file of its private key. Default: the key in the file of --tls-cert.",
)
@click.option(
    "--write",
    "can_write",
    is_flag=True,
    help="Offer actions: send a message, resend a dead letter, reset an offset, create a topic, "
    "suspend and resume a plugin.",
)
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
@json_option("one object on a line when the server listens", _JSON)
@with_debug
def browse(
    path: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    password_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    can_write: bool,
    no_open: bool,
    as_json: bool,
) -> None:
    """Show the store at PATH, or a broker's directory, as pages for a browser.

    The command prints the address of the first page, opens it in a browser, and serves the pages
    until Ctrl-C. It changes nothing in the store without --write, and another process may write it
    meanwhile. Each page is also there as JSON: its address with `.json`.

    With --write, each action asks first and is recorded in a log. It opens the store for writing
    and closes it again, as the commands do; if another process has the store open for writing, the
    page names that process, and only plugins can be suspended and resumed. The pages of `reput
    serve --web` act through the process that serves.

    The server listens on loopback: every user of this machine can read the store. For other
    addresses it needs a password; without --tls-cert the password and all messages cross the
    network unencrypted.
    """
    import uvicorn

    from reput_tools.cli.kit import check_store, follows_links, json_line
    from reput_web.server.application import application
    from reput_web.server.options import WebOptions
    from reput_web.server.serving import (
        address_of,
        check_certificate,
        config_of,
        hosts_of,
        is_any,
        is_loopback,
        read_password,
    )

    root = check_store(path)
    try:
        password = None if password_file is None else read_password(password_file)
    except ValueError as error:
        raise click.UsageError(f"--password-file: {error}") from None
    if not is_loopback(host) and password is None:
        text = "--host: other machines reach this address, so it needs --password-file"
        raise click.UsageError(text)
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key is the key of --tls-cert: give that, too")
    if tls_cert is not None:
        try:
            check_certificate(tls_cert, tls_key)
        except ValueError as error:
            raise click.UsageError(f"--tls-cert: {error}") from None
    options = WebOptions(
        hosts=hosts_of(host, names),
        any_address=is_any(host),
        password=password,
        can_write=can_write,
        follow_links=follows_links(),
    )
    listening = _listen(host, port)
    with listening:
        number = listening.getsockname()[1]
        address = address_of(host, number, is_encrypted=tls_cert is not None)
        if as_json:
            document = {"path": root, "url": address, "host": host, "port": number}
            click.echo(json_line(document), nl=False)
        else:
            click.echo(f"{address} shows {root}; Ctrl-C ends it.")
        if not no_open and not as_json:
            click.launch(address)
        config = config_of(application(root, options), options, tls_cert, tls_key)
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    import socket

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        text = f"{host}:{port}: {reason}; --port 0 lets the system choose a port"
        raise Failure(text, ExitCode.UNAVAILABLE) from error
