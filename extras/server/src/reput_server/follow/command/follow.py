"""``reput follow``: the log of a running broker, with plugins on its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from reput_server.follow.command.options import (
    plugins_of,
    read_address,
    read_begin,
    read_listen_address,
    read_metrics_address,
    serving_of,
    source_of,
)
from reput_server.webpages.options import web_config_of, web_options
from reput_tools.cli.kit import CheckedPath, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_client.remoting import Address

_EXAMPLES = """\b
Examples:
  reput follow STORE --from broker-host:10911
  reput follow STORE --namesrv 10.0.0.1:9876 --broker broker-a --begin latest
  reput follow STORE --from broker-host:10911 --plugins consumequeue,index,words
  reput follow STORE --from broker-host:10911 --metadata --metrics 127.0.0.1:9464
  reput follow STORE --from broker-host:10911 --web 127.0.0.1:8787
  reput follow STORE --from broker-host:10911 --once --json
  reput follow STORE --from broker-host:10911 --serve 127.0.0.1:10911
  reput follow STORE --directory /var/lib/rocketmq/store
"""
_JSON = {
    "state": "state of the follower",
    "text": "the problem and the next step; empty without a problem",
    "master": "name of the broker",
    "address": "its address",
    "lag_bytes": "bytes that the store lacks, or null",
    "lag_messages": "messages that it lacks, or null",
    "lag_seconds": "age of the oldest of them, or null",
    "fed_offset": "end of the log here",
    "flushed_offset": "where the log is on disk",
    "dispatched_offset": "what all plugins have seen",
    "received_bytes": "bytes received since the start",
    "bytes_per_second": "bytes received in the last second",
    "connections": "connections that were made",
    "plugins.*.state": "state of each plugin, by name",
    "plugins.*.lag_bytes": "bytes of the log that it has not seen",
    "store": "the store's directory",
    "metrics": "address of the metrics, or null",
    "web": "address of the pages, or null",
    "broker": "address at which the store is served, or null",
    "name_server": "address of its name server, or null",
}


@click.command(short_help="Follow the log of a running broker.", epilog=_EXAMPLES)
@path_argument
@click.option(
    "--from",
    "address",
    metavar="HOST:PORT",
    callback=read_address,
    help="The broker; the command asks it for everything else.",
)
@click.option(
    "--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="Name servers that know the broker."
)
@click.option("--broker", metavar="NAME", help="The broker's name, with --namesrv.")
@click.option(
    "--directory",
    metavar="PATH",
    type=CheckedPath(exists=True, file_okay=False),
    help="The broker's storePathRootDir on this machine, if its HA port is closed.",
)
@click.option(
    "--begin",
    metavar="oldest|latest|OFFSET",
    default="oldest",
    show_default=True,
    callback=read_begin,
    help="Where a new store begins: at the master's oldest or latest file, or at the file with "
    "this offset.",
)
@click.option(
    "--plugins",
    metavar="NAME,NAME",
    help="Plugins of a new store, or plugins to add to a store that exists.",
)
@click.option(
    "--metadata", is_flag=True, help="Also save topics, groups and the offsets of groups."
)
@click.option(
    "--acknowledge",
    is_flag=True,
    help="Act as a slave: report to the master what is on disk here.",
)
@click.option(
    "--allow-stalls",
    is_flag=True,
    help="Follow a SYNC_MASTER of 4.x without reporting to it, although its sends may then wait.",
)
@click.option(
    "--ha",
    "ha_address",
    metavar="HOST:PORT",
    callback=read_address,
    help="The broker's HA port, if it is on another host.",
)
@click.option(
    "--serve",
    metavar="HOST:PORT",
    callback=read_listen_address,
    help="Serve the store to consumers, for reading; port 0 for a free one.",
)
@click.option(
    "--serve-namesrv",
    metavar="HOST:PORT",
    callback=read_listen_address,
    help="The name server for these consumers, or none.  [default: port 9876 of --serve]",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    callback=read_metrics_address,
    help="Serve metrics for Prometheus over HTTP at this address.",
)
@web_options
@click.option("--once", is_flag=True, help="End when the store has the whole log of the master.")
@json_option("an object for each change of state, and one a second", _JSON)
@with_debug
def follow(
    path: str,
    address: Address | None,
    namesrv: str | None,
    broker: str | None,
    directory: str | None,
    begin: Any,
    plugins: str | None,
    metadata: bool,
    acknowledge: bool,
    allow_stalls: bool,
    ha_address: Address | None,
    serve: Address | None,
    serve_namesrv: Address | Literal["none"] | None,
    metrics: Address | None,
    web: Address | None,
    web_write: bool,
    web_password_file: str | None,
    web_names: tuple[str, ...],
    web_tls_cert: str | None,
    web_tls_key: str | None,
    once: bool,
    as_json: bool,
) -> None:
    """Follow the log of a running broker into the store at PATH, until Ctrl-C.

    The store is created if it does not exist; the next start continues where the last one ended.
    The command does not change the broker, and by default reports nothing to it.
    """
    from reput_client.remoting import address_text
    from reput_server.follow.command.run import run
    from reput_server.follow.config import FollowConfig

    source = source_of(address, namesrv, broker, directory)
    asked = {"--acknowledge": acknowledge, "--allow-stalls": allow_stalls, "--ha": ha_address}
    for option, value in asked.items():
        if directory is not None and value:
            raise click.UsageError(f"{option} is for a connection; --directory makes none")
    serves = serving_of(serve, serve_namesrv)
    pages = web_config_of(web, web_write, web_password_file, web_names, web_tls_cert, web_tls_key)
    config = FollowConfig(
        begin=begin,
        acknowledge=acknowledge,
        allow_stalls=allow_stalls,
        metadata=metadata,
        ha_address=None if ha_address is None else address_text(ha_address),
    )
    run(
        path,
        source,
        config,
        plugins=plugins_of(path, plugins),
        metrics=metrics,
        web=pages,
        serves=serves,
        is_once=once,
        as_json=as_json,
    )
