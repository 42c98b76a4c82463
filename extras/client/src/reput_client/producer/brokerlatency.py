"""`BrokerLatencies`: for how long a broker that was slow or failed gets no messages.

Source: RocketMQ 5 ``MQFaultStrategy`` and ``LatencyFaultToleranceImpl``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import attrs

_LATENCIES_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
_PASSED_OVER_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
_FAILED_MS: Final = 10_000
"""The latency that a failed try counts as."""


@attrs.define(eq=False)
class BrokerLatencies:
    """Brokers that get no messages now. Used on one thread."""

    clock: Callable[[], int]
    """Returns ms."""
    _until: dict[str, int] = attrs.field(init=False, factory=dict)
    """By broker name, when it may be used again, ms."""
    _failed: set[str] = attrs.field(init=False, factory=set)
    """Brokers whose last try failed."""

    def note(self, broker: str, latency_ms: int, *, failed: bool = False) -> None:
        """Note how long a try took, and whether it failed for the broker's or the network's sake.

        An answer counts from its latency: a quick one ends the time for which the broker is passed
        over.
        """
        taken = _FAILED_MS if failed else latency_ms
        place = bisect_right(_LATENCIES_MS, taken) - 1
        self._until[broker] = self.clock() + (_PASSED_OVER_MS[place] if place >= 0 else 0)
        if failed:
            self._failed.add(broker)
        else:
            self._failed.discard(broker)

    def is_available(self, broker: str) -> bool:
        """Whether a broker is neither slow nor failing."""
        return self._until.get(broker, 0) <= self.clock()

    def is_reachable(self, broker: str) -> bool:
        """Whether a broker answered its last request."""
        return broker not in self._failed
