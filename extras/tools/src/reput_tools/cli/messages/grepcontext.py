"""The neighbours of what ``reput grep`` finds: messages before and after it in the same queue."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from reput.record import queue_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

_Queue = tuple[str, int]


class GrepContext:
    """Adds neighbours to the matches of one batch after the other.

    Args:
        count: messages before and after each match.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._recent: dict[_Queue, deque[MessageView]] = {}
        """The last messages of each queue that were not shown."""
        self._owed: dict[_Queue, int] = {}
        """How many messages after the last match of each queue are still to be shown."""

    def of(
        self,
        batch: DispatchBatch,
        seen: npt.NDArray[np.bool_],
        matches: npt.NDArray[np.bool_],
    ) -> Iterator[tuple[MessageView, bool]]:
        """Yield matches and their neighbours, each with whether it is a match.

        Args:
            batch: the next records of the log.
            seen: ``(n,)``, the rows that may be neighbours.
            matches: ``(n,)``, some of these rows.
        """
        if not seen.any():
            return
        rows, starts = _by_queue(batch, np.flatnonzero(seen))
        shown = matches[rows] | self._near(matches[rows], starts)
        ends = [*starts[1:].tolist(), len(rows)]
        runs: list[tuple[int, list[MessageView], list[int]]] = []
        for start, end in zip(starts.tolist(), ends, strict=True):
            key = self._key(batch, int(rows[start]))
            hits = np.flatnonzero(matches[rows[start:end]])
            owed = self._owed.pop(key, 0)
            shown[start : min(start + owed, end)] = True
            early: list[MessageView] = []
            if len(hits):
                early = _last(self._recent.get(key), self._count - int(hits[0]))
                owed = self._count - (end - start - 1 - int(hits[-1]))
            else:
                owed -= end - start
            if owed > 0:
                self._owed[key] = owed
            self._remember(key, batch, rows[start:end], shown[start:end])
            for run in _runs(rows[start:end], shown[start:end]):
                runs.append((run[0], early, run))
                early = []
        # What belongs together comes together, however queues alternate in the log.
        for _, early, run in sorted(runs, key=lambda each: each[0]):
            for message in early:
                yield message, False
            for row in run:
                yield batch.message(row), bool(matches[row])

    def _near(
        self, hits: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return which rows, in the order of their queues, are near a hit of the same queue."""
        place = np.arange(len(hits))
        group = np.zeros(len(hits), np.int64)
        group[starts[1:]] = 1
        group = group.cumsum()
        # In a queue of its own number space no hit of another queue is near.
        at = place + group * (self._count + 1)
        far = np.int64(1) << 40
        before = np.maximum.accumulate(np.where(hits, at, -far))
        after = np.minimum.accumulate(np.where(hits, at, far)[::-1])[::-1]
        near: npt.NDArray[np.bool_] = (at - before <= self._count) | (after - at <= self._count)
        return near

    def _key(self, batch: DispatchBatch, row: int) -> _Queue:
        return batch.topics[int(batch.topic_code[row])], int(batch.queue_id[row])

    def _remember(
        self,
        key: _Queue,
        batch: DispatchBatch,
        rows: npt.NDArray[np.int64],
        shown: npt.NDArray[np.bool_],
    ) -> None:
        """Keep the last messages of a queue after the last that is shown."""
        kept = self._recent.setdefault(key, deque(maxlen=self._count))
        last = np.flatnonzero(shown)
        if len(last):
            kept.clear()
            rows = rows[last[-1] + 1 :]
        kept.extend(batch.message(row) for row in rows[-self._count :].tolist())


def _by_queue(
    batch: DispatchBatch, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort rows by queue; return them, and where each queue begins."""
    number = queue_keys(batch.topic_code[rows], batch.queue_id[rows])
    order = np.argsort(number, kind="stable")
    _, starts = np.unique(number[order], return_index=True)
    return rows[order], starts.astype(np.int64)


def _runs(rows: npt.NDArray[np.int64], shown: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return the shown rows of one queue, consecutive ones together."""
    places = np.flatnonzero(shown)
    if not len(places):
        return []
    borders = np.flatnonzero(np.diff(places) > 1) + 1
    return [rows[part].tolist() for part in np.split(places, borders)]


def _last(kept: deque[MessageView] | None, count: int) -> list[MessageView]:
    if not kept or count <= 0:
        return []
    return list(kept)[-count:]
