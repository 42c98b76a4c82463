"""Cut a batch into runs: the rows of each compacted queue, in the order of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.record import queue_keys, queue_of_key
from reput.record.layout import PROPERTY_KEYS, TRANSACTION_COMMIT

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch, TextColumn

_LARGEST_BLANK = 0x20  # a blank ASCII text has no byte above this one


class QueueRun(NamedTuple):
    """Rows of one queue."""

    topic: str
    queue_id: int
    rows: npt.NDArray[np.int64]
    """``(n,)`` row numbers in the batch, ascending."""


def runs(batch: DispatchBatch, topics: Collection[str]) -> Iterator[QueueRun]:
    """Yield the runs of a batch that belong to ``topics``.

    Messages without keys are left out, as RocketMQ refuses them; so are prepared or rolled back
    messages, which in RocketMQ belong to another topic at this point.
    """
    wanted = np.fromiter((name in topics for name in batch.topics), bool, len(batch.topics))
    if not wanted.any():
        return
    rows = np.flatnonzero(wanted[batch.topic_code])
    if len(rows) == 0:
        return
    transaction = batch.transaction[rows]
    if transaction.any():
        rows = rows[(transaction == 0) | (transaction == TRANSACTION_COMMIT)]
    rows = rows[batch.queue_id[rows] >= 0]
    rows = keyed_rows(batch.text(PROPERTY_KEYS), rows)
    if len(rows) == 0:
        return
    queue = queue_keys(batch.topic_code[rows], batch.queue_id[rows])
    order = np.argsort(queue, kind="stable")
    queue, rows = queue[order], rows[order]
    borders = np.flatnonzero(queue[1:] != queue[:-1]) + 1
    for part in np.split(np.arange(len(rows)), borders):
        code, queue_id = queue_of_key(int(queue[part[0]]))
        yield QueueRun(batch.topics[code], queue_id, rows[part])


def keyed_rows(keys: TextColumn, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the elements of ``rows`` that have a key which is not blank."""
    rows = rows[keys.sizes[rows] > 0]
    # Only a text that begins with white space can be blank, and hardly any text does.
    first = keys.window[keys.starts[rows]]
    doubtful = np.flatnonzero((first <= _LARGEST_BLANK) | (first >= 0x80))
    blank = [each for each in doubtful.tolist() if is_blank(keys[int(rows[each])] or "")]
    return np.delete(rows, blank) if blank else rows


def is_blank(text: str) -> bool:
    """Return whether ``text`` is all white space.

    Source: ``StringUtils.isBlank``, Java's ``Character#isWhitespace``, which excludes no-break
    spaces.
    """
    return all(each.isspace() and each not in "\x85\xa0\u2007\u202f" for each in text)
