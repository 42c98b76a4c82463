"""`Consumer`: what one group wants of a topic, since when, and its bits in the bit maps.

Source: RocketMQ ``ConsumerFilterData``, ``ExpressionMessageFilter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.plugin import BitMaps
from reput.record import fixed_rows
from reput_filter.consumers.bloom import bits_of
from reput_filter.expression import SQL92, Expression

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["NOT_YET", "Consumer"]

NOT_YET: Final = (1 << 63) - 1
"""Born timestamp of a filter that no bit map is believed to know."""


@attrs.frozen
class Consumer:
    """One group's registered filter of one topic."""

    group: str
    topic: str
    expression: str
    version: int
    """The client's; a newer one may change the expression."""
    born_timestamp: int
    """ms; bit maps of messages stored later know this filter."""
    dead_timestamp: int
    """ms; 0 while it lives."""
    positions: tuple[int, ...]
    """Its bits, in the order of their hashes."""
    bit_count: int
    """Bits of the maps that these are positions in."""
    compiled: Expression = attrs.field(eq=False)

    kind = SQL92

    @property
    def is_dead(self) -> bool:
        """Whether the group has left."""
        return self.dead_timestamp >= self.born_timestamp

    @property
    def member(self) -> str:
        """What its bits are hashes of."""
        return f"{self.group}#{self.topic}"

    def has_bits_of(self, other: Consumer) -> bool:
        """Whether bit maps say the same about both; they may have come and gone at other times."""
        return self == attrs.evolve(other, version=self.version, dead_timestamp=self.dead_timestamp)

    def may_want(
        self,
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages the group may want, as far as their bit maps tell.

        Args:
            bit_maps: ``n``; None where a message has none.
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
            # The few bytes that hold its bits, and no others.
            places = np.flatnonzero(wanted)
            result[rows] = ((found[:, places] & wanted[places]) == wanted[places]).all(axis=1)
        return result


def _together(bit_maps: Sequence[bytes | None]) -> BitMaps:
    sizes = np.array([len(each or b"") for each in bit_maps], np.int64)
    window = np.frombuffer(b"".join(each or b"" for each in bit_maps), np.uint8)
    return BitMaps(window, np.cumsum(sizes) - sizes, sizes)
