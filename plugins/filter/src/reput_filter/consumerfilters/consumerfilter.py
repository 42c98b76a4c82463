"""`ConsumerFilter`: what one group wants of a topic, since when, and its bits in bit maps.

Source: RocketMQ ``ConsumerFilterData``, ``ExpressionMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.plugin import BitMaps
from reput.record import fixed_rows
from reput_filter.consumerfilters.bloomfilter import bits_of
from reput_filter.filterkinds import SQL92

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_filter.expression import Expression

NOT_YET: Final = (1 << 63) - 1
"""Born timestamp of a filter that no bit map knows yet."""


@attrs.frozen
class ConsumerFilter:
    """The registered filter of one group for one topic."""

    group: str
    topic: str
    expression: str
    version: int
    """Version of the client; a newer version may change the expression."""
    born_timestamp: int
    """ms; bit maps of messages stored later take this filter into account."""
    dead_timestamp: int
    """ms; 0 while the filter is alive."""
    positions: tuple[int, ...]
    """Its bits, in hash order."""
    bit_count: int
    """Size, in bits, of the maps in which `positions` are."""
    compiled: Expression = attrs.field(eq=False)

    kind = SQL92

    @property
    def is_dead(self) -> bool:
        """Whether the group has left."""
        return self.dead_timestamp >= self.born_timestamp

    @property
    def member(self) -> str:
        """The text whose hashes are its bits."""
        return f"{self.group}#{self.topic}"

    def has_bits_of(self, other: ConsumerFilter) -> bool:
        """Return whether bit maps say the same about both; version and time of death may differ."""
        return self == attrs.evolve(other, version=self.version, dead_timestamp=self.dead_timestamp)

    def may_want(
        self,
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages the group may want, as far as their bit maps tell.

        Args:
            bit_maps: ``n``; None for a message without one.
            store_timestamps: ``(n,)`` ms.
        """
        result = np.ones(len(bit_maps), np.bool_)
        if not self.positions or max(self.positions) >= self.bit_count:
            return result
        size = self.bit_count // 8
        maps = bit_maps if isinstance(bit_maps, BitMaps) else _together(bit_maps)
        rows = np.flatnonzero((store_timestamps > self.born_timestamp) & (maps.sizes == size))
        if len(rows):
            items = fixed_rows(maps.window, maps.starts[rows], np.dtype((np.void, size)))
            wanted = np.frombuffer(bits_of(self.positions, size), np.uint8)
            found = items.view(np.uint8).reshape(len(rows), size)
            # Compare only the few bytes that hold its bits.
            places = np.flatnonzero(wanted)
            result[rows] = ((found[:, places] & wanted[places]) == wanted[places]).all(axis=1)
        return result


def _together(bit_maps: Sequence[bytes | None]) -> BitMaps:
    sizes = np.array([len(each or b"") for each in bit_maps], np.int64)
    window = np.frombuffer(b"".join(each or b"" for each in bit_maps), np.uint8)
    return BitMaps(window, np.cumsum(sizes) - sizes, sizes)
