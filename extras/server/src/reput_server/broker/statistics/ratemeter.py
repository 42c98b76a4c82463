"""`RateMeter`: how many a second, over the last ten seconds, minute and ten minutes."""

from __future__ import annotations

from typing import Final

import attrs

_SLICE_MS: Final = 10_000
_SPANS: Final = (1, 6, 60)
"""Slices: 10 s, 1 min, 10 min."""


@attrs.define(eq=False, repr=False)
class RateMeter:
    """Counts by slices of ten seconds. Used on the event loop; a reader elsewhere may miss one."""

    total: int = attrs.field(init=False, default=0)
    _slices: dict[int, int] = attrs.field(init=False, factory=dict)

    def add(self, count: int, now: int) -> None:
        """Count what happened at ``now``, ms."""
        self.total += count
        at = now // _SLICE_MS
        if at not in self._slices:
            oldest = at - _SPANS[-1]
            self._slices = {key: each for key, each in self._slices.items() if key >= oldest}
            self._slices[at] = 0
        self._slices[at] += count

    def text(self, now: int) -> str:
        """Return the three rates as a broker prints them; the slice of ``now`` counts in part."""
        slices, at = dict(self._slices), now // _SLICE_MS
        into = now % _SLICE_MS / _SLICE_MS
        words = []
        for span in _SPANS:
            whole: float = sum(slices.get(at - back, 0) for back in range(span))
            # The slice that is leaving the span counts for what of it is still inside.
            whole += slices.get(at - span, 0) * (1 - into)
            words.append(f"{whole / span / (_SLICE_MS / 1000):.4f}")
        return " ".join(words)
