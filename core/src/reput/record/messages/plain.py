"""Converts texts, bytes and numbers of a caller's own classes to the built-in types.

``numpy.str_``, `enum.StrEnum` and a program's own subclasses of `str` are texts, and a subclass may
override anything: ``__iter__``, ``__str__``, ``__format__``, ``encode``, ``__hash__``. So the value
is read from the object itself, without calling the object's methods. The same holds for bytes and
for whole numbers. A value of another kind is refused, with its type in the error.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from reput.errors import MessageIllegalError

__all__ = [
    "plain_bytes",
    "plain_integer",
    "plain_properties",
    "plain_text",
    "plain_texts",
    "shown",
    "text_argument",
    "whole_number",
]

BYTES = (bytes, bytearray, memoryview)
_SHOWN = 60  # characters of a value in an error text


def plain_text(field: str, value: object) -> str:
    """Return the characters of ``value`` as an exact `str`.

    Raises:
        MessageIllegalError: ``value`` is no text.
    """
    if isinstance(value, str):
        return str.__str__(value)
    raise MessageIllegalError(field, shown(value), None, "a text expected")


def plain_texts(field: str, values: list[str]) -> list[str]:
    """Return ``values`` as exact `str` objects; the same list if they are so already.

    Raises:
        MessageIllegalError: one of them is no text.
    """
    if set(map(type, values)) <= {str}:
        return values
    return [plain_text(field, value) for value in values]


def plain_bytes(field: str, value: object, row: int | None = None) -> bytes:
    """Return the bytes of ``value``: `bytes`, `bytearray` or `memoryview`, or a subclass.

    Raises:
        MessageIllegalError: ``value`` is none of these.
    """
    if isinstance(value, BYTES):
        # `bytes(value)` would call a subclass's ``__bytes__``; a view reads the object's memory.
        return memoryview(value).tobytes()
    where = "" if row is None else f"row {row}: "
    raise MessageIllegalError(field, shown(value), None, f"{where}bytes expected")


def plain_integer(field: str, value: Any) -> int:
    """Return ``value`` as an exact `int`.

    Raises:
        MessageIllegalError: ``value`` is no whole number.
    """
    if isinstance(value, int):
        return int.__index__(value)
    try:
        return operator.index(value)
    except TypeError:
        raise MessageIllegalError(field, shown(value), None, "a whole number expected") from None


def whole_number(argument: str, value: Any) -> int:
    """Return ``value``, an argument of a public method, as an exact `int`.

    Raises:
        TypeError: ``value`` is no whole number; the text names ``argument``.
    """
    try:
        return plain_integer(argument, value)
    except MessageIllegalError:
        raise TypeError(f"{argument}: a whole number expected, found {shown(value)}") from None


def text_argument(argument: str, value: Any) -> str:
    """Return ``value``, an argument of a public method, as an exact `str`.

    Raises:
        TypeError: ``value`` is no text; the text names ``argument``.
    """
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"{argument}: a text expected, found {shown(value)}")


def plain_properties(properties: Any) -> dict[str, str | None] | bytes | None:
    """Return a message's properties as a dict of texts, or as one encoded property text.

    Raises:
        MessageIllegalError: neither a mapping nor bytes, or a name or value that is no text.
    """
    if properties is None:
        return None
    if isinstance(properties, BYTES):
        return plain_bytes("properties", properties)
    if not isinstance(properties, Mapping):
        reason = "a mapping, or an encoded property text as bytes expected"
        raise MessageIllegalError("properties", shown(properties), None, reason)
    found: dict[str, str | None] = {}
    for name, value in properties.items():
        key = plain_text("properties", name)
        found[key] = None if value is None else plain_text(f"property {key!r}", value)
    return found


def shown(value: object) -> str:
    """Return the type of ``value`` and the beginning of its `repr`, for an error text."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"
