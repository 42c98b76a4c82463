"""`TokenBucket`: a token bucket, by which much reading leaves the disk to others."""

from __future__ import annotations

from collections.abc import Callable

import attrs


@attrs.define(eq=False)
class TokenBucket:
    """Says how long to wait before more is read; no more than ``rate`` bytes a second."""

    rate: int
    """Bytes a second; 0 for as fast as possible."""
    monotonic: Callable[[], float]
    """Seconds."""
    _free_at: float = attrs.field(init=False)
    """When everything that was taken is paid for, seconds."""

    def __attrs_post_init__(self) -> None:
        self._free_at = self.monotonic()

    def take(self, size: int) -> None:
        """Count ``size`` bytes as read. Time in which nothing was read is not saved up."""
        if self.rate > 0:
            self._free_at = max(self._free_at, self.monotonic()) + size / self.rate

    @property
    def delay(self) -> float:
        """Seconds to wait before the next read; 0 for none."""
        return max(self._free_at - self.monotonic(), 0.0) if self.rate > 0 else 0.0
