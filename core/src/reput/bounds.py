"""Validators of options that are numbers: each has a least and a greatest value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

__all__ = ["AGE_MAX_MS", "INT32_MAX", "number_between", "whole_between"]

INT32_MAX: Final = (1 << 31) - 1
"""The greatest ``int`` of Java."""
AGE_MAX_MS: Final = 100 * 366 * 86_400_000
"""100 years: the greatest age that an option can name, ms."""

_SHOWN: Final = 80  # characters of a wrong value

_Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def whole_between(least: int, most: int) -> _Validator:
    """Return a validator of whole numbers from ``least`` to ``most``, both included.

    units: int = attrs.field(default=300_000, validator=whole_between(2, 100_000_000))
    """
    return _between(least, most, int, f"a whole number from {least} to {most}")


def number_between(least: float, most: float) -> _Validator:
    """Return a validator of numbers, whole or not, from ``least`` to ``most``, both included."""
    return _between(least, most, int | float, f"a number from {least:g} to {most:g}")


def _between(least: float, most: float, kinds: Any, expected: str) -> _Validator:
    def check(config: Any, field: attrs.Attribute[Any], value: Any) -> None:
        text = f"{field.name}: {expected} expected, found"
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise TypeError(f"{text} {type(value).__name__} {_shown(value)}")
        if not least <= value <= most:  # refuses NaN, too
            raise ValueError(f"{text} {_shown(value)}")

    return check


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"one of {value.bit_length()} bits"  # Python does not write 4,300 digits or more
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
