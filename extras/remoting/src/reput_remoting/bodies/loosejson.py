"""JSON as RocketMQ writes bodies: keys of objects may be bare integers, or objects themselves.

Bare integers and texts are alike when they are read: both are texts. A key that is an object is a
`QueueName`, which is the only one that the protocol has.

Source: fastjson 1 as ``RemotingSerializable`` uses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from reput_remoting.bodies.queues import QueueName, queue_of
from reput_remoting.errors import BodyError

__all__ = ["parse_body", "write_body"]

_DEPTH_MAX: Final = 64
_plain: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_scan: Final = json.JSONDecoder().raw_decode
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")


def parse_body(body: bytes, what: str) -> Any:
    """Return the value of a body.

    Args:
        body: its bytes; none of them are an empty object.
        what: what the body is to be, for messages.

    Raises:
        BodyError: it is no such JSON.
    """
    if not body:
        return {}
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass  # bare keys, or no JSON at all
    try:
        value, at = _value(text, _skip(text, 0), 0)
    except json.JSONDecodeError as error:
        raise BodyError(what, error.pos, error.msg) from None
    except (ValueError, RecursionError) as error:
        raise BodyError(what, 0, str(error)) from None
    if (at := _skip(text, at)) != len(text):
        raise BodyError(what, at, "more text behind the value")
    return value


def write_body(value: object, *, is_strict: bool = False) -> bytes:
    """Return a body's bytes.

    Args:
        value: objects are mappings, each key a text, an integer or a `QueueName`.
        is_strict: True writes integer keys in quotes, as JSON has them. False leaves them bare, as
            Go's client needs them.
    """
    return _text(value, is_strict=is_strict).encode("utf-8", "replace")


def _text(value: object, *, is_strict: bool) -> str:
    if isinstance(value, QueueName):
        return _queue_text(value)
    if isinstance(value, Mapping):
        return (
            "{"
            + ",".join(
                f"{_key(key, is_strict=is_strict)}:{_text(each, is_strict=is_strict)}"
                for key, each in value.items()
            )
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(each, is_strict=is_strict) for each in value) + "]"
    return _plain(value)


def _key(key: object, *, is_strict: bool) -> str:
    if isinstance(key, QueueName):
        return _queue_text(key)
    if isinstance(key, int):
        return f'"{key}"' if is_strict else str(key)
    return _plain(str(key))


def _queue_text(queue: QueueName) -> str:
    return _plain({"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic})


# --------------------------------------------------------------------------- reading


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at ``at``, and where it ends."""
    if depth > _DEPTH_MAX:
        raise json.JSONDecodeError(f"more than {_DEPTH_MAX} levels", text, at)
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at + 1, depth)
    if first == "[":
        return _list(text, at + 1, depth)
    return _scan(text, at)


def _object(text: str, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    found: dict[Any, Any] = {}
    at = _skip(text, at)
    while text[at : at + 1] != "}":
        key, at = _read_key(text, at, depth)
        at = _expect(text, _skip(text, at), ":")
        found[key], at = _value(text, _skip(text, at), depth + 1)
        at = _next(text, _skip(text, at), "}")
    return found, at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found = []
    at = _skip(text, at)
    while text[at : at + 1] != "]":
        value, at = _value(text, at, depth + 1)
        found.append(value)
        at = _next(text, _skip(text, at), "]")
    return found, at + 1


def _next(text: str, at: int, end: str) -> int:
    """Return where the next entry begins, or where ``end`` is."""
    return at if text[at : at + 1] == end else _skip(text, _expect(text, at, ","))


def _read_key(text: str, at: int, depth: int) -> tuple[str | QueueName, int]:
    if match := _INTEGER.match(text, at):
        return match[0], match.end()
    key, end = _value(text, at, depth + 1)
    if isinstance(key, str):
        return key, end
    try:
        return queue_of(key), end
    except ValueError as error:
        raise json.JSONDecodeError(str(error), text, at) from None


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"{sign!r} expected", text, at)
    return at + 1
