"""Values as the built-in types they are: texts, bytes and numbers of a caller's own classes.

``numpy.str_``, `enum.StrEnum` and a program's own subclasses of `str` are texts, and a subclass may
override whatever it likes: ``__iter__``, ``__str__``, ``__format__``, ``encode``, ``__hash__``. So
what is stored is taken from the object itself and never asked of its methods. The same holds for
bytes and for whole numbers. Whatever else is handed in is refused with its name.
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
    """The characters of ``value`` as a `str` and nothing more.

    Raises:
        MessageIllegalError: no text.
    """
    if isinstance(value, str):
        return str.__str__(value)
    raise MessageIllegalError(field, shown(value), None, "a text expected")


def plain_texts(field: str, values: list[str]) -> list[str]:
    """``values``, each a `str` and nothing more; the same list where all are.

    Raises:
        MessageIllegalError: one is no text.
    """
    if set(map(type, values)) <= {str}:
        return values
    return [plain_text(field, value) for value in values]


def plain_bytes(field: str, value: object, row: int | None = None) -> bytes:
    """The bytes of ``value``, which may be whatever offers a view of bytes in a row.

    Raises:
        MessageIllegalError: no bytes.
    """
    if isinstance(value, BYTES):
        # `bytes` would ask a subclass's ``__bytes__``; a view reads the object.
        return memoryview(value).tobytes()
    where = "" if row is None else f"row {row}: "
    raise MessageIllegalError(field, shown(value), None, f"{where}bytes expected")


def plain_integer(field: str, value: Any) -> int:
    """``value`` as an `int` and nothing more.

    Raises:
        MessageIllegalError: no whole number.
    """
    if isinstance(value, int):
        return int.__index__(value)
    try:
        return operator.index(value)
    except TypeError:
        raise MessageIllegalError(field, shown(value), None, "a whole number expected") from None


def whole_number(argument: str, value: Any) -> int:
    """The argument of a call that must be a whole number.

    Raises:
        TypeError: it is none; the text names the argument and what was found.
    """
    try:
        return plain_integer(argument, value)
    except MessageIllegalError:
        raise TypeError(f"{argument}: a whole number expected, found {shown(value)}") from None


def text_argument(argument: str, value: Any) -> str:
    """The argument of a call that must be a text.

    Raises:
        TypeError: it is none; the text names the argument and what was found.
    """
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"{argument}: a text expected, found {shown(value)}")


def plain_properties(properties: Any) -> dict[str, str | None] | bytes | None:
    """Properties of a message: a dict of texts, or one encoded property text.

    Raises:
        MessageIllegalError: neither, or a name or value that is no text.
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
    """What was found, for an error text: its type, and so much of it that it is known again."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"
