"""Durations and sizes as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import click

from reput_tools.cli.kit.timestamps import UNIT_MS


class Seconds(click.FloatRange):
    """A number of seconds: `click.FloatRange`, and not NaN, which no clock reaches."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            click.BadParameter: it is NaN, or `click.FloatRange` refuses it.
        """
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return found


def parse_duration(text: str) -> int:
    """Return ``72h`` in ms; units ms s m h d w.

    Raises:
        ValueError: ``text`` is not a duration.
    """
    found = re.fullmatch(r"(\d{1,15})(ms|[smhdw])", text.strip(), flags=re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 72h or 14d (units ms s m h d w)")
    return int(found[1]) * UNIT_MS[found[2]]


def _parse_size(text: str) -> int:
    from reput.plugin import parse_size  # imports attrs, which no help needs

    return parse_size(text)


def _read_by(parse: Callable[[str], int]) -> Callable[..., int | None]:
    def read(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, option) from None

    return read


read_duration: Final = _read_by(parse_duration)
"""Callback of an option: a duration in ms."""
read_size: Final = _read_by(_parse_size)
"""Callback of an option: a size in bytes."""
