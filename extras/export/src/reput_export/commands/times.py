"""Values of ``--since`` and ``--until``."""

from __future__ import annotations

import click

__all__ = ["moment"]


def moment(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return ms since the epoch of a time, or of a time ago."""
    if value is None:
        return None
    from reput.files import system_clock
    from reput_cli.kit import parse_start

    try:
        start = parse_start(value, system_clock())
    except ValueError:
        start = None
    if start is None or start.kind != "time":
        text = f"{value!r} is not a time: -90s, -1h, -2d, 2026-01-31T12:00:00Z, or @ and ms"
        raise click.BadParameter(text, context, parameter)
    return start.value
