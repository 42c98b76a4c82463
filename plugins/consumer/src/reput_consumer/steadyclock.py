"""`SteadyClock`: a clock for deadlines, which goes on when the system's clock is set back."""

from __future__ import annotations

import threading
from collections.abc import Callable

import attrs


@attrs.define(eq=False)
class SteadyClock:
    """Shows the time of another clock, plus all times by which that clock was set back.

    Deadlines of messages that are out, of locks and of saves are points of this time. So each comes
    after the time that was left when this clock was last looked at, whatever happens to the other
    one meanwhile. A clock that is set ahead makes them come early. Nothing of this time may leave
    the process, as the next one begins with the time of the other clock: see `at_source`.
    Thread-safe.
    """

    source: Callable[[], int]
    """The other clock, ms."""
    _last: int = attrs.field(init=False, default=0)
    _ahead: int = attrs.field(init=False, default=0)
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def __call__(self) -> int:
        """Return now, ms; never less than before."""
        with self._lock:
            now = self.source()
            if now < self._last:
                self._ahead += self._last - now
            self._last = now
            return now + self._ahead

    def at_source(self, timestamp: int) -> int:
        """Return what the other clock shows at a time of this one, ms, if it is not set again."""
        return timestamp - self._ahead
