"""Points in time as people write and read them; elsewhere times are ms since the epoch.

Times without a zone are UTC, in input as in output, so that a printed time can be copied into an
option.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

UNIT_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
"""Units of durations, in ms."""
_AGO = re.compile(r"-(\d+)(ms|[smhdw])")


class Start(NamedTuple):
    """The position at which reading begins."""

    kind: str
    """``"earliest"``, ``"latest"``, ``"offset"`` or ``"time"``."""
    value: int = 0
    """Queue offset, or ms since the epoch."""


def parse_start(text: str, now: int) -> Start:
    """Parse the value of ``--from``.

    Args:
        text: ``earliest``, ``latest``, a queue offset, ``-90s`` (units ms s m h d w), ``@`` and ms
            since the epoch, or a date and time in ISO 8601.
        now: ms since the epoch.

    Raises:
        ValueError: ``text`` is none of these.
    """
    if text in ("earliest", "latest"):
        return Start(text)
    if text.isascii() and text.isdigit():
        return Start("offset", int(text))
    if text[:1] == "@" and text[1:].isascii() and text[1:].isdigit():
        return Start("time", int(text[1:]))
    ago = _AGO.fullmatch(text)
    if ago:
        return Start("time", now - int(ago[1]) * UNIT_MS[ago[2]])
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is none of: earliest, latest, a queue offset (1234), a time ago (-90s, -1h, "
            "-2d), a time (2026-01-31T12:00:00Z), @ and ms since the epoch"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return Start("time", round(moment.timestamp() * 1000))


def format_timestamp(timestamp: int | None) -> str:
    """Return ``2026-01-31 12:00:00.123`` (UTC); ``-`` for None, the number beyond the calendar."""
    if timestamp is None:
        return "-"
    try:
        moment = dt.datetime.fromtimestamp(timestamp // 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp % 1000:03d}"


def format_duration(seconds: float) -> str:
    """Return a duration in a fitting unit: ``350 ms``, ``4.2 s``, ``3 min 05 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
