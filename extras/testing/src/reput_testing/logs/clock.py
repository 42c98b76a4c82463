"""`ManualClock`: a clock that tests move by hand."""

from __future__ import annotations

import attrs

NOON = 1_700_049_600_000
"""2023-11-15 12:00 UTC, ms: the default start of a clock."""


@attrs.define(eq=False)
class ManualClock:
    """A clock that stands still until it is moved; give it to ``reput.open(clock=…)``."""

    now: int = NOON
    """ms since the epoch."""

    def __call__(self) -> int:
        """Return the time, ms since the epoch."""
        return self.now

    def advance(self, duration_ms: int) -> int:
        """Move the clock by ``duration_ms``, back when it is negative, and return the new time."""
        self.now += duration_ms
        return self.now
