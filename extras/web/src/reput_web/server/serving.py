"""How `reput_web.application` is served by uvicorn, and who may address it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn

    from reput_web.server.options import WebOptions
    from reput_web.server.security import Application

__all__ = ["address_of", "config_of", "hosts_of", "is_any", "is_loopback"]


def config_of(
    app: Application, options: WebOptions, tls_cert: str | None, tls_key: str | None
) -> uvicorn.Config:
    """Return how an application is served."""
    import uvicorn

    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=3,
        limit_concurrency=4 * options.requests_max,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
    )


def address_of(host: str, port: int, *, is_encrypted: bool) -> str:
    """Return the address of the first page."""
    scheme = "https" if is_encrypted else "http"
    shown = "127.0.0.1" if is_any(host) else f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}/"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_any(host: str) -> bool:
    """Whether it means all addresses of this machine."""
    return host in ("0.0.0.0", "::", "")


def hosts_of(host: str, names: tuple[str, ...]) -> frozenset[str]:
    """Return the names by which browsers may address a server, for `WebOptions.hosts`."""
    own = {f"[{host}]" if ":" in host else host, *names}
    if is_loopback(host) or is_any(host):
        own |= {"127.0.0.1", "localhost", "[::1]"}
    return frozenset(name.lower() for name in own if name)
