"""Access keys: what a client signs, and how a server checks it.

Source: RocketMQ ``AclClientRPCHook``, ``AclUtils.combineRequestContent``, ``AclSigner``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

import attrs

from reput_client.remoting.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
_ADDED_LATER: Final = "_UNIQUE_KEY_QUERY"  # older clients add it behind the signature


def sign(
    command: Command, access_key: str, secret_key: str, security_token: str | None = None
) -> Command:
    """Return the request with the fields by which a server knows who sent it.

    Nothing may be added to it afterwards.
    """
    fields = {**command.fields, ACCESS_KEY: access_key}
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    fields.pop(SIGNATURE, None)
    fields[SIGNATURE] = signature_of(fields, command.body, secret_key)
    return attrs.evolve(command, fields=fields)


def is_signed_with(command: Command, secret_key: str) -> bool:
    """Return whether the request carries the signature of a secret key."""
    found = command.fields.get(SIGNATURE, "").encode("utf-8", "replace")
    fields = {name: text for name, text in command.fields.items() if name != SIGNATURE}
    without = {name: text for name, text in fields.items() if name != _ADDED_LATER}
    return any(
        # Takes as long for a wrong signature as for the right one.
        hmac.compare_digest(found, signature_of(each, command.body, secret_key).encode())
        for each in ([fields] if len(fields) == len(without) else [fields, without])
    )


def signature_of(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature over the values of ``fields``, by the order of their names, and a body.

    Args:
        fields: all but the signature itself.
        body: raw bytes.
        secret_key: what client and server share.
    """
    # Java orders texts by units of UTF-16.
    names = sorted(fields, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    content = "".join(fields[name] for name in names).encode("utf-8", "replace") + body
    digest = hmac.new(secret_key.encode(), content, hashlib.sha1).digest()
    return base64.b64encode(digest).decode()
