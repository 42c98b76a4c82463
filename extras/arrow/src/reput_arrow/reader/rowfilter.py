"""Which rows of a batch a read wants: decided on whole columns, before rows go to Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record.layout import (
    KEY_SEPARATOR,
    PROPERTY_KEYS,
    PROPERTY_UNIQ_KEY,
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
)
from reput_arrow.textarrays import binaries

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_arrow.reader.pruning.recordreader import Left
    from reput_arrow.reader.queuebounds import QueueBounds
    from reput_arrow.reader.selection import Selection


@attrs.frozen
class Condition:
    """One condition of a query on one number column, or on the topic; plain values."""

    column: str
    """``topic``, ``transaction``, or a number column of a batch."""
    operator: str
    """``=``, ``in``, ``<``, ``<=``, ``>``, ``>=``; for the topic ``=`` and ``in``."""
    value: Any
    """A number or a text; for ``in`` a tuple of them. Times are ms."""

    def rows(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return whether each row meets the condition, ``(n,)``."""
        if self.column == "topic":
            names = self.value if self.operator == "in" else (self.value,)
            return _of_topics(batch, frozenset(names))
        column = batch.transaction if self.column == "transaction" else batch.column(self.column)
        if self.operator == "in":
            limits = np.iinfo(np.int64)  # what no column can hold is in none
            values = [each for each in self.value if limits.min <= each <= limits.max]
            return np.isin(column, np.array(values, np.int64))
        found: npt.NDArray[np.bool_] = _COMPARE[self.operator](column, self.value)
        return found


_COMPARE: dict[str, Any] = {
    "=": np.equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def wanted_rows(
    batch: DispatchBatch,
    options: Selection,
    conditions: tuple[Condition | Left, ...] = (),
    bounds: QueueBounds | None = None,
) -> npt.NDArray[np.bool_] | None:
    """Return the rows that a read wants, ``(n,)`` bool; None for all of them."""
    parts = []
    if options.topics is not None:
        parts.append(_of_topics(batch, options.topics))
    if options.is_queued:
        transaction = batch.transaction
        if transaction.any():
            parts.append((transaction == 0) | (transaction == TRANSACTION_COMMIT))
    if options.queue_ids is not None:
        parts.append(np.isin(batch.queue_id, sorted(options.queue_ids)))
    for column, low, high in [
        ("physical_offset", options.min_offset, options.max_offset),
        ("queue_offset", options.min_queue_offset, options.max_queue_offset),
        ("store_timestamp", options.start_timestamp, options.end_timestamp),
    ]:
        if low is not None:
            parts.append(batch.column(column) >= low)
        if high is not None:
            parts.append(batch.column(column) < high)
    if bounds is not None:
        parts.append(bounds.rows(batch))
    parts += [condition.rows(batch) for condition in conditions]
    if options.key is not None:
        parts.append(_with_key(batch, options.key, parts))
    if options.filter is not None and (not parts or np.logical_and.reduce(parts).any()):
        # Last: it looks at properties, which a batch without a wanted row is never asked for.
        parts.append(options.filter.matches_batch(batch))
    if not parts:
        return None
    found: npt.NDArray[np.bool_] = np.logical_and.reduce(parts)
    return found


def _with_key(
    batch: DispatchBatch, key: str, parts: list[npt.NDArray[np.bool_]]
) -> npt.NDArray[np.bool_]:
    """Return whether each row has a key, ``(n,)``; False for rows that ``parts`` leave out.

    Source: RocketMQ ``IndexService#buildIndex``: UNIQ_KEY as it is, each word of KEYS; a message
    that was rolled back has no keys.
    """
    found = np.zeros(len(batch), np.bool_)
    wanted = np.logical_and.reduce(parts) if parts else np.ones(len(batch), np.bool_)
    wanted &= batch.transaction != TRANSACTION_ROLLBACK
    if not key or not wanted.any():
        return found
    unique = binaries(batch.text(PROPERTY_UNIQ_KEY), batch.start)
    found |= pc.fill_null(pc.equal(unique, pa.scalar(key.encode())), False).to_numpy(
        zero_copy_only=False
    )
    words = binaries(batch.text(PROPERTY_KEYS), batch.start)
    may = pc.fill_null(pc.match_substring(words, key.encode()), False)
    for row in np.flatnonzero(wanted & may.to_numpy(zero_copy_only=False)).tolist():
        found[row] |= key.encode() in words[row].as_py().split(KEY_SEPARATOR.encode())
    found &= wanted
    return found


def _of_topics(batch: DispatchBatch, names: frozenset[str]) -> npt.NDArray[np.bool_]:
    wanted = np.array([topic in names for topic in batch.topics] or [False])
    found: npt.NDArray[np.bool_] = wanted[batch.topic_code]
    return found
