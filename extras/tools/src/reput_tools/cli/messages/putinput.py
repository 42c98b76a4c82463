"""Reads the input of ``reput put``: lines, as bodies or as JSON objects."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from reput.record import Message

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
"""Members of a JSON line that describe its message."""
_STORE_GIVEN = frozenset(
    {
        "body_crc",
        "body_size",
        "compression",
        "msg_id",
        "physical_offset",
        "prepared_transaction_offset",
        "problems",
        "queue_offset",
        "size",
        "store_host",
        "store_timestamp",
        "topic",
        "transaction",
    }
)
"""Further members that ``reput cat --json`` prints; ignored, so that its output can be put."""
_HOST_BITS = 0x30  # which hosts are IPv6: the writing store sets these bits
_TRANSACTION_BITS = 0x0C
_COMMIT = 0x08
_COMPRESSED = 0x01
_DERIVED = frozenset({"body_crc", "body_size", "compression", "size", "transaction"})
"""These follow from the rest of the message: nothing is lost when they are ignored."""


class InputError(Exception):
    """A line that is not a message."""


class LeftOut:
    """Fields of lines that were ignored, for a note at the end."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.hole_count = 0
        self.problem_count = 0
        self.commit_count = 0
        self.unpacked_count = 0

    def notes(self) -> Iterator[str]:
        """Yield one line for each kind."""
        if self.names:
            yield f"not taken over, as the store gives it: {', '.join(sorted(self.names))}"
        if self.commit_count:
            yield (
                f"{self.commit_count} of the messages ended a transaction where they come from; "
                "they are stored as messages of none"
            )
        if self.unpacked_count:
            yield (
                f"{self.unpacked_count} of the messages were compressed where they come from; they "
                "are stored as they were unpacked (`reput cat --raw` leaves them compressed)"
            )
        if self.hole_count:
            yield f"{self.hole_count} of the lines described lost messages and were ignored"
        if self.problem_count:
            yield (
                f"{self.problem_count} of the lines describe damage of the source of the messages, "
                "and were ignored"
            )


class Defaults(NamedTuple):
    """What the command line says about every message."""

    topic: str
    queue_id: int | None
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]


def line_batches(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lines without their ends, as many at a time as are available without waiting.

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
    """Return a message whose body is the line."""
    return Message(
        defaults.topic,
        line,
        defaults.queue_id,
        defaults.tags,
        defaults.keys or None,
        defaults.properties or None,
    )


def message_of_json(
    line: bytes, defaults: Defaults, left_out: LeftOut | None = None
) -> Message | None:
    """Return the message that a JSON object describes; other values come from the command line.

    None for an empty line, and for the objects that ``reput cat --json`` prints for lost messages
    and damage.

    Args:
        line: the object.
        defaults: what the command line says.
        left_out: notes of what is not taken over are added to it.

    Raises:
        InputError: not a JSON object, an unknown member, a value of the wrong kind, or members that
            contradict each other.
    """
    left_out = LeftOut() if left_out is None else left_out
    if not line.strip():
        return None
    try:
        given = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise InputError(f"a JSON object expected, found {type(given).__name__}")
    if given.get("hole") is True:
        left_out.hole_count += 1
        return None
    if given.keys() == {"problem"}:
        left_out.problem_count += 1
        return None
    unknown = given.keys() - _OWN - _STORE_GIVEN
    if unknown:
        raise InputError(f"unknown member {min(unknown)!r}; known: {', '.join(sorted(_OWN))}")
    left_out.names.update(name for name in given.keys() & _STORE_GIVEN - _DERIVED if given[name])
    if given.get("topic") in (None, defaults.topic):
        left_out.names.discard("topic")
    properties = _properties(given.get("properties"))
    # Tags and keys are properties, too: a copied message has them in both places.
    tags = _one_of("tags", _tags(given.get("tags")), properties.pop("TAGS", None))
    keys = _one_of("keys", _keys(given.get("keys")), properties.pop("KEYS", None))
    others = {name: text for name, text in defaults.properties.items() if name not in properties}
    if tags is not None:
        others.pop("TAGS", None)
    if keys is not None:
        others.pop("KEYS", None)
    properties = {**others, **properties}
    sys_flag = _integer(given, "sys_flag", 0) & ~_HOST_BITS
    if sys_flag & _TRANSACTION_BITS:
        if sys_flag & _TRANSACTION_BITS != _COMMIT:
            raise InputError(
                f"sys_flag: {sys_flag} is that of a transaction that is open or was rolled back, "
                "which cannot be copied; clear the bits with the values 4 and 8 to store a plain "
                "message"
            )
        left_out.commit_count += 1
        sys_flag &= ~_TRANSACTION_BITS
    if given.get("compression") and not sys_flag & _COMPRESSED:
        left_out.unpacked_count += 1
    return Message(
        topic=defaults.topic,
        body=_body(given.get("body", ""), given.get("body_encoding", "utf-8")),
        queue_id=_integer(given, "queue_id", defaults.queue_id),
        tags=defaults.tags if tags is None else tags,
        keys=(list(defaults.keys) or None) if keys is None else keys,
        properties=properties or None,
        flag=_integer(given, "flag", 0),
        sys_flag=sys_flag,
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
        if not name or not value:
            raise InputError(f"property {name!r}: a name and a value expected, found {value!r}")
    return dict(given)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, and refuse a member given twice, which `dict` would drop."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"member {twice!r} is given twice")
    return found


def _one_of(name: str, given: str | None, property_text: str | None) -> str | None:
    """Return the value of a member, or of the property with the same meaning."""
    if given is None or property_text is None:
        return property_text if given is None else given
    if given.split() != property_text.split():
        raise InputError(
            f"{name}: {given!r} contradicts the property {name.upper()!r}, {property_text!r}"
        )
    return property_text  # with its original spelling


def _tags(given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise InputError(f"tags: a string expected, found {given!r}")
    return given or None


def _keys(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given or None
    if not isinstance(given, list) or not all(isinstance(key, str) for key in given):
        raise InputError(f"keys: a string or an array of strings expected, found {given!r}")
    for key in given:
        if not key or " " in key:
            raise InputError(f"keys: {key!r} is not a valid key: a word without spaces expected")
    return " ".join(given) or None


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
    # Only Python takes a bool for an int.
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
