"""`MessageFilter`: what a read takes to return some messages only; plugins make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput.view import MessageView

__all__ = ["MessageFilter"]


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
            bit_maps: ``n`` bit maps; None where a message has none.
            store_timestamps: ``(n,)`` ms; -1 where it is not known, as without a bit map.
        """
        ...
