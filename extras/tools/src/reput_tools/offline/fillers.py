"""Finds the records of a log that take the place of lost messages, and do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.record.layout import FILLER_TOPIC, TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch


def filler_rows(batch: DispatchBatch) -> npt.NDArray[np.bool_] | None:
    """Return which rows, ``(n,)``, are filler records; None if none is.

    The topic of a filler in a small hole is cut short.
    """
    codes = [
        code for code, topic in enumerate(batch.topics) if topic and FILLER_TOPIC.startswith(topic)
    ]
    if not codes:
        return None
    rows: npt.NDArray[np.bool_] = np.isin(batch.topic_code, codes)
    rows &= batch.transaction == TRANSACTION_ROLLBACK
    return rows if rows.any() else None


def filler_count(batch: DispatchBatch) -> int:
    """Return how many records of a batch are fillers."""
    rows = filler_rows(batch)
    return 0 if rows is None else int(np.count_nonzero(rows))
