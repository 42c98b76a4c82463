"""Files of certificates become an `ssl.SSLContext`; one that cannot be used is named."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from reput_server.errors import CertificateError

if TYPE_CHECKING:
    from reput_server.config import TlsConfig


def context_of(tls: TlsConfig | None) -> ssl.SSLContext | None:
    """Return the context of a server's encrypted connections; None if there are to be none.

    Raises:
        CertificateError: a file cannot be read, or holds nothing that can be used.
    """
    if tls is None or tls.mode == "disabled":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that renegotiates again and again would cost the server far more than itself.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _check_readable(tls.certificate, tls.key)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: _refuse(tls.key))
    except ssl.SSLError as error:
        raise _unusable(tls, error) from None
    if tls.client_ca is not None:
        _check_readable(tls.client_ca)
        try:
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            advice = "name a PEM file of CA certificates that sign the clients' certificates"
            raise CertificateError(tls.client_ca, _reason_of(error), advice) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _check_readable(*paths: str) -> None:
    for path in paths:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            advice = "name a file that this user may read"
            raise CertificateError(path, error.strerror or str(error), advice) from None


def _refuse(path: str) -> str:
    # OpenSSL would prompt for it at the terminal, and a server may have none.
    advice = f"openssl pkey -in {path} -out NEW_FILE writes it without"
    raise CertificateError(path, "the key is protected by a password", advice)


def _unusable(tls: TlsConfig, error: ssl.SSLError) -> CertificateError:
    if error.reason == "KEY_VALUES_MISMATCH":
        reason = f"the key is not that of the certificate {tls.certificate}"
        return CertificateError(tls.key, reason, "name the key that it was made with")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(tls.certificate)
    except ssl.SSLError:
        advice = "name a PEM file that begins with the server's certificate"
        return CertificateError(tls.certificate, f"no certificate: {_reason_of(error)}", advice)
    advice = "name a PEM file of a private key"
    return CertificateError(tls.key, f"no private key: {_reason_of(error)}", advice)


def _reason_of(error: ssl.SSLError) -> str:
    return (error.reason or error.strerror or str(error)).replace("_", " ").lower()
