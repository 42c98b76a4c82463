"""`KeepRules`: decides which messages stay, the same in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import TextColumn
    from reput_compaction.filepairs.pairscan import Window


@attrs.frozen(kw_only=True)
class KeepRules:
    """The options that decide which messages stay, and a run's memory. Plain values."""

    retention_ms: int
    """How long tombstones stay after their store time."""
    memory: int
    """Bytes for the keys, in each process."""

    def judge(
        self,
        window: Window,
        keys: TextColumn,
        has_body: npt.NDArray[np.bool_],
        newest: int,
        now: int,
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which records of a window stay, unless a later record has the same key.

        Args:
            window: the records.
            keys: their keys.
            has_body: which of them are not tombstones.
            newest: queue offset that stays in any case; -1 for none.
            now: ms; tombstones that were stored long enough before are dropped.

        Returns:
            ``(n,)``: whether a record stays; ``(n,)``: whether it is a tombstone that will be
            dropped later by age. That is false for the newest message, which stays until another
            message comes.
        """
        # A record without a key cannot be the latest of a key.
        is_keyed: npt.NDArray[np.bool_] = keys.sizes > 0
        if has_body.all():
            return is_keyed & has_body, np.zeros(len(has_body), bool)
        stored = window.units["store_timestamp"].astype(np.int64)
        waits: npt.NDArray[np.bool_] = ~has_body & (stored > now - self.retention_ms)
        is_newest: npt.NDArray[np.bool_] = window.units["queue_offset"] == newest
        return is_keyed & (has_body | waits | is_newest), waits
