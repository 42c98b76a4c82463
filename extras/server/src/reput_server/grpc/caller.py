"""The caller of a call: the client's id, its signature, and how long it waits."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_server.grpc.messagetypes import Code, Refused

if TYPE_CHECKING:
    from reput_server.grpc.transport.answermemory import AnswerShare
    from reput_server.grpc.transport.methods import CallHead

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
    answers: AnswerShare
    """What the answers of its connection take."""


def caller_of(head: CallHead, keys: Mapping[str, str]) -> Caller:
    """Return who calls.

    Args:
        head: what the call begins with.
        keys: secret keys by access key; without any, everybody may call.

    Raises:
        Refused: the client has no id, or its signature is not that of a key.
    """
    client_id = head.headers.get("x-mq-client-id", "")
    if not client_id.strip():
        raise Refused(Code.CLIENT_ID_REQUIRED, "the metadata x-mq-client-id is missing")
    if len(client_id) > _ID_MAX:
        raise Refused(Code.BAD_REQUEST, f"a client id of {len(client_id)} characters")
    if keys:
        _check(head.headers, keys)
    return Caller(client_id, head.address, head.seconds, head.answers)


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
