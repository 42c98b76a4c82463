"""`WorkBudget`: how much one request may read, so that none reads a whole log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs


@attrs.define(eq=False)
class WorkBudget:
    """Time and bytes of one request; a reader asks it between two windows of the log."""

    seconds: float
    """How long the request may read."""
    byte_count: int = 1 << 30
    """Bytes of the log that it may read."""
    clock: Callable[[], float] = time.monotonic
    stopped: threading.Event = attrs.field(factory=threading.Event)
    """Set when nobody waits for the answer any more."""
    read_count: int = 0
    """Bytes read so far."""
    _end: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._end = self.clock() + self.seconds

    @property
    def is_spent(self) -> bool:
        """Whether to end with what was found so far."""
        return (
            self.stopped.is_set() or self.read_count >= self.byte_count or self.clock() >= self._end
        )

    def part(self, share: float) -> WorkBudget:
        """Return a budget for a part of the work, which ends with this one at the latest.

        Args:
            share: of the time of the whole request, between 0 and 1.
        """
        left = max(self._end - self.clock(), 0.0)
        seconds = min(left, share * self.seconds)
        return WorkBudget(seconds, self.byte_count, self.clock, self.stopped)

    def spend(self, byte_count: int) -> None:
        """Count bytes that were read."""
        self.read_count += byte_count
