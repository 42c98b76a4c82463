"""`LiveSource`: what a process that serves or follows a store says of itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import attrs

_KEPT_S: Final = 1.0

Document = Mapping[str, Any]


class LiveSource(Protocol):
    """Figures of the process that has the store open for writing."""

    def figures(self) -> Document | None:
        """Return the figures; None if they cannot be had now.

        Plain values with a ``kind``, ``server`` or ``follower``; `reput_web.readmodel.livestate`
        lists what is shown of them.
        """
        ...


@attrs.define(eq=False)
class KeptFigures:
    """Asks another source at most once a second; thread-safe."""

    source: LiveSource
    clock: Callable[[], float] = time.monotonic
    _kept: tuple[float, Document | None] | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def figures(self) -> Document | None:
        """See `LiveSource.figures`."""
        with self._lock:
            if self._kept is None or self.clock() - self._kept[0] >= _KEPT_S:
                found = self.source.figures()
                self._kept = self.clock(), found
            return self._kept[1]
