"""What ``reput put`` reads: lines as they come, as bodies or as JSON objects."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from reput.message import Message

__all__ = ["Defaults", "InputError", "line_batches", "message_of_json", "message_of_line"]

_CHUNK_SIZE = 1 << 18
_LINE_SIZE_MAX = 64 << 20  # twice what any store takes

_OWN = frozenset(
    {
        "body",
        "body_encoding",
        "born_host",
        "born_timestamp",
        "flag",
        "keys",
        "properties",
        "queue_id",
        "reconsume_times",
        "sys_flag",
        "tags",
    }
)
"""What a line of JSON may say about its message."""
_STORE_GIVEN = frozenset(
    {
        "body_crc",
        "body_size",
        "compression",
        "msg_id",
        "physical_offset",
        "prepared_transaction_offset",
        "queue_offset",
        "size",
        "store_host",
        "store_timestamp",
        "topic",
        "transaction",
    }
)
"""What ``reput cat --json`` prints beyond that; passed over, so that one can feed the other."""
_HOST_BITS = 0x30  # which hosts are IPv6: the store says that of the record that it writes
_TRANSACTION_BITS = 0x0C  # a copied half message would wait for a commit that never comes


class InputError(Exception):
    """A line that is no message."""


class Defaults(NamedTuple):
    """What the command line says about every message."""

    topic: str
    queue_id: int
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]


def line_batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lines without their ends, as many at a time as can be had without waiting.

    Raises:
        InputError: a line longer than any message.
    """
    read = getattr(stream, "read1", stream.read)
    pieces: list[bytes] = []
    pending = 0
    while data := read(_CHUNK_SIZE):
        head, newline, rest = data.rpartition(b"\n")
        if newline:
            pieces.append(head)
            yield b"".join(pieces).split(b"\n")
            pieces, pending = [], 0
        pieces.append(rest)
        pending += len(rest)
        if pending > _LINE_SIZE_MAX:
            raise InputError(f"longer than {_LINE_SIZE_MAX} bytes")
    last = b"".join(pieces)
    if last:
        yield [last]


def message_of_line(line: bytes, defaults: Defaults) -> Message:
    """A message whose body is the line."""
    return Message(
        defaults.topic,
        line,
        defaults.queue_id,
        defaults.tags,
        defaults.keys or None,
        defaults.properties or None,
    )


def message_of_json(line: bytes, defaults: Defaults) -> Message | None:
    """The message that a JSON object describes; what it does not say is as on the command line.

    None for an empty line, and for what ``reput cat --json`` prints in place of a lost message.

    Raises:
        InputError: no JSON object, an unknown member, or a value of the wrong kind.
    """
    if not line.strip():
        return None
    try:
        given = json.loads(line)
    except ValueError as error:
        raise InputError(f"no JSON: {error}") from None
    if not isinstance(given, dict):
        raise InputError(f"a JSON object expected, found {type(given).__name__}")
    if given.get("hole") is True:
        return None
    unknown = given.keys() - _OWN - _STORE_GIVEN
    if unknown:
        raise InputError(f"unknown member {min(unknown)!r}; known: {', '.join(sorted(_OWN))}")
    # Tags and keys are properties, too, and a copied message brings them in both places.
    properties = {**defaults.properties, **_properties(given.get("properties"))}
    tags = given.get("tags") or properties.pop("TAGS", None) or defaults.tags
    keys = given.get("keys") or properties.pop("KEYS", None) or defaults.keys
    properties.pop("TAGS", None)
    properties.pop("KEYS", None)
    if tags is not None and not isinstance(tags, str):
        raise InputError(f"tags: a string expected, found {tags!r}")
    return Message(
        topic=defaults.topic,
        body=_body(given.get("body", ""), given.get("body_encoding", "utf-8")),
        queue_id=_integer(given, "queue_id", defaults.queue_id),
        tags=tags,
        keys=_keys(keys),
        properties=properties or None,
        flag=_integer(given, "flag", 0),
        sys_flag=_integer(given, "sys_flag", 0) & ~(_HOST_BITS | _TRANSACTION_BITS),
        born_timestamp=_integer(given, "born_timestamp", None),
        born_host=_host(given.get("born_host")),
        reconsume_times=_integer(given, "reconsume_times", 0),
    )


def _properties(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InputError(f"properties: an object expected, found {given!r}")
    for name, value in given.items():
        if not isinstance(value, str):
            raise InputError(f"property {name!r}: a string expected, found {value!r}")
    return given


def _keys(given: Any) -> str | list[str] | None:
    if isinstance(given, str):
        return given
    if not isinstance(given, list | tuple) or not all(isinstance(key, str) for key in given):
        raise InputError(f"keys: a string or an array of strings expected, found {given!r}")
    return list(given) or None


def _body(given: Any, encoding: Any) -> bytes:
    if not isinstance(given, str):
        raise InputError(f"body: a string expected, found {type(given).__name__}")
    try:
        if encoding == "utf-8":
            return given.encode()
        if encoding == "base64":
            return base64.b64decode(given, validate=True)
        if encoding == "hex":
            return bytes.fromhex(given)
    except (ValueError, binascii.Error) as error:
        raise InputError(f"body: not {encoding}: {error}") from None
    raise InputError(f"body_encoding: utf-8, base64 or hex expected, found {encoding!r}")


def _integer(given: dict[str, Any], name: str, default: Any) -> Any:
    value = given.get(name, default)
    # bool is an int to Python and to nobody else.
    if value is not default and (not isinstance(value, int) or isinstance(value, bool)):
        raise InputError(f"{name}: an integer expected, found {value!r}")
    return value


def _host(given: Any) -> tuple[str, int] | None:
    if given is None:
        return None
    address, separator, port = str(given).rpartition(":")
    if not separator or not port.isdigit():
        raise InputError(f"born_host: address:port expected, found {given!r}")
    return address.removeprefix("[").removesuffix("]"), int(port)
