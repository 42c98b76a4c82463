"""Reads and writes JSON as RocketMQ's brokers do, which leave integer keys without quotes.

Such a key is a `BareKey` in memory, so that a file that is read and written has the same bytes.

Source: RocketMQ ``ConfigManager``, ``MixAll#file2String`` and fastjson's pretty form: tabs, no
space after a colon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from reput_tools.brokerfiles.barekey import BareKey
from reput_tools.brokerfiles.looseparser import read_loosely, strict_decoder

__all__ = ["BareKey", "decode", "encode", "is_text", "object_of"]

_plain: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_text: Final = json.encoder.encode_basestring  # the encoder itself takes three times as long
_MARK: Final = "\0"  # in front of a key that stood without quotes
_ESCAPED_MARK: Final = r"\u0000"  # in a document, only an escape writes the mark
# A text, which stays unchanged, or a key without quotes.
_BARE_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*")|([{,]\s*)(-?[0-9]+)(?=\s*:)')


def decode(data: bytes) -> Any:
    """Return the value of a document, read as a broker reads it.

    Bytes that are not UTF-8 become U+FFFD, as in a broker; `is_text` is False then.

    Raises:
        ValueError: ``data`` is not such a document.
    """
    text = data.decode("utf-8", "replace")
    if _ESCAPED_MARK not in text:
        try:
            # Nearly all documents are as brokers write them; this is thirty times as fast.
            return _loads(_BARE_KEY.sub(_quoted, text))
        except (ValueError, RecursionError):
            pass
    try:
        return read_loosely(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def object_of(data: bytes) -> dict[str, Any]:
    """Return the object of a document.

    Raises:
        ValueError: ``data`` is not such a document, or its value is not an object.
    """
    found = decode(data)
    if not isinstance(found, dict):
        raise ValueError("it does not hold a JSON object")
    return found


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8, so that a document that is read and written loses none."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def encode(document: object) -> bytes:
    """Return the bytes of a document; objects whose keys are all bare are written on one line."""
    # Half of a pair of characters, which UTF-8 does not have, becomes an escape of JSON.
    return _encode(document, 0).encode("utf-8", "backslashreplace")


def _quoted(match: re.Match[str]) -> str:
    return match[1] or f'{match[2]}"{_ESCAPED_MARK}{match[3]}"'


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {BareKey(key[1:]) if key[:1] == _MARK else key: value for key, value in pairs}


_loads: Final = strict_decoder(_object)


def _encode(value: object, depth: int) -> str:
    kind = type(value)
    if kind is int:  # most values are; the encoder takes ten times as long
        return str(value)
    if kind is str:
        return _text(value)  # type: ignore[arg-type]
    if kind is list and all([type(each) is str for each in value]):  # type: ignore[attr-defined]  # noqa: C419
        return f"[{','.join(map(_text, value))}]"  # type: ignore[call-overload]
    if kind is not dict and not isinstance(value, Mapping):
        return _plain(value)
    if not value:
        return "{}"
    tabs = "\t" * depth
    # A list, as most of a large document are small objects.
    if all([type(key) is BareKey for key in value]):  # type: ignore[attr-defined]  # noqa: C419
        inner = ",".join([f"{key}:{_encode(each, depth)}" for key, each in value.items()])  # type: ignore[attr-defined]
        return f"{{{inner}\n{tabs}}}"
    parts = [f"{tabs}\t{_key(key)}:{_encode(each, depth + 1)}" for key, each in value.items()]  # type: ignore[attr-defined]
    return "{\n" + ",\n".join(parts) + f"\n{tabs}}}"


def _key(key: str) -> str:
    return key if type(key) is BareKey else _text(key)
