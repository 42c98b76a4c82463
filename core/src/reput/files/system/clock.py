"""The system's clock, which a store uses unless it is given another."""

from __future__ import annotations

import time

__all__ = ["system_clock"]


def system_clock() -> int:
    """Return the time now, ms since the epoch."""
    return time.time_ns() // 1_000_000
