"""Counts a log's messages by topic and queue, by reading all of it; needs no plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput.results import QueueInfo

if TYPE_CHECKING:
    from reput.batch import DispatchBatch, Finding
    from reput.store import Store

__all__ = ["Census", "census"]


class Census(NamedTuple):
    """What a log holds."""

    queues: list[QueueInfo]
    """By topic and queue id; offsets and times as the records tell them."""
    message_count: int
    """Records, those that are in no queue (prepared, rolled back) among them."""
    finding: Finding | None
    """The first damage."""


def census(store: Store, on_progress: Callable[[int, int], None]) -> Census:
    """Read the log from end to end and verify every checksum.

    Args:
        store: whose log.
        on_progress: called with bytes done and bytes in all.
    """
    first, last = store.log.min_physical_offset, store.log.max_physical_offset
    queues: dict[tuple[str, int], QueueInfo] = {}
    count, finding = 0, None
    for batch in store.scan(first, last, check_crc=True):
        count += len(batch)
        finding = finding or batch.finding
        _count(batch, queues)
        on_progress(batch.end_offset - first, last - first)
    return Census([queues[key] for key in sorted(queues)], count, finding)


def _count(batch: DispatchBatch, queues: dict[tuple[str, int], QueueInfo]) -> None:
    transaction = batch.sys_flag & TRANSACTION_MASK
    rows = np.flatnonzero((transaction == 0) | (transaction == TRANSACTION_COMMIT))
    # One number for each (topic, queue id): rows of a queue then are one run.
    group = (batch.topic_code[rows].astype(np.int64) << 32) + batch.queue_id[rows]
    order = np.argsort(group, kind="stable")
    names, starts = np.unique(group[order], return_index=True)
    offsets = batch.queue_offset[rows][order]
    times = batch.store_timestamp[rows][order]
    for name, low, high, time in zip(
        names.tolist(),
        np.minimum.reduceat(offsets, starts).tolist() if len(starts) else [],
        np.maximum.reduceat(offsets, starts).tolist() if len(starts) else [],
        np.maximum.reduceat(times, starts).tolist() if len(starts) else [],
        strict=True,
    ):
        key = batch.topics[name >> 32], name & 0xFFFFFFFF
        known = queues.get(key)
        queues[key] = QueueInfo(
            *key,
            low if known is None else min(low, known.min_queue_offset),
            max(high + 1, 0 if known is None else known.max_queue_offset),
            max(time, 0 if known is None else known.last_update_timestamp or 0),
        )
