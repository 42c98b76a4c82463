"""The caller of a call: the client's id, its signature, and how long it waits."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import attrs

from reput_grpc.types import Code, Refused

__all__ = ["Caller", "caller_of"]

_ID_MAX: Final = 1_000
_AUTHORIZATION: Final = re.compile(
    r"MQv2-HMAC-SHA1\s+Credential=([^,/\s]+)[^,]*,\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-fA-F]+)"
)


@attrs.frozen
class Caller:
    """One call's client."""

    client_id: str
    address: str
    """Where it calls from, host and port."""
    remaining: float | None
    """Seconds that the client waits for the answer; None for ever."""


def caller_of(context: Any, keys: Mapping[str, str]) -> Caller:
    """Return who calls.

    Args:
        context: of the call.
        keys: secret keys by access key; without any, everybody may call.

    Raises:
        Refused: the client has no id, or its signature is not that of a key.
    """
    found = {
        name: value if isinstance(value, str) else value.decode("utf-8", "replace")
        for name, value in context.invocation_metadata() or ()
    }
    client_id = found.get("x-mq-client-id", "")
    if not client_id.strip():
        raise Refused(Code.CLIENT_ID_REQUIRED, "the metadata x-mq-client-id is missing")
    if len(client_id) > _ID_MAX:
        raise Refused(Code.BAD_REQUEST, f"a client id of {len(client_id)} characters")
    if keys:
        _check(found, keys)
    return Caller(client_id, _address_of(context.peer()), context.time_remaining())


def _check(found: Mapping[str, str], keys: Mapping[str, str]) -> None:
    given = _AUTHORIZATION.fullmatch(found.get("authorization", "")[:2_000].strip())
    if given is None:
        raise Refused(Code.UNAUTHORIZED, "the metadata authorization is missing or not valid")
    access_key, headers, signature = given.groups()
    secret, moment = keys.get(access_key), found.get("x-mq-date-time", "")
    if secret is None or headers.lower() != "x-mq-date-time" or not moment:
        raise Refused(Code.UNAUTHORIZED, f"access key {access_key[:100]!r} is not known")
    expected = hmac.new(secret.encode(), moment.encode(), hashlib.sha1).hexdigest()
    if not hmac.compare_digest(expected, signature.lower()):
        raise Refused(Code.UNAUTHORIZED, f"the signature of {access_key[:100]!r} is not valid")


def _address_of(peer: str) -> str:
    """Return host and port of a peer as gRPC writes it; empty for one that has none."""
    kind, _, address = unquote(peer).partition(":")
    return address if kind in ("ipv4", "ipv6") else ""
