"""`MessageFilter`, which a plugin compiles and a read applies, and its argument `BitMaps`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

import attrs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.record.batch import DispatchBatch
    from reput.record.messageview import MessageView


@attrs.define(eq=False)
class BitMaps(Sequence["bytes | None"]):
    """Bit maps of ``n`` messages: a sequence of bytes or None, and the same as columns."""

    window: npt.NDArray[np.uint8]
    """``(w,)``, the bytes that contain all bit maps."""
    starts: npt.NDArray[np.int64]
    """``(n,)`` position of each bit map in the window; without meaning if its size is 0."""
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes of each bit map; 0 if the message has none."""

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, row: int) -> bytes | None: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes | None]: ...

    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes | None] | None:
        """Return a copy of one bit map, None if the message has none; for a slice, its rows."""
        if isinstance(row, slice):
            return BitMaps(self.window, self.starts[row], self.sizes[row])
        start, size = int(self.starts[row]), int(self.sizes[row])
        return self.window[start : start + size].tobytes() if size else None


@runtime_checkable
class MessageFilter(Protocol):
    """Selects messages; the three methods must agree, and always give the same answer."""

    def matches(self, message: MessageView) -> bool:
        """Whether the filter selects ``message``; False if it cannot decide. Never raises."""
        ...

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages of ``batch`` the filter selects."""
        ...

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages the filter may select, without reading their records.

        A message with True is read, and `matches` decides; one with False is dropped.

        Args:
            tags_codes: ``(n,)`` tags codes from the messages' units.
            bit_maps: ``n`` bit maps, None for a message without one. May be `BitMaps`.
            store_timestamps: ``(n,)`` ms; -1 if not known, as for a message without a bit map.
        """
        ...
