"""`Rules`: which messages stay, whoever looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import TextColumn
    from reput_compaction.pairs._scan import Window

__all__ = ["Rules"]


@attrs.frozen(kw_only=True)
class Rules:
    """What stays, and what a run may take. Plain values."""

    retention_ms: int
    """How long tombstones stay behind their store time."""
    memory: int
    """Bytes for the keys; of each process, where there are several."""
    compat: bool
    """Drop tombstones at once, as RocketMQ does it."""

    def judge(
        self,
        window: Window,
        keys: TextColumn,
        has_body: npt.NDArray[np.bool_],
        newest: int,
        now: int,
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which records of a window stay, unless a later one has the same key.

        Args:
            window: the records.
            keys: their keys.
            has_body: which of them are no tombstones.
            newest: queue offset that stays in any case; -1 for none.
            now: ms; tombstones that were stored long enough before go.

        Returns:
            ``(n,)``: whether a record stays; ``(n,)``: whether it is a tombstone whose time is yet
            to come. The newest message has no such time: it stays until another one comes.
        """
        # Without a key there is nothing to be the latest of.
        is_keyed: npt.NDArray[np.bool_] = keys.sizes > 0
        if self.compat or has_body.all():
            return is_keyed & has_body, np.zeros(len(has_body), bool)
        stored = window.units["store_timestamp"].astype(np.int64)
        waits: npt.NDArray[np.bool_] = ~has_body & (stored > now - self.retention_ms)
        is_newest: npt.NDArray[np.bool_] = window.units["queue_offset"] == newest
        return is_keyed & (has_body | waits | is_newest), waits
