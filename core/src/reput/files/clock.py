"""The system's clock, for stores that were given none."""

from __future__ import annotations

import time

__all__ = ["system_clock"]


def system_clock() -> int:
    """Now, in ms since the epoch."""
    return time.time_ns() // 1_000_000
