"""How `reput_web.application` is served by uvicorn, and who may address it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import uvicorn

    from reput_web.server.options import WebOptions
    from reput_web.server.security import Application


_PASSWORD_MIN: Final = 8
_PASSWORD_MAX: Final = 1_000


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


def read_password(path: str) -> str:
    """Return the password in a file.

    Raises:
        ValueError: its first line is too short or too long for a password.
        OSError: it cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        word = file.readline(_PASSWORD_MAX + 1).rstrip("\r\n")
    if not _PASSWORD_MIN <= len(word) <= _PASSWORD_MAX:
        raise ValueError(f"{path}: a first line of {_PASSWORD_MIN} to {_PASSWORD_MAX} characters")
    return word


def check_certificate(certificate: str, key: str | None) -> None:
    """Check that files hold a certificate and its private key.

    Raises:
        ValueError: they do not.
        OSError: they cannot be read.
    """
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        raise ValueError(f"{certificate}: no certificate with its key in PEM: {reason}") from error
