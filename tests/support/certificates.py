"""Certificates that are made when a test needs them."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import attrs
import trustme
from cryptography.hazmat.primitives import serialization

from reput_server import TlsConfig


@attrs.frozen
class Certificates:
    """PEM files of a server and of clients, and who vouches for them."""

    certificate: str
    key: str
    client_ca: str
    client: str
    """A client's, with its key, for which `client_ca` vouches."""
    untrusted: str
    """A client's, with its key, for which nobody vouches."""
    client_key: str
    """The key of `client` by itself, as Java reads it."""
    ca: str
    """Vouches for the server."""

    def tls(self, **options: Any) -> TlsConfig:
        """Return the options of a server with these files."""
        return TlsConfig(**{"certificate": self.certificate, "key": self.key, **options})

    def context(self, shown: str | None = None) -> ssl.SSLContext:
        """Return the context of a client, which shows a certificate."""
        context = ssl.create_default_context(cafile=self.ca)
        if shown is not None:
            context.load_cert_chain(shown)
        return context


def make_certificates(directory: Path) -> Certificates:
    """Make all of them in a directory; the server's is for loopback."""
    names = [each.name for each in attrs.fields(Certificates)]
    paths = {name: directory / f"{name}.pem" for name in names}
    servers, clients, others = trustme.CA(), trustme.CA(), trustme.CA()
    server = servers.issue_cert("127.0.0.1", "localhost")
    server.cert_chain_pems[0].write_to_path(paths["certificate"])
    server.private_key_pem.write_to_path(paths["key"])
    servers.cert_pem.write_to_path(paths["ca"])
    clients.cert_pem.write_to_path(paths["client_ca"])
    for name, issuer in (("client", clients), ("untrusted", others)):
        shown = issuer.issue_cert("client@example.org")
        shown.private_key_and_cert_chain_pem.write_to_path(paths[name])
        if name == "client":
            paths["client_key"].write_bytes(_pkcs8(shown.private_key_pem.bytes()))
    return Certificates(**{name: str(path) for name, path in paths.items()})


def _pkcs8(pem: bytes) -> bytes:
    return serialization.load_pem_private_key(pem, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
