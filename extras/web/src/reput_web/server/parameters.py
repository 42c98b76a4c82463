"""Values of an address, checked and bounded."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.datastructures import QueryParams

from reput.files import system_clock
from reput_web.errors import BadRequestError

_TEXT_MAX: Final = 1_024
_INT64_MAX: Final = (1 << 63) - 1


@attrs.frozen
class Parameters:
    """The part of an address after the question mark."""

    given: QueryParams

    def text(self, name: str, longest: int = _TEXT_MAX) -> str | None:
        """Return a text; None if it is missing or empty.

        Raises:
            BadRequestError: it is too long.
        """
        value = self.given.get(name)
        if value is not None and len(value) > longest:
            raise BadRequestError(f"{name}: at most {longest:,} characters.")
        return value or None

    def required(self, name: str) -> str:
        """Return a text that must be there."""
        value = self.text(name)
        if value is None:
            raise BadRequestError(f"{name}: this value is missing.")
        return value

    def whole(self, name: str, most: int = _INT64_MAX) -> int | None:
        """Return a whole number from zero on; None if it is missing."""
        value = self.text(name, 32)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()) or int(value) > most:
            raise BadRequestError(f"{name}: a whole number from 0 to {most} expected.")
        return int(value)

    def time(self, name: str) -> int | None:
        """Return a point in time, ms: in any form that ``reput cat --from`` takes."""
        from reput_tools.cli.kit import parse_start

        value = self.text(name, 64)
        if value is None:
            return None
        try:
            start = parse_start(value, system_clock())
        except (ValueError, OverflowError):
            start = None
        if start is None or start.kind != "time" or not 0 <= start.value <= _INT64_MAX // 2:
            text = "a time expected: 2026-01-31T12:00, -1h, or @ and ms since the epoch."
            raise BadRequestError(f"{name}: {text}")
        return start.value

    def flag(self, name: str) -> bool:
        """Return whether something is switched on."""
        return self.text(name, 16) in ("1", "on", "true", "yes")

    def choice(self, name: str, *known: str) -> str:
        """Return one of the known values; the first one if it is missing."""
        value = self.text(name, 32) or known[0]
        if value not in known:
            raise BadRequestError(f"{name}: {', '.join(known)} expected.")
        return value
