"""``reput serve``: a broker and a name server over a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from reput_cli.kit import ExitCode, Failure, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput import Store
    from reput_server.config import Address, ServerConfig, TlsConfig, TlsMode
    from reput_server.server import Server

__all__ = ["serve"]

_EXAMPLES = """\b
Examples:
  reput serve STORE
  reput serve STORE --listen 127.0.0.1:0 --namesrv 127.0.0.1:0 --json
  reput serve /mnt/broken-disk/store --read-only
"""

_ENCRYPTION: Final = {
    "permissive": "taken by TLS, not asked for",
    "enforcing": "asked for, by TLS",
    "disabled": "none",
}


def _address(context: click.Context, option: click.Parameter, value: str | None) -> Address | None:
    from reput_server.config import parse_address
    from reput_server.errors import AddressError

    if value is None or value == "none":
        return None
    try:
        return parse_address(value)
    except AddressError as error:
        raise click.BadParameter(str(error), context, option) from None


@click.command(short_help="Serve a store to RocketMQ's clients and tools.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:10911",
    show_default=True,
    callback=_address,
    help="Where the broker listens; port 0 for a free one.",
)
@click.option(
    "--namesrv",
    metavar="HOST:PORT",
    default="127.0.0.1:9876",
    show_default=True,
    callback=_address,
    help="Where the name server listens; none for no name server.",
)
@click.option("--advertise", metavar="HOST", help="The host that clients are told.")
@click.option("--cluster", metavar="NAME", default="DefaultCluster", show_default=True)
@click.option(
    "--access-keys",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML file of secret keys by access key; requests must be signed with one.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="PEM file of the certificate for encrypted connections.",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="PEM file of its private key; that of --tls-cert when left out.",
)
@click.option(
    "--tls-ca",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="PEM file of certificates; clients must show one that these vouch for.",
)
@click.option(
    "--tls",
    type=click.Choice(["permissive", "enforcing", "disabled"]),
    help="Whether connections may be encrypted (permissive, with --tls-cert), must be, or may not.",
)
@click.option(
    "--flush",
    type=click.Choice(["async", "sync"]),
    help="Whether a send is answered only when it is on disk.",
)
@click.option("--read-only", is_flag=True, help="Change nothing; another process may write.")
@click.option("--no-new-topics", is_flag=True, help="Refuse sends to topics that there are not.")
@json_option("one line, when everything listens,")
@with_debug
def serve(
    path: str,
    listen: Address | None,
    namesrv: Address | None,
    advertise: str | None,
    cluster: str,
    access_keys: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    tls: TlsMode | None,
    flush: str | None,
    read_only: bool,
    no_new_topics: bool,
    as_json: bool,
) -> None:
    """Serve the store at PATH until Ctrl-C: producers, consumers and admin tools of RocketMQ.

    A broker and a name server run in this process, on this machine's loopback unless told
    otherwise. A store that there is not is made.
    """
    from reput_server.command.opening import opened
    from reput_server.config import ServerConfig

    if listen is None:
        raise click.UsageError("--listen none: there would be nothing to serve; name HOST:PORT")
    if read_only and flush is not None:
        raise click.UsageError("--read-only and --flush exclude each other; leave one out")
    if advertise is None and _is_everywhere(listen[0]):
        text = f"{listen[0]} is no address that clients can go to; name one with --advertise HOST"
        raise click.UsageError(text)
    config = ServerConfig(
        listen=listen,
        name_server=namesrv,
        advertise=advertise,
        cluster=cluster,
        creates_topics=not no_new_topics,
        access_keys={} if access_keys is None else _keys_of(access_keys),
        tls=_tls_of(tls_cert, tls_key, tls_ca, tls),
    )
    _check_certificates(config)
    _warn_of_strangers(config)
    with opened(path, read_only=read_only, flush=flush) as store:
        _run(store, config, read_only=read_only, as_json=as_json)


def _run(store: Store, config: ServerConfig, *, read_only: bool, as_json: bool) -> None:
    import asyncio

    from reput_server.errors import ServerError
    from reput_server.server import Server

    server = Server(store, config, is_writable=not read_only)
    try:
        asyncio.run(_serve(server, as_json=as_json))
    except ServerError as error:
        raise Failure(str(error), ExitCode.UNAVAILABLE) from None
    except OSError as error:
        text = f"{error.strerror or error}; choose other addresses with --listen and --namesrv"
        raise Failure(text, ExitCode.UNAVAILABLE) from None


async def _serve(server: Server, *, as_json: bool) -> None:
    import asyncio
    import signal

    from reput_server.wire.descriptors import raise_limit, word_accept_errors

    stops = asyncio.Event()
    loop = asyncio.get_running_loop()
    raise_limit()
    word_accept_errors(loop)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stops.set)
    await server.start()
    try:
        _show(server, as_json=as_json)
        await stops.wait()
    finally:
        await server.stop()
    if not as_json:
        from reput_cli.kit import format_count

        count = 0 if server.service is None else server.service.request_count
        click.echo(f"stopped after {format_count(count, 'request')}", err=True)


def _show(server: Server, *, as_json: bool) -> None:
    assert server.store is not None
    assert server.broker is not None
    facts: dict[str, Any] = {
        "store": str(server.store.root),
        "read_only": not server.is_writable,
        "broker": next(iter(server.broker.data.addresses.values())),
        "broker_name": server.broker.data.broker,
        "cluster": server.broker.data.cluster,
        "name_server": None if server.name_server is None else "{}:{}".format(*server.name_server),
        "plugins": sorted(server.store.plugin_objects),
        "tls": "disabled" if server.config.tls is None else server.config.tls.mode,
        "access_keys": len(server.config.access_keys),
    }
    if as_json:
        from reput_cli.kit import json_line

        click.echo(json_line(facts), nl=False)
        return
    from reput_cli.kit import print_facts

    names = facts["name_server"]
    print_facts(
        [
            ("store", f"{facts['store']}{', read-only' if facts['read_only'] else ''}"),
            ("plugins", ", ".join(facts["plugins"])),
            ("broker", f"{facts['broker']}, {facts['broker_name']} of {facts['cluster']}"),
            ("name server", names or "none"),
            ("encryption", _ENCRYPTION[facts["tls"]]),
            ("access", _access_of(server.config)),
        ],
        indent=0,
    )
    if names:
        click.echo(f"Clients find it as {names} (namesrvAddr). Ctrl-C ends.")
    else:
        click.echo("No name server: clients find it by one of yours. Ctrl-C ends.")


def _access_of(config: ServerConfig) -> str:
    from reput_cli.kit import format_count

    asked = []
    if config.access_keys:
        asked.append(f"signed with one of {format_count(len(config.access_keys), 'key')}")
    if config.tls is not None and config.tls.keeps_strangers_out:
        asked.append("with a certificate")
    return ", ".join(asked) or "whoever reaches the ports"


def _tls_of(
    certificate: str | None, key: str | None, client_ca: str | None, mode: TlsMode | None
) -> TlsConfig | None:
    from reput_server.config import TlsConfig

    if certificate is not None:
        return TlsConfig(
            certificate=certificate,
            key=certificate if key is None else key,
            client_ca=client_ca,
            mode="permissive" if mode is None else mode,
        )
    if key is None and client_ca is None and mode in (None, "disabled"):
        return None
    given = "--tls-key" if key is not None else "--tls-ca" if client_ca is not None else "--tls"
    raise click.UsageError(f"{given} needs a certificate: name its file with --tls-cert FILE")


def _check_certificates(config: ServerConfig) -> None:
    """Refuse files that cannot be used before a store is opened, or made, for nothing."""
    from reput_server.errors import CertificateError
    from reput_server.wire.certificates import context_of

    try:
        context_of(config.tls)
    except CertificateError as error:
        raise Failure(str(error), ExitCode.UNAVAILABLE) from None


def _keys_of(path: str) -> dict[str, str]:
    import tomllib

    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: no TOML: {error}", ExitCode.UNAVAILABLE) from None
    if not found or not all(isinstance(secret, str) and secret for secret in found.values()):
        text = f'{path}: lines of ACCESS_KEY = "SECRET" are expected, at least one'
        raise Failure(text, ExitCode.UNAVAILABLE)
    return found


def _warn_of_strangers(config: ServerConfig) -> None:
    from reput_cli.kit import warn

    reached = [each for each in (config.listen, config.name_server) if each is not None]
    strange = sorted({host for host, _ in reached if not _is_loopback(host)})
    is_guarded = config.access_keys or (config.tls is not None and config.tls.keeps_strangers_out)
    if strange and not is_guarded:
        warn(
            f"{', '.join(strange)} is reached from other machines, and nothing is asked of them: "
            "whoever gets there may read and write everything; --access-keys FILE asks for keys, "
            "--tls enforcing with --tls-ca FILE for certificates, 127.0.0.1 keeps others out"
        )


def _is_everywhere(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
