"""Marks in queues: queue offsets that a consumer, or a delivery, has come to.

How many messages a consumer has to read follows from the queue's end; since when the first of them
waits is in the log alone. So the log's reading looks for the first message at or after each mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


@attrs.frozen
class ReachedOffset:
    """A place in a queue."""

    topic: str
    queue_id: int
    queue_offset: int
    """Queue offset of the next message to be read."""


@attrs.define(eq=False)
class ReachedOffsetFinder:
    """Finds the store time of the first message at or after each mark, during one reading."""

    marks: Sequence[ReachedOffset]
    found: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """By number of the mark: physical offset and store time (ms) of that message."""
    _keys: npt.NDArray[np.int64] = attrs.field(init=False)
    _left: dict[int, list[int]] = attrs.field(init=False)
    _least: npt.NDArray[np.int64] = attrs.field(init=False)

    def begin(self, keys: npt.NDArray[np.int64]) -> None:
        """Take the key of each mark's queue, ``(marks,)``, as `look` will be given them."""
        self._left = {}
        for number, key in enumerate(keys.tolist()):
            self._left.setdefault(key, []).append(number)
        self._keys = np.array(sorted(self._left), np.int64)
        self._least = np.zeros(len(self._keys), np.int64)
        for place, key in enumerate(self._keys.tolist()):
            self._left[key].sort(key=lambda number: self.marks[number].queue_offset)
            self._update(place, key)

    def hits(
        self, keys: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the places in ``keys`` of queues that may hold what a mark waits for.

        Args:
            keys: ``(n,)`` keys of queues.
            highest: ``(n,)`` the highest queue offset seen of each.
        """
        if len(self._keys) == 0:
            return np.zeros(0, np.int64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        is_hit = (self._keys[places] == keys) & (highest >= self._least[places])
        return np.flatnonzero(is_hit)

    def look(
        self,
        key: int,
        queue_offset: npt.NDArray[np.int64],
        physical_offset: npt.NDArray[np.int64],
        store_timestamp: npt.NDArray[np.int64],
    ) -> None:
        """Look among further messages of one queue, in the order of the log."""
        left = self._left[key]
        while left and queue_offset.max() >= self.marks[left[0]].queue_offset:
            number = left.pop(0)
            row = int(np.argmax(queue_offset >= self.marks[number].queue_offset))
            self.found[number] = int(physical_offset[row]), int(store_timestamp[row])
        self._update(int(np.searchsorted(self._keys, key)), key)

    def take(self, found: dict[int, tuple[int, int]]) -> None:
        """Take what another reading has found in another part of the log."""
        for number, place in found.items():
            self.found[number] = min(place, self.found.get(number, place))

    def _update(self, place: int, key: int) -> None:
        left = self._left[key]
        end = np.iinfo(np.int64).max
        self._least[place] = self.marks[left[0]].queue_offset if left else end
