"""Options that are numbers: their least and greatest values, and sizes as people write them."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

INT32_MAX: Final = (1 << 31) - 1
"""The greatest ``int`` of Java."""
AGE_MAX_MS: Final = 100 * 366 * 86_400_000
"""100 years: the greatest age that an option can name, ms."""

_SHOWN: Final = 80  # characters of a wrong value

_UNIT_SIZES: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1_000 ** (power + 1) for power, letter in enumerate("kmgt")},
    **{f"{letter}ib": 1_024 ** (power + 1) for power, letter in enumerate("kmgt")},
}


@attrs.frozen
class Bounds:
    """Validator of numbers from ``least`` to ``most``, both included."""

    least: float
    most: float
    is_whole: bool

    def __call__(self, config: Any, field: attrs.Attribute[Any], value: Any) -> None:
        """Check the value of an option.

        Raises:
            TypeError: the value is not a number, or not a whole number if that is expected.
            ValueError: it is outside of the bounds.
        """
        kinds: Any = int if self.is_whole else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            found = _shown(value) if value is None else f"{type(value).__name__} {_shown(value)}"
            raise TypeError(f"{field.name}: {self} expected, found {found}")
        if not self.least <= value <= self.most:  # refuses NaN, too
            raise ValueError(f"{field.name}: {self} expected, found {_shown(value)}")

    def __str__(self) -> str:
        if self.is_whole:
            return f"an integer from {self.least} to {self.most}"
        return f"a number from {self.least:g} to {self.most:g}"


def integer_between(least: int, most: int) -> Bounds:
    """Return a validator of whole numbers from ``least`` to ``most``, both included.

    units: int = attrs.field(default=300_000, validator=integer_between(2, 100_000_000))
    """
    return Bounds(least, most, is_whole=True)


def number_between(least: float, most: float) -> Bounds:
    """Return a validator of numbers, whole or not, from ``least`` to ``most``, both included."""
    return Bounds(least, most, is_whole=False)


def parse_size(text: str) -> int:
    """Return ``10GB``, ``512MiB`` or ``4096`` in bytes; kB is 1,000 bytes and KiB 1,024.

    Raises:
        ValueError: ``text`` is not a size.
    """
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)\s*([a-z]*)", text.strip().lower(), re.ASCII)
    unit = None if found is None else _UNIT_SIZES.get(found[2])
    if found is None or unit is None or ("." in found[1] and unit == 1):
        raise ValueError(f"{text!r} is not a size such as 10GB, 512MiB or 4096 (bytes)")
    whole, _, fraction = found[1].partition(".")
    scale: int = 10 ** len(fraction)
    return int(whole) * unit + int(fraction or 0) * unit // scale


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return f"one of {value.bit_length()} bits"  # Python does not write 4,300 digits or more
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
