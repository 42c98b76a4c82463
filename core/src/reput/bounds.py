"""Validators of options that are numbers: each has a least and a greatest value.

An option without bounds is refused by whatever meets the number first, in the middle of the work:
an array, a file or a timer of the system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

__all__ = ["AGE_MAX_MS", "INT32_MAX", "number_between", "whole_between"]

INT32_MAX: Final = (1 << 31) - 1
"""The greatest ``int`` of Java: of sizes of files, of counts, and of pauses in ms (24.8 days)."""
AGE_MAX_MS: Final = 100 * 366 * 86_400_000
"""100 years: the greatest age that an option can name, ms."""

_Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def whole_between(least: int, most: int) -> _Validator:
    """Return a validator of whole numbers from ``least`` to ``most``, both included.

    units: int = attrs.field(default=300_000, validator=whole_between(2, 100_000_000))
    """

    def check(config: Any, field: attrs.Attribute[Any], value: Any) -> None:
        expected = f"{field.name}: a whole number from {least} to {most} expected, found"
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{expected} {_shown(value)}")
        if not least <= value <= most:
            raise ValueError(f"{expected} {_digits(value)}")

    return check


def number_between(least: float, most: float) -> _Validator:
    """Return a validator of numbers, whole or not, from ``least`` to ``most``, both included."""

    def check(config: Any, field: attrs.Attribute[Any], value: Any) -> None:
        expected = f"{field.name}: a number from {least:g} to {most:g} expected, found"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{expected} {_shown(value)}")
        if value != value or not least <= value <= most:
            raise ValueError(f"{expected} {_digits(value)}")

    return check


def _digits(value: float) -> str:
    # Python refuses to write integers of more than 4,300 digits.
    if isinstance(value, int) and value.bit_length() > _BITS_SHOWN:
        return f"one of {value.bit_length()} bits"
    return repr(value)


_BITS_SHOWN: Final = 256


def _shown(value: object) -> str:
    text = repr(value)
    return (
        f"{type(value).__name__} {text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + '…'}"
    )


_TEXT_SHOWN: Final = 80
