"""Takes a caller's text, bytes or number as an object of the built-in type.

A `str` of any class is a text, whatever it prints; the same holds for bytes and whole numbers. A
value of another kind is refused, with its type in the error.
"""

from __future__ import annotations

import operator
from typing import Any

from reput.errors import MessageIllegalError

__all__ = ["BYTES", "plain_bytes", "plain_integer", "plain_text", "refused", "shown"]

BYTES = (bytes, bytearray, memoryview)
_SHOWN = 60  # characters of a value in an error text


def plain_text(field: str, value: object) -> str:
    """Return ``value`` as a `str`.

    Raises:
        MessageIllegalError: ``value`` is not a text.
    """
    if isinstance(value, str):
        return str.__str__(value)  # `str` of a member of ``class Color(str, Enum)`` is its name
    raise refused(field, value, "a string expected")


def plain_bytes(field: str, value: object, row: int | None = None) -> bytes:
    """Return the bytes of ``value``: `bytes`, `bytearray` or `memoryview`.

    Raises:
        MessageIllegalError: ``value`` is of another type.
    """
    if isinstance(value, BYTES):
        return bytes(value)
    raise refused(field, value, "bytes expected" if row is None else f"row {row}: bytes expected")


def plain_integer(field: str, value: Any) -> int:
    """Return ``value`` as an `int`.

    Raises:
        MessageIllegalError: ``value`` is not a whole number.
    """
    try:
        return int(operator.index(value))
    except TypeError:
        raise refused(field, value, "an integer expected") from None


def refused(field: str, value: object, reason: str) -> MessageIllegalError:
    """Return the error for a value of a wrong type in a field of a message."""
    return MessageIllegalError(field, None, None, f"{reason}, found {shown(value)}")


def shown(value: object) -> str:
    """Return the type of ``value`` and the beginning of its `repr`, for an error text."""
    text = repr(value)
    if value is None:
        return text
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"
