"""How far a follower is behind its master."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

_SAMPLES_MAX: Final = 10_000


@attrs.frozen
class Lag:
    """How far a store is behind its master, as of the master's last answer."""

    size: int | None
    """Bytes of the master's log that the store does not have; None as long as it is not known."""
    message_count: int | None
    """About how many messages these are, by the mean size of a record; None if not known."""
    seconds: float | None
    """For how long the master has had the first of these bytes; 0.0 if the store has all."""


@attrs.define(eq=False)
class LagMeter:
    """Remembers when the master's log ended where. Used under the lock of its owner.

    One clock is enough for that, this machine's: nothing depends on the master's.
    """

    max_offset: int | None = None
    """Where the master's log ended, as far as is known."""
    _samples: deque[tuple[float, int]] = attrs.field(factory=lambda: deque(maxlen=_SAMPLES_MAX))

    def saw(self, now: float, max_offset: int, own_offset: int) -> None:
        """Note that the master's log ended at ``max_offset``, and the store at ``own_offset``."""
        self.max_offset = max_offset
        self._forget(own_offset)
        if max_offset > own_offset and (not self._samples or self._samples[-1][1] < max_offset):
            self._samples.append((now, max_offset))

    def restart(self) -> None:
        """Forget what was seen of a master that may have another log now."""
        self._samples.clear()
        self.max_offset = None

    def lag(self, now: float, own_offset: int, record_size: float | None) -> Lag:
        """Return how far a store that ends at ``own_offset`` is behind.

        Args:
            now: seconds.
            own_offset: physical offset.
            record_size: mean bytes of a record; None if not known.
        """
        if self.max_offset is None:
            return Lag(None, None, None)
        self._forget(own_offset)
        size = max(self.max_offset - own_offset, 0)
        if not size:
            return Lag(0, 0, 0.0)
        count = None if not record_size else max(round(size / record_size), 1)
        seconds = max(now - self._samples[0][0], 0.0) if self._samples else 0.0
        return Lag(size, count, seconds)

    def _forget(self, own_offset: int) -> None:
        """Drop the samples that the store has reached."""
        while self._samples and self._samples[0][1] <= own_offset:
            self._samples.popleft()
