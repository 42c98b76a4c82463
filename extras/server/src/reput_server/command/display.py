"""Says what is served, where, and who may come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from reput_client.remoting import address_text
from reput_server.webpages.webconfig import is_loopback

if TYPE_CHECKING:
    from reput_server.config import ServerConfig
    from reput_server.server import Server
    from reput_server.webpages.webconfig import WebConfig

_ENCRYPTION: Final = {
    "permissive": "taken by TLS, not asked for",
    "enforcing": "asked for, by TLS",
    "disabled": "none",
}


def show(server: Server, *, as_json: bool) -> None:
    """Print what listens where, once it does."""
    facts = _facts(server)
    if as_json:
        from reput_tools.cli.kit import json_line

        click.echo(json_line(facts), nl=False)
        return
    from reput_tools.cli.kit import print_facts

    names, registers = facts["name_server"], facts["registered_at"]
    lines = [
        ("store", f"{facts['store']}{', read-only' if facts['read_only'] else ''}"),
        ("plugins", ", ".join(facts["plugins"])),
        ("broker", f"{facts['broker']}, {facts['broker_name']} of {facts['cluster']}"),
        ("fast port", facts["fast_port"] or (server.fast_error and f"none: {server.fast_error}")),
        ("replicas", _replicas(server)),
        ("name server", names or "none"),
        ("gRPC", facts["grpc"] or ""),
        ("registers at", ", ".join(registers)),
        ("encryption", _ENCRYPTION[facts["tls"]]),
        ("access", _access(server.config)),
        ("metrics", facts["metrics"] or ""),
        ("pages", facts["web"] or ""),
    ]
    print_facts([(name, text) for name, text in lines if text], indent=0)
    found = names or (";".join(registers) if registers else "")
    if found:
        click.echo(f"Clients find it as {found} (namesrvAddr). Ctrl-C ends.")
    else:
        click.echo(
            "No name server: --register HOST:PORT has clients find it by yours. Ctrl-C ends."
        )


def _facts(server: Server) -> dict[str, Any]:
    assert server.store is not None
    assert server.broker is not None
    config = server.config
    return {
        "store": str(server.store.root),
        "read_only": not server.is_writable,
        "broker": next(iter(server.broker.data.addresses.values())),
        "broker_name": server.broker.data.broker,
        "cluster": server.broker.data.cluster,
        "fast_port": None if server.fast_address is None else address_text(server.fast_address),
        "name_server": None if server.name_server is None else address_text(server.name_server),
        "grpc": None if server.grpc is None else address_text(server.grpc.address or ("", 0)),
        "registered_at": [address_text(each) for each in config.register],
        "replicas": None if server.replicas is None else address_text(server.replicas.address),
        "sync_replicas": server.config.sync_replicas,
        "plugins": sorted(server.store.plugin_objects),
        "tls": "disabled" if config.tls is None else config.tls.mode,
        "access_keys": len(config.access_keys),
        "event_loop": server.event_loop,
        "metrics": None if server.metrics is None else f"http://{address_text(server.metrics)}/",
        "web": server.web,
    }


def _replicas(server: Server) -> str:
    if server.replicas is None:
        return ""
    where, count = address_text(server.replicas.address), server.config.sync_replicas
    return f"{where}, sends wait for {count}" if count else f"{where}, no send waits"


def _access(config: ServerConfig) -> str:
    from reput_tools.cli.kit import format_count

    asked = []
    if config.access_keys:
        asked.append(f"signed with one of {format_count(len(config.access_keys), 'key')}")
    if config.tls is not None and config.tls.requires_certificate:
        asked.append("with a certificate")
    return ", ".join(asked) or "open to anyone who can connect"


def warn_of_open_ports(config: ServerConfig) -> None:
    """Warn if other machines reach a port without access keys or certificates."""
    from reput_tools.cli.kit import warn

    ports = config.listen, config.name_server, config.grpc
    reached = [each for each in ports if each is not None]
    open_hosts = sorted({host for host, _ in reached if not is_loopback(host)})
    is_certified = config.tls is not None and config.tls.requires_certificate
    if open_hosts and not config.access_keys and not is_certified:
        warn(
            f"{', '.join(open_hosts)} is open to other machines, and clients need no credentials: "
            "anyone who can connect may read and write everything; --access-keys FILE requires "
            "keys, --tls enforcing with --tls-ca FILE requires certificates, and 127.0.0.1 keeps "
            "other machines out"
        )
    if config.replicas is not None and not is_loopback(config.replicas[0]) and not is_certified:
        warn(
            f"replicas at {config.replicas[0]}: the protocol has no access keys, so anyone who can "
            "connect gets all messages, and may acknowledge messages for others; let a firewall "
            "admit replicas only, or require certificates (--tls enforcing, --tls-ca)"
        )
    if config.replicas is not None and not config.fast_port:
        warn(
            "slaves of RocketMQ ask for topics two ports below the broker's, and nothing listens "
            "there; leave --no-fast-port out if there are some"
        )
    if config.web is not None and not is_loopback(config.web.address[0]):
        _warn_of_plain_pages(config.web)
    if config.metrics is not None and not is_loopback(config.metrics[0]):
        warn(
            f"metrics at {config.metrics[0]} are open to anyone who can connect: "
            "they show names of topics and groups, and how much they hold; 127.0.0.1 keeps "
            "other machines out"
        )


def _warn_of_plain_pages(config: WebConfig) -> None:
    from reput_tools.cli.kit import warn

    if config.tls_cert is None:
        warn(
            f"pages at {config.address[0]}: the password and all messages cross the network "
            "unencrypted; --web-tls-cert encrypts them"
        )
