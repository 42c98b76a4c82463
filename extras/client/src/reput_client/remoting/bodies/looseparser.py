"""Reads JSON that is written with less care than the standard asks for.

It takes what RocketMQ's reader does: names without quotes, or in single ones, names that are
numbers or objects, commas that part nothing, comments, numbers with a sign or a suffix.

Source: fastjson 1.2.83, ``JSONLexerBase`` with its default features; recorded in
``tests/golden/peers``.
"""

from __future__ import annotations

import re
from json import JSONDecodeError
from typing import Any, Final

from reput_client.remoting.bodies.queuename import QueueName, queue_of

__all__ = ["read_loosely"]

_DEPTH_MAX: Final = 64
_BLANKS: Final = re.compile(r"(?:[ \t\r\n\f\b\ufeff]++|/\*.*?\*/|//[^\n]*+)*+", re.DOTALL)
_COMMAS: Final = re.compile(r"(?:[ \t\r\n\f\b,]++|/\*.*?\*/|//[^\n]*+)*+", re.DOTALL)
_NUMBER: Final = re.compile(r"([+-]?[0-9]{1,4000})(\.[0-9]*)?([eE][+-]?[0-9]{1,9})?[LSBFD]?(?!\w)")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SINGLE: Final = re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_BARE: Final = re.compile(r"[^\W\d][\w$]*+|\$[\w$]*+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {
    **{sign: sign for sign in "\"'/\\"},
    **{str(number): chr(number) for number in range(8)},
    "b": "\b",
    "f": "\f",
    "F": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_WORDS: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
    "NaN": None,
}


def read_loosely(text: str) -> Any:
    """Return the value of a text.

    Raises:
        JSONDecodeError: the text is not one value.
    """
    value, at = _value(text, _skip(text, 0), 0)
    if (at := _skip(text, at)) != len(text):
        raise JSONDecodeError("more text behind the value", text, at)
    return value


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _next(text: str, at: int) -> int:
    """Return where the next entry begins, or where the list or the object ends."""
    match = _COMMAS.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at ``at``, and where it ends."""
    if depth > _DEPTH_MAX:
        raise JSONDecodeError(f"more than {_DEPTH_MAX} levels", text, at)
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at + 1, depth)
    if first == "[":
        return _list(text, at + 1, depth)
    if first in ('"', "'"):
        return _quoted(text, at)
    if match := _NUMBER.match(text, at):
        whole, fraction, power = match.groups()
        is_decimal = fraction is not None or power is not None
        return (float(match[0].rstrip("LSBFD")) if is_decimal else int(whole)), match.end()
    match = _BARE.match(text, at)
    if match and match[0] in _WORDS:
        return _WORDS[match[0]], match.end()
    raise JSONDecodeError("a value expected", text, at)


def _object(text: str, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    found: dict[Any, Any] = {}
    at = _next(text, at)
    while text[at : at + 1] != "}":
        key, at = _key(text, at, depth)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise JSONDecodeError("':' expected", text, at)
        found[key], at = _value(text, _skip(text, at + 1), depth + 1)
        at = _parted(text, at, "}")
    return found, at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found = []
    at = _next(text, at)
    while text[at : at + 1] != "]":
        value, at = _value(text, at, depth + 1)
        found.append(value)
        at = _parted(text, at, "]")
    return found, at + 1


def _parted(text: str, at: int, end: str) -> int:
    """Return where the next entry begins, in front of which is a comma, or where ``end`` is."""
    at = _skip(text, at)
    if text[at : at + 1] not in (",", end):
        raise JSONDecodeError(f"',' or {end!r} expected", text, at)
    return _next(text, at)


def _key(text: str, at: int, depth: int) -> tuple[str | QueueName, int]:
    first = text[at : at + 1]
    if first in ('"', "'"):
        return _quoted(text, at)
    if match := _BARE.match(text, at):
        return match[0], match.end()
    if match := _NUMBER.match(text, at):
        return match[0], match.end()
    value, end = _value(text, at, depth + 1)
    try:
        return queue_of(value), end
    except ValueError as error:
        raise JSONDecodeError(str(error), text, at) from None


def _quoted(text: str, at: int) -> tuple[str, int]:
    match = (_DOUBLE if text[at] == '"' else _SINGLE).match(text, at)
    if match is None:
        raise JSONDecodeError("a text without its end", text, at)
    found = match[1]
    if "\\" not in found:
        return found, match.end()
    try:
        return _ESCAPE.sub(_unescaped, found), match.end()
    except KeyError as error:
        raise JSONDecodeError(f"an escape that is not valid: {error}", text, at) from None


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED[match[3]]
