"""Numbers as Java reads and orders them: the values that expressions compare.

Source: ``Integer.valueOf``, ``Long.valueOf``, ``Double.valueOf``, ``Double.compareTo`` and the
filter module's ``ComparisonExpression#__compare``.
"""

from __future__ import annotations

import enum
import math
import re
import unicodedata
from collections.abc import Callable
from typing import Final

import attrs

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class Kind(enum.IntEnum):
    """Java's type of a number; the wider type is the larger."""

    INT = 32
    LONG = 64
    DOUBLE = 65


@attrs.frozen
class Number:
    """A number and its type."""

    kind: Kind
    value: int | float


Value = str | bool | Number | None
"""Value of an operand for one message; None if the property is missing."""


class EvaluationError(Exception):
    """An evaluation that ends in an exception in Java; the message is not selected.

    Attributes:
        java_name: class of that exception.
    """

    def __init__(self, reason: str, java_name: str = "RuntimeException") -> None:
        super().__init__(reason)
        self.java_name = java_name


# Java trims characters up to the space; digits are ASCII, and D or F may follow. Each character can
# be matched in one way only, so that the time for a long text is proportional to its length.
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)"
)
_HEX_DOUBLE = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?"
)
_BLANKS: Final = "".join(map(chr, range(33)))


def parse_integer(text: str, kind: Kind) -> int:
    """Read as ``Integer.valueOf`` or ``Long.valueOf``: a sign and digits of any script only.

    Raises:
        EvaluationError: ``text`` is not such a number.
    """
    limit = INT_MAX if kind is Kind.INT else LONG_MAX
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits and len(digits) < 4096 and not (digits.isascii() and digits.isdigit()):
        # Characters outside of the basic plane are two chars in Java, none of which is a digit.
        digits = "".join(
            str(unicodedata.decimal(each, "x")) if each <= "\uffff" else "x" for each in digits
        )
    if digits.isascii() and digits.isdigit():
        digits = digits.lstrip("0") or "0"
        if len(digits) <= 19:
            value = -int(digits) if text[0] == "-" else int(digits)
            if -limit - 1 <= value <= limit:
                return value
    raise EvaluationError(f"{text[:40]!r} is no {kind.name.lower()}")


def parse_double(text: str) -> float:
    """Read as ``Double.valueOf``.

    Raises:
        EvaluationError: ``text`` is not such a number.
    """
    trimmed = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(trimmed):
        if trimmed.endswith("NaN"):
            return math.nan
        if trimmed.endswith("Infinity"):
            return -math.inf if trimmed[0] == "-" else math.inf
        return float(trimmed.rstrip("dDfF"))
    if _HEX_DOUBLE.fullmatch(trimmed):
        try:
            return float.fromhex(trimmed.rstrip("dDfF"))
        except OverflowError:
            return -math.inf if trimmed[0] == "-" else math.inf
    raise EvaluationError(f"{text[:40]!r} is not a valid double")


def parse_number(text: str, kind: Kind) -> int | float:
    """Return a property's text as a number of type ``kind``.

    Raises:
        EvaluationError: ``text`` is not such a number.
    """
    return parse_double(text) if kind is Kind.DOUBLE else parse_integer(text, kind)


def compare(left: str | bool | Number, right: str | bool | Number) -> int:
    """Return the order of two values: below, equal to or above 0; -1 for values without an order.

    Raises:
        EvaluationError: a text is not a number of the type that it is compared with.
    """
    if isinstance(left, Number):
        if isinstance(right, Number):
            if Kind.DOUBLE in (left.kind, right.kind):
                return _compare_doubles(float(left.value), float(right.value))
            return _sign(left.value, right.value)
        if isinstance(right, str):
            return _compare_numbers(left.value, parse_number(right, left.kind), left.kind)
        return -1
    if isinstance(left, bool):
        if isinstance(right, bool):
            return _sign(left, right)
        if isinstance(right, str):
            raise EvaluationError("a boolean on the left of a text", "ClassCastException")
        return -1
    if isinstance(right, Number):
        return _compare_numbers(parse_number(left, right.kind), right.value, right.kind)
    if isinstance(right, bool):
        return _sign(left.lower() == "true", right)
    return _sign(left, right)


def equal(left: Value, right: Value) -> bool | None:
    """Return ``left = right``: null if only the left is missing, and true if both are."""
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    return compare(left, right) == 0


_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


def in_order(operator: str, left: Value, right: Value) -> bool | None:
    """Compare ``left`` with ``right``; two texts are compared as doubles."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left = Number(Kind.DOUBLE, parse_double(left))
        right = Number(Kind.DOUBLE, parse_double(right))
    return _ORDERS[operator](compare(left, right))


def _compare_numbers(left: float, right: float, kind: Kind) -> int:
    return _compare_doubles(left, right) if kind is Kind.DOUBLE else _sign(left, right)


def _compare_doubles(left: float, right: float) -> int:
    """Order as ``Double.compareTo``: -0.0 is below 0.0; NaN equals itself and is above all."""
    if left != left or right != right:
        return (left != left) - (right != right)
    if left == right == 0.0:
        return _sign(math.copysign(1.0, left), math.copysign(1.0, right))
    return _sign(left, right)


def _sign(left: str | float, right: str | float) -> int:
    return (left > right) - (left < right)  # type: ignore[operator]
