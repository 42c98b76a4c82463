"""Sums, minima and maxima of numbers by key, in bounded memory and without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

ROWS_MAX: Final = 1 << 18
"""Keys of which each is counted by itself; a hostile store may have as many as messages."""
_PENDING_ROWS: Final = 1 << 17


def grouped(
    keys: npt.NDArray[np.int64], columns: Sequence[npt.NDArray[np.int64]], folds: Sequence[np.ufunc]
) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Return the distinct keys in ascending order, and each column folded by key.

    Args:
        keys: ``(n,)``.
        columns: ``(n,)`` each.
        folds: what each column is folded by: ``np.add``, ``np.minimum``, ``np.maximum``.
    """
    if len(keys) == 0:
        return keys, list(columns)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    folded = [
        fold.reduceat(column[order], starts) for fold, column in zip(folds, columns, strict=True)
    ]
    return ordered[starts], folded


@attrs.define(eq=False)
class GroupedAggregates:
    """A table of numbers by key that grows batch by batch.

    The first column must be a sum: where there are more keys than `ROWS_MAX`, those with the least
    of it are folded into one, `other_key`.
    """

    folds: tuple[Any, ...]
    """What each column is folded by."""
    other_key: int
    rows_max: int = ROWS_MAX
    was_folded: bool = False
    """Whether `other_key` stands for several keys."""
    _chunks: list[tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]] = attrs.field(
        factory=list
    )
    _pending: int = 0

    def add(self, keys: npt.NDArray[np.int64], columns: Sequence[npt.NDArray[np.int64]]) -> None:
        """Add rows, which need not be grouped."""
        self._chunks.append(grouped(keys, columns, self.folds))
        self._pending += len(self._chunks[-1][0])
        if self._pending > _PENDING_ROWS + self.rows_max:
            self._compact()

    def table(self) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
        """Return the keys in ascending order, and the columns; all ``(n,)``."""
        self._compact()
        return self._chunks[0]

    def _compact(self) -> None:
        if not self._chunks:
            none = np.zeros(0, np.int64)
            self._chunks = [(none, [none for _ in self.folds])]
        keys = np.concatenate([each for each, _ in self._chunks])
        columns = [
            np.concatenate([each[place] for _, each in self._chunks])
            for place in range(len(self.folds))
        ]
        keys, columns = grouped(keys, columns, self.folds)
        if len(keys) > self.rows_max:
            least = np.argsort(columns[0], kind="stable")[: len(keys) - self.rows_max + 1]
            keys = keys.copy()
            keys[least] = self.other_key
            keys, columns = grouped(keys, columns, self.folds)
            self.was_folded = True
        self._chunks = [(keys, columns)]
        self._pending = len(keys)
