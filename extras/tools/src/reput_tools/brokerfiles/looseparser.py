"""Reads JSON as fastjson does, which RocketMQ uses: it accepts more than the standard allows.

* a byte order mark in front; control characters in front of a value, and behind the document;
* comments, also one that does not end; everything behind the character 0x1a is ignored;
* texts and names in single quotes, names without quotes, names that are numbers or objects;
* any number of commas between the members of an object or a list, and in front of its end.
  In an object whose names are numbers, one comma, which may be missing;
* numbers with a plus sign, zeros in front, or a suffix, and values such as ``Set[1,2]``.

Source: fastjson 1.2.83, ``JSONLexerBase``, ``MapDeserializer`` and ``JavaBeanDeserializer`` with
their default features; recorded in ``tests/golden/peers``. Different on purpose: a comment is also
taken in front of a colon, where only some of its deserializers take one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final, NoReturn

from reput_tools.brokerfiles.barekey import BareKey

_DEPTH_MAX: Final = 64
_COMMENT: Final = r"/\*(?:.*?\*/|.*\Z)|//[^\n]*+"
_BLANKS: Final = re.compile(rf"(?:[ \t\r\n\f\b]++|{_COMMENT})*+", re.DOTALL)
_COMMAS: Final = re.compile(rf"(?:[ \t\r\n\f\b,]++|{_COMMENT})*+", re.DOTALL)
# In front of and behind a value, where its lexer takes tokens.
_CONTROLS: Final = re.compile(rf"(?:[\x00-\x19\x1b-\x20\x7f]++|{_COMMENT})*+", re.DOTALL)
_NUMBER: Final = re.compile(r"([+-]?[0-9]{1,4000})(\.[0-9]*)?([eE][+-]?[0-9]{1,9})?[LSBFD]?(?!\w)")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SINGLE: Final = re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_BARE: Final = re.compile(r"[^\W\d][\w$]*+|\$[\w$]*+")
_SET: Final = re.compile(r"(?:Tree)?Set[ \t\r\n\f\b]*+(?=\[)")
_DATE: Final = re.compile(r"new Date\(([0-9]{1,18})\)")
_HEX: Final = re.compile(r"x'((?:[0-9a-fA-F]{2})*+)'")
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
_MARK: Final = "\ufeff"
_END: Final = "\x1a"


def _no_key(value: object) -> Hashable:
    raise ValueError("a name cannot be an object or a list")


def strict_decoder(
    object_of: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Callable[[str], Any]:
    """Return a fast reader of JSON as the standard has it, with the values of `read_loosely`.

    It raises `ValueError` for everything else, also for numbers that 64 bits of a float do not
    hold and for ``NaN`` and ``Infinity``, which Python accepts.

    Args:
        object_of: what the names and values of an object become; a ``dict`` without it.
    """
    return JSONDecoder(
        object_pairs_hook=object_of, parse_float=_finite, parse_constant=_refuse
    ).decode


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError("a number that is too large")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def read_loosely(text: str, key_of: Callable[[object], Hashable] = _no_key) -> Any:
    """Return the value of a text. A name that is a bare integer becomes a `BareKey`.

    Args:
        text: the text.
        key_of: what a name that is an object or a list becomes; raises `ValueError` if it cannot be
            one.

    Raises:
        JSONDecodeError: the text is not one value.
    """
    return _Parser(text, key_of).document()


class _Parser:
    """One text. Methods return the value that begins at a place, and the place behind it."""

    def __init__(self, text: str, key_of: Callable[[object], Hashable]) -> None:
        self.text = text
        self.key_of = key_of

    def document(self) -> Any:
        at = 1 if self.text.startswith(_MARK) else 0
        value, at = self.value(self.skip(at, _CONTROLS), 0)
        at = self.skip(at, _CONTROLS)
        if at != len(self.text) and self.text[at] != _END:
            raise self.error("more text behind the value", at)
        return value

    def error(self, reason: str, at: int) -> JSONDecodeError:
        return JSONDecodeError(reason, self.text, at)

    def sign(self, at: int) -> str:
        return self.text[at : at + 1]

    def skip(self, at: int, what: re.Pattern[str] = _BLANKS) -> int:
        match = what.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        if depth > _DEPTH_MAX:
            raise self.error(f"more than {_DEPTH_MAX} levels", at)
        first = self.sign(at)
        if first == "{":
            return self.object(at + 1, depth)
        if first == "[":
            return self.list(at + 1, depth)
        if first in ('"', "'"):
            return self.quoted(at)
        if match := _NUMBER.match(self.text, at):
            return self.number(match), match.end()
        match = _BARE.match(self.text, at)
        if match and match[0] in _WORDS:
            return _WORDS[match[0]], match.end()
        return self.special(at, depth)

    def number(self, match: re.Match[str]) -> int | float:
        whole, fraction, power = match.groups()
        if fraction is None and power is None:
            return int(whole)
        try:
            return _finite(match[0].rstrip("LSBFD"))
        except ValueError as error:
            raise self.error(str(error), match.start()) from None

    def special(self, at: int, depth: int) -> tuple[Any, int]:
        if match := _SET.match(self.text, at):
            return self.list(match.end() + 1, depth)
        if match := _DATE.match(self.text, at):
            return int(match[1]), match.end()
        if match := _HEX.match(self.text, at):
            return match[1], match.end()
        raise self.error("a value expected", at)

    def object(self, at: int, depth: int) -> tuple[dict[Any, Any], int]:
        start = self.skip(at)
        if _NUMBER.match(self.text, start):
            return self.numbered(start, depth)
        found: dict[Any, Any] = {}
        at = self.skip(start, _COMMAS)
        key: Hashable
        while self.sign(at) != "}":
            if found and _NUMBER.match(self.text, at):
                key, at = self.number_key(at)
            else:
                key, at = self.key(at, depth)
            found[key], at = self.member(at, depth)
            at = self.parted(at, "}")
        return found, at + 1

    def numbered(self, at: int, depth: int) -> tuple[dict[Any, Any], int]:
        """Read the members of an object whose names are numbers."""
        found: dict[Any, Any] = {}
        while self.sign(at) != "}":
            is_text = self.sign(at) in ('"', "'")
            key, at = self.quoted(at) if is_text else self.number_key(at)
            found[key], at = self.member(at, depth)
            at = self.skip(at, _CONTROLS)
            if self.sign(at) == ",":
                at = self.skip(at + 1, _CONTROLS)
        return found, at + 1

    def member(self, at: int, depth: int) -> tuple[Any, int]:
        at = self.skip(at)
        if self.sign(at) != ":":
            raise self.error("':' expected", at)
        return self.value(self.skip(at + 1, _CONTROLS), depth + 1)

    def list(self, at: int, depth: int) -> tuple[list[Any], int]:
        found = []
        at = self.skip(at, _COMMAS)
        while self.sign(at) != "]":
            value, at = self.value(at, depth + 1)
            found.append(value)
            at = self.parted(at, "]")
        return found, at + 1

    def parted(self, at: int, end: str) -> int:
        """Return where the next entry begins, in front of which is a comma, or where ``end`` is."""
        at = self.skip(at, _CONTROLS)
        if self.sign(at) not in (",", end):
            raise self.error(f"',' or {end!r} expected", at)
        return self.skip(at, _COMMAS)

    def number_key(self, at: int) -> tuple[str, int]:
        match = _NUMBER.match(self.text, at)
        if match is None:
            raise self.error("a number expected", at)
        return BareKey(int(self.number(match))), match.end()

    def key(self, at: int, depth: int) -> tuple[Hashable, int]:
        if self.sign(at) in ('"', "'"):
            return self.quoted(at)
        if match := _BARE.match(self.text, at):
            return match[0], match.end()
        if _NUMBER.match(self.text, at):
            raise self.error("a comma in front of names that are numbers", at)
        value, end = self.value(at, depth + 1)
        try:
            return self.key_of(value), end
        except ValueError as error:
            raise self.error(str(error), at) from None

    def quoted(self, at: int) -> tuple[str, int]:
        match = (_DOUBLE if self.text[at] == '"' else _SINGLE).match(self.text, at)
        if match is None:
            raise self.error("a text without its end", at)
        found = match[1]
        if "\\" not in found:
            return found, match.end()
        try:
            return _ESCAPE.sub(_unescaped, found), match.end()
        except KeyError as error:
            raise self.error(f"an escape that is not valid: {error}", at) from None


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED[match[3]]
