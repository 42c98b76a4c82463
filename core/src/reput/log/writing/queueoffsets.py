"""Counts next queue offsets from the log, for a store whose plugins do not keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.log.damage import FILLED
from reput.record.encoding.lightqueues import stated_count, stated_offset
from reput.record.layout import (
    FILLER_TOPIC,
    LIGHT_QUEUE_PREFIX,
    PROPERTY_INNER_NUM,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    PROPERTY_LIGHT_QUEUES,
    TRANSACTION_COMMIT,
)
from reput.record.queuekeys import queue_keys, queue_of_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.log.reading.reader import LogReader
    from reput.record.batch import DispatchBatch

__all__ = ["after_lost_ones", "count_queue_offsets"]


def count_queue_offsets(log: LogReader, end: int | None = None) -> dict[tuple[str, int], int]:
    """Read the log, up to ``end`` if given; return the next queue offset by (topic, queue id)."""
    found: dict[tuple[str, int], int] = {}
    for batch in log.scan(end=end):
        if len(batch):
            _count(batch, found)
    return found


def after_lost_ones(
    offsets: Mapping[tuple[str, int], int], log: LogReader
) -> dict[tuple[str, int], int]:
    """Return ``offsets`` advanced past messages lost at the end of a queue.

    A consumer may have read the lost messages, and would never read new messages at their queue
    offsets. A damaged header may state anything, so a loss counts only if it was the very next
    message of its queue.
    """
    following = dict(offsets)
    losses = log.losses(log.min_physical_offset, log.max_physical_offset)
    for loss in sorted(losses, key=lambda each: each.start_offset):
        if loss.action != FILLED or loss.topic is None or loss.queue_id is None:
            continue
        filler = log.read_message(loss.start_offset)
        key = loss.topic, loss.queue_id
        if filler is None or not filler.topic or not FILLER_TOPIC.startswith(filler.topic):
            continue  # a blank, or the log was cut below it since
        if loss.queue_offset == following.get(key, 0):
            following[key] = loss.queue_offset + 1
    return following


def _count(batch: DispatchBatch, found: dict[tuple[str, int], int]) -> None:
    is_queued = (batch.transaction == 0) | (batch.transaction == TRANSACTION_COMMIT)
    # No checksum covers the queue id; a negative one belongs to no queue.
    counted = np.flatnonzero(is_queued & (batch.queue_id >= 0))
    if len(counted) == 0:
        return
    queue = queue_keys(batch.topic_code[counted], batch.queue_id[counted])
    following = batch.queue_offset[counted] + _inner_counts(batch)[counted]
    distinct, group = np.unique(queue, return_inverse=True)
    highest = np.zeros(len(distinct), np.int64)
    np.maximum.at(highest, group, following)
    for value, offset in zip(distinct.tolist(), highest.tolist(), strict=True):
        code, queue_id = queue_of_key(value)
        key = batch.topics[code], queue_id
        found[key] = max(found.get(key, 0), offset)
    listed = batch.text(PROPERTY_LIGHT_QUEUE_OFFSETS)
    for row in np.flatnonzero(listed.present).tolist():  # light queues, which few stores have
        names = (batch.text(PROPERTY_LIGHT_QUEUES)[row] or "").split(",")
        for name, text in zip(names, (listed[row] or "").split(","), strict=False):
            stated = stated_offset(text) if name.startswith(LIGHT_QUEUE_PREFIX) else None
            if stated is not None:
                found[name, 0] = max(found.get((name, 0), 0), stated + 1)


def _inner_counts(batch: DispatchBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    counts = np.ones(len(batch), np.int64)
    stated = batch.text(PROPERTY_INNER_NUM)
    for row in np.flatnonzero(stated.present).tolist():
        counts[row] = max(stated_count(stated[row]) or 1, 1)
    return counts
