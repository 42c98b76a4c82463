"""Find which rows of a batch are in the log already, after a commit that did not end.

A row and a record are the same where all that a sender gives is the same: see
`reput_spark.writer.reconciliation.rowkeys`. Rows that do not say when they were born get the time
at which their commit began, which no message of another sender has: so no message that was put in
the meantime is taken for a row. Rows that are the same in all of that are counted: it does not
matter which of them are there.

Exact pairs come first, so that a record is never taken for a row that only resembles it:

1. a record as the row was put;
2. a record that a plugin put aside for later (a delayed message);
3. the same at a lower level than its own;
4. a delivery, where the record that it was delivered from is not there any more. One whose record
   is there is no row of its own.

This looks at each row and at each record that resembles one in Python, 40 µs for both: it happens
for one batch, when a query comes back after a commit that did not end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput_spark.writer.reconciliation.rowkeys import (
    ALWAYS_COMPARED,
    Facts,
    Keys,
    facts_in,
    facts_of,
    record_keys,
    row_keys,
)
from reput_spark.writer.rows import messages_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from reput.log import LogReader
    from reput.record import DispatchBatch, Encoder


@attrs.define(eq=False)
class _KeyTable:
    """Keys of many rows or records."""

    keys: npt.NDArray[np.int64]
    """``(n, ways)``, the ways in the order of `Keys`."""
    is_paired: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, tables: list[npt.NDArray[np.int64]]) -> _KeyTable:
        keys = np.concatenate([_table([]), *tables])
        return cls(keys, np.zeros(len(keys), bool))

    def where(self, way: str, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the keys of some rows; 0 for all other rows."""
        return np.where(rows, self.keys[:, Keys._fields.index(way)], 0)


def _table(keys: list[Keys]) -> npt.NDArray[np.int64]:
    return np.array(keys, np.int64).reshape(-1, len(Keys._fields))


def found_rows(
    batches: Iterable[pa.RecordBatch],
    born_timestamp: int,
    log: LogReader,
    encoder: Encoder,
    start: int,
) -> npt.NDArray[np.bool_]:
    """Find which rows the log has at ``start`` or after it.

    Args:
        batches: the rows, in their order.
        born_timestamp: of rows that have none, ms.
        log: where they were put.
        encoder: the log's.
        start: where a record begins, or the log's end.

    Returns:
        ``(rows,)``.
    """
    names = set(ALWAYS_COMPARED)
    rows, looks = [], [np.zeros((0, 2), np.int64)]
    for batch in batches:
        found = list(facts_of(messages_of(batch, born_timestamp), encoder))
        names.update(*(facts.properties for facts in found))
        rows.append(_table([row_keys(facts) for facts in found]))
        looks.append(np.array([_look_of(facts) for facts in found], np.int64).reshape(-1, 2))
    table = _KeyTable.of(rows)
    wanted = _Wanted(table.keys, frozenset(names), np.concatenate(looks))
    records = [wanted.among(batch) for batch in log.scan(start, check_crc=True)]
    return _paired(table, _KeyTable.of(records))


def _look_of(facts: Facts) -> tuple[int, int]:
    """Return what is compared first, as it costs least: checksum of the body, and birth."""
    return facts.numbers[0], facts.numbers[2]


class _Wanted:
    """Selects the few records that may be rows; others are not kept.

    After a commit that did not end, many more messages than the batch may follow.
    """

    def __init__(
        self,
        keys: npt.NDArray[np.int64],
        names: frozenset[str],
        looks: npt.NDArray[np.int64],
    ) -> None:
        self._names = names
        self._crcs, self._births = np.unique(looks[:, 0]), np.unique(looks[:, 1])
        known = np.unique(keys)
        self._keys = known[known != 0]

    def among(self, batch: DispatchBatch) -> npt.NDArray[np.int64]:
        """Return the keys of the records of a batch that may be rows."""
        near = _is_in(batch.column("body_crc"), self._crcs)
        near &= _is_in(batch.born_timestamp, self._births)
        found = facts_in(batch, np.flatnonzero(near))
        keys = _table([record_keys(facts, self._names) for facts in found])
        return keys[_is_in(keys, self._keys).any(axis=1)]


def _is_in(
    values: npt.NDArray[np.integer[Any]], known: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Do as `numpy.isin`, which would sort ``known`` again for each batch."""
    if len(known) == 0:
        return np.zeros(values.shape, bool)
    places = np.searchsorted(known, values).clip(max=len(known) - 1)
    found: npt.NDArray[np.bool_] = known[places] == values
    return found


def _paired(rows: _KeyTable, records: _KeyTable) -> npt.NDArray[np.bool_]:
    """Return which rows have a record of their own."""
    _pair(rows, records, "direct", ~rows.is_paired)
    is_direct = rows.is_paired.copy()
    _pair(rows, records, "parked", ~rows.is_paired)
    _pair(rows, records, "capped", ~rows.is_paired)
    waited = rows.is_paired & ~is_direct
    _pair(rows, records, "delivered", waited)  # their deliveries are not another row's
    _pair(rows, records, "delivered", ~rows.is_paired)
    return rows.is_paired


def _pair(rows: _KeyTable, records: _KeyTable, way: str, among: npt.NDArray[np.bool_]) -> None:
    """Pair some rows with unpaired records: of those with one key the first ones."""
    ours, theirs = rows.where(way, among), records.where(way, ~records.is_paired)
    names, kind = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    mine, other = kind[: len(ours)], kind[len(ours) :]
    counts = [np.bincount(each, minlength=len(names)) for each in (mine, other)]
    rows.is_paired |= (ours != 0) & (_ranks(mine) < counts[1][mine])
    records.is_paired |= (theirs != 0) & (_ranks(other) < counts[0][other])


def _ranks(kinds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many of the same kind are before each."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    ranks = np.empty(len(kinds), np.int64)
    ranks[order] = np.arange(len(kinds)) - np.searchsorted(ordered, ordered)
    return ranks
