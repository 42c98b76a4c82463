"""Rows of a batch sorted by the directories that they go to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_SMALL: Final = 1 << 15
NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"
COLUMNS_OF_PARTS: Final = {"topic": "topic", "queue": "queue_id"}
"""Columns that are in names of directories, and so in no file; days and hours are of no column."""


def parts_of(
    batch: DispatchBatch, wanted: npt.NDArray[np.int64], partition_by: Sequence[str]
) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Yield a directory, ending in ``/`` or empty, and the rows that go there, in their order.

    Args:
        batch: the messages.
        wanted: ``(n,)`` rows that go somewhere, one at least.
        partition_by: names of `PARTS`, in the order of the directories.
    """
    key = np.zeros(len(wanted), np.int64)
    for name in partition_by:
        numbers = _small(_numbers(batch, name)[wanted])
        key = _small(key) * (int(numbers.max()) + 1) + numbers
    if (key == key[0]).all():
        yield _directory(batch, int(wanted[0]), partition_by), wanted
        return
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    borders = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for start, stop in itertools.pairwise(borders):
        rows = wanted[order[start:stop]]
        yield _directory(batch, int(rows[0]), partition_by), rows


def _numbers(batch: DispatchBatch, name: str) -> npt.NDArray[np.int64]:
    found: npt.NDArray[Any]
    if name == "topic":
        found = batch.topic_code
    elif name == "queue":
        found = batch.queue_id
    else:
        found = batch.store_timestamp // (_DAY_MS if name == "day" else _HOUR_MS)
    return found.astype(np.int64)


def _small(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return numbers from 0 on that are equal where ``numbers`` are, so that products fit."""
    # In uint64, as the difference of two times that no clock has shown may not fit into int64.
    moved = numbers.view(np.uint64) - np.uint64(int(numbers.min()) & ((1 << 64) - 1))
    if int(moved.max()) < _SMALL:
        return moved.astype(np.int64)
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def _directory(batch: DispatchBatch, row: int, partition_by: Sequence[str]) -> str:
    return "".join(f"{_name(batch, row, each)}/" for each in partition_by)


def _name(batch: DispatchBatch, row: int, part: str) -> str:
    if part == "topic":
        # A topic is any text: nothing of it may lead to another directory.
        topic = quote(batch.topics[int(batch.topic_code[row])], safe="").replace(".", "%2E")
        return f"topic={topic or NO_NAME}"
    if part == "queue":
        return f"queue_id={int(batch.queue_id[row])}"
    stored = int(batch.store_timestamp[row])
    if part == "hour":
        return f"hour={stored // _HOUR_MS % 24:02d}"
    return f"day={np.datetime64(stored // _DAY_MS, 'D')}"
