"""Durations and sizes as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import click

from reput_cli.kit.times import UNIT_MS

__all__ = ["parse_duration", "parse_size", "read_duration", "read_size"]

_UNIT_SIZES: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1_000 ** (power + 1) for power, letter in enumerate("kmgt")},
    **{f"{letter}ib": 1_024 ** (power + 1) for power, letter in enumerate("kmgt")},
}


def parse_duration(text: str) -> int:
    """Return ``72h`` in ms; units ms s m h d w.

    Raises:
        ValueError: ``text`` is not a duration.
    """
    found = re.fullmatch(r"(\d{1,15})(ms|[smhdw])", text.strip(), flags=re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 72h or 14d (units ms s m h d w)")
    return int(found[1]) * UNIT_MS[found[2]]


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


def _read_by(parse: Callable[[str], int]) -> Callable[..., int | None]:
    def read(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, option) from None

    return read


read_duration: Final = _read_by(parse_duration)
"""Callback of an option: a duration in ms."""
read_size: Final = _read_by(parse_size)
"""Callback of an option: a size in bytes."""
