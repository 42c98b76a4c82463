"""`MessageFilter`: what a read takes to return some messages only; plugins make them.

`BitMaps` is what readers may give it of many messages at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, overload, runtime_checkable

import attrs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.record.batch import DispatchBatch
    from reput.record.view import MessageView

__all__ = ["BitMaps", "MessageFilter"]


@attrs.define(eq=False)
class BitMaps(Sequence["bytes | None"]):
    """Bit maps of ``n`` messages: a sequence of bytes or None, and columns for who wants them."""

    window: npt.NDArray[np.uint8]
    """``(w,)``, the bytes in which they lie."""
    starts: npt.NDArray[np.int64]
    """``(n,)`` position of each in the window; means nothing where there is none."""
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes of each; 0 where there is none."""

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, row: int) -> bytes | None: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[bytes | None]: ...

    def __getitem__(self, row: int | slice) -> bytes | Sequence[bytes | None] | None:
        """A copy of one, None where there is none; or some rows."""
        if isinstance(row, slice):
            return BitMaps(self.window, self.starts[row], self.sizes[row])
        start, size = int(self.starts[row]), int(self.sizes[row])
        return self.window[start : start + size].tobytes() if size else None


@runtime_checkable
class MessageFilter(Protocol):
    """Selects messages. An object of any class that has these three methods is one.

    Immutable as far as others can see: the three must agree, and go on agreeing.
    """

    def matches(self, message: MessageView) -> bool:
        """Whether it selects one message. Never raises: what cannot be told is not selected."""
        ...

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch it selects."""
        ...

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages it may select, by what is known without reading them.

        True where that is not known: `matches` is asked then. False is believed.

        Args:
            tags_codes: ``(n,)`` tags codes of their units.
            bit_maps: ``n`` bit maps; None where a message has none. May be `BitMaps`.
            store_timestamps: ``(n,)`` ms; -1 where it is not known, as without a bit map.
        """
        ...
