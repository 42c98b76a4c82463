"""JSON as RocketMQ writes bodies: keys of objects may be bare integers, or objects themselves.

It is read as RocketMQ reads it, which is with less care (`read_loosely`). Bare integers and texts
are alike when they are read: both are texts. A key that is an object is a
`QueueName`, which is the only one that the protocol has.

Source: fastjson 1 as ``RemotingSerializable`` uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from reput_client.remoting.bodies.queuename import QueueName, queue_of
from reput_client.remoting.errors import BodyError
from reput_tools.brokerfiles import read_loosely, strict_decoder

_plain: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_decode: Final = strict_decoder()


def parse_body(body: bytes, what: str) -> Any:
    """Return the value of a body.

    Args:
        body: its bytes; none of them are an empty object.
        what: what the body is to be, for messages.

    Raises:
        BodyError: the body is not JSON.
    """
    if not body:
        return {}
    text = body.decode("utf-8", "replace")
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        pass  # written with less care, or not JSON at all
    try:
        return read_loosely(text, queue_of)
    except json.JSONDecodeError as error:
        raise BodyError(what, error.pos, error.msg) from None
    except (ValueError, RecursionError) as error:
        raise BodyError(what, 0, str(error)) from None


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
