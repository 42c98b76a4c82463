"""``reput serve``: a broker and a name server over a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_server.command.options import (
    read_address,
    read_addresses,
    read_config,
    read_grpc_address,
    read_metrics_address,
)
from reput_server.webpages.options import web_config_of, web_options
from reput_tools.cli.kit import CheckedPath, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.config import TlsMode

_EXAMPLES = """\b
Examples:
  reput serve STORE
  reput serve STORE --listen 127.0.0.1:0 --namesrv 127.0.0.1:0 --json
  reput serve STORE --listen 10.0.0.5:10911 --namesrv none --register '10.0.0.1:9876;10.0.0.2:9876'
  reput serve STORE --tls-cert server.pem --tls-key server.key --tls enforcing
  reput serve STORE --grpc 127.0.0.1:8081
  reput serve STORE --metrics 127.0.0.1:9464 --web 127.0.0.1:8787
  reput serve STORE --listen 10.0.0.5:10911 --replicas 10.0.0.5:10912 --sync-replicas 1
  reput serve /mnt/broken-disk/store --read-only
"""
_JSON = {
    "store": "the store's directory",
    "read_only": "whether the store is only read",
    "broker": "address of the broker",
    "broker_name": "its name",
    "cluster": "name of its cluster",
    "fast_port": "address of the port two below, or null",
    "name_server": "address of the name server, or null",
    "grpc": "address for clients of RocketMQ 5, or null",
    "registered_at[]": "other name servers at which the broker registers",
    "replicas": "address of the HA port, or null",
    "sync_replicas": "replicas for which a send waits",
    "plugins[]": "plugins of the store",
    "tls": "`permissive`, `enforcing` or `disabled`",
    "access_keys": "number of access keys",
    "event_loop": "`asyncio` or `uvloop`",
    "metrics": "address of metrics and health, or null",
    "web": "address of the pages, or null",
}


@click.command(short_help="Serve a store to RocketMQ's clients and tools.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:10911",
    show_default=True,
    callback=read_address,
    help="Where the broker listens; port 0 for a free one.",
)
@click.option(
    "--namesrv",
    metavar="HOST:PORT",
    default="127.0.0.1:9876",
    show_default=True,
    callback=read_address,
    help="Where the name server listens; none for no name server.",
)
@click.option(
    "--register",
    metavar="HOST:PORT[;HOST:PORT]",
    callback=read_addresses,
    help="Other name servers, at which the broker registers.",
)
@click.option("--advertise", metavar="HOST", help="The host in the addresses that clients get.")
@click.option(
    "--name",
    metavar="NAME",
    help="The broker's name in its cluster; recorded in the store, broker-a at first.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    default="DefaultCluster",
    show_default=True,
    help="The name of the cluster, as clients see it.",
)
@click.option(
    "--access-keys",
    metavar="FILE",
    type=CheckedPath(exists=True, dir_okay=False),
    help="TOML file of secret keys by access key; requests must be signed with one.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=CheckedPath(dir_okay=False),
    help="PEM file of the certificate for encrypted connections.",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=CheckedPath(dir_okay=False),
    help="PEM file of its private key. Default: the key in the file of --tls-cert.",
)
@click.option(
    "--tls-ca",
    metavar="FILE",
    type=CheckedPath(dir_okay=False),
    help="PEM file of CA certificates; clients must present a certificate that one of them signed.",
)
@click.option(
    "--tls",
    type=click.Choice(["permissive", "enforcing", "disabled"]),
    help="Whether connections may (permissive), must (enforcing) or must not (disabled) be "
    "encrypted.",
)
@click.option(
    "--flush",
    type=click.Choice(["async", "sync"]),
    help="With sync, answer a send only when the message is on disk.",
)
@click.option(
    "--grpc",
    metavar="HOST:PORT",
    callback=read_grpc_address,
    help="Where clients of RocketMQ 5 are served over gRPC; port 0 for a free one.",
)
@click.option(
    "--grpc-from-beginning",
    is_flag=True,
    help="Let new groups of such clients begin at the oldest message of the store.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    callback=read_metrics_address,
    help="Where to serve metrics for Prometheus, and the server's health, over HTTP.",
)
@web_options
@click.option(
    "--replicas",
    metavar="HOST:PORT",
    callback=read_address,
    help="Where slaves and followers get the log (RocketMQ's HA port); port 0 for a free one.",
)
@click.option(
    "--sync-replicas",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Answer a send only when N replicas have the message; needs --replicas.",
)
@click.option(
    "--read-only", is_flag=True, help="Do not write the store; another process may write it."
)
@click.option("--no-new-topics", is_flag=True, help="Refuse sends to topics that do not exist.")
@click.option(
    "--no-fast-port",
    is_flag=True,
    help="Do not listen on the port two below --listen, to which Java clients up to 4.5.0 send.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=CheckedPath(exists=True, dir_okay=False, readable=False),
    callback=read_config,
    is_eager=True,
    help="TOML file: [server] has these options, [server.limits] has limits, and the other "
    "sections configure the store.",
)
@json_option("one line when all ports are open", _JSON)
@with_debug
def serve(
    path: str,
    listen: Address | None,
    namesrv: Address | None,
    register: tuple[Address, ...],
    advertise: str | None,
    name: str | None,
    cluster: str,
    access_keys: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    tls: TlsMode | None,
    flush: str | None,
    grpc: Address | None,
    grpc_from_beginning: bool,
    metrics: Address | None,
    web: Address | None,
    web_write: bool,
    web_password_file: str | None,
    web_names: tuple[str, ...],
    web_tls_cert: str | None,
    web_tls_key: str | None,
    replicas: Address | None,
    sync_replicas: int,
    read_only: bool,
    no_new_topics: bool,
    no_fast_port: bool,
    config: dict[str, Any],
    as_json: bool,
) -> None:
    """Serve the store at PATH to producers, consumers and admin tools of RocketMQ.

    The command runs a broker and a name server until Ctrl-C. By default only programs on this
    machine can connect. The store is created if it does not exist.
    """
    from reput_server.command.display import warn_of_open_ports
    from reput_server.command.options import limits_of, read_keys, tls_of
    from reput_server.command.run import run
    from reput_server.config import ServerConfig, is_everywhere

    if listen is None:
        raise click.UsageError("--listen none: there would be nothing to serve; name HOST:PORT")
    for option, value in (("--flush", flush), ("--name", name)):
        if read_only and value is not None:
            raise click.UsageError(f"--read-only and {option} exclude each other; leave one out")
    pages = web_config_of(web, web_write, web_password_file, web_names, web_tls_cert, web_tls_key)
    if read_only and web_write:
        raise click.UsageError("--read-only and --web-write exclude each other; leave one out")
    if read_only and replicas is not None:
        raise click.UsageError("--read-only and --replicas exclude each other; leave one out")
    if sync_replicas and replicas is None:
        text = "--sync-replicas needs the port of replicas: name it with --replicas HOST:PORT"
        raise click.UsageError(text)
    limits = limits_of(config)
    if sync_replicas > limits.replicas:
        text = f"--sync-replicas {sync_replicas}: at most {limits.replicas} replicas may connect"
        raise click.UsageError(f"{text}; [server.limits] replicas in a --config FILE allows more")
    if advertise is None and is_everywhere(listen[0]):
        text = f"{listen[0]} is not an address for clients; name one with --advertise HOST"
        raise click.UsageError(text)
    served = ServerConfig(
        listen=listen,
        fast_port=not no_fast_port,
        name_server=namesrv,
        register=register,
        advertise=advertise,
        cluster=cluster,
        creates_topics=not no_new_topics,
        access_keys=read_keys(access_keys),
        tls=tls_of(tls_cert, tls_key, tls_ca, tls),
        limits=limits,
        grpc=grpc,
        grpc_from_beginning=grpc_from_beginning,
        metrics=metrics,
        web=pages,
        replicas=replicas,
        sync_replicas=sync_replicas,
    )
    warn_of_open_ports(served)
    sections = {
        "commitlog": {} if flush is None else {"flush": flush},
        "consumer": {} if name is None else {"broker_name": name},
    }
    run(path, served, sections, config, read_only=read_only, as_json=as_json)
