"""`Throttle`: how long a slow plugin's thread rests, so that producers and other plugins get on."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["CAUGHT_UP", "LONGEST_PAUSE", "Throttle"]

CAUGHT_UP: Final = 64 << 10
"""Bytes of the log; a plugin that lacks at most this many has caught up."""
LONGEST_PAUSE: Final = 0.25
"""Seconds; messages wait little longer for a plugin that keeps up."""
_LONGEST_REST: Final = 19.0  # times the processor time of the round: a twentieth of a processor
_SHORTEST_REST: Final = 1.0  # half a processor


@attrs.define
class Throttle:
    """Chooses the rests of one thread: long ones while the plugin keeps up with the log.

    After each round that leaves a plugin behind, its rests are half as long. With rests of a fixed
    length, a plugin that needs a quarter of a processor would never catch up.
    """

    _times: float = _LONGEST_REST

    def pause(self, used: float, behind: int) -> float:
        """Return how long to rest after a round, seconds.

        Args:
            used: processor time of the round, seconds.
            behind: bytes of the log that the plugin has not seen after the round.
        """
        if behind <= CAUGHT_UP:
            self._times = min(2 * self._times, _LONGEST_REST)
        else:
            self._times = max(self._times / 2, _SHORTEST_REST)
        return max(min(self._times * used, LONGEST_PAUSE), min(used, 4 * LONGEST_PAUSE))
