"""Counts a log's messages by topic and queue, by reading all of it; needs no plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from reput.plugin import QueueInfo
from reput.record import queue_keys, queue_of_key, unwrapped_batch
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_tools.offline import DamageCollector
from reput_tools.offline.fillers import filler_count

if TYPE_CHECKING:
    from reput import Store
    from reput.log import Damage
    from reput.record import DispatchBatch


@attrs.frozen
class CountedQueue(QueueInfo):
    """One queue, its messages counted one by one."""

    counted: int = 0
    """Number of readable messages."""

    @property
    def message_count(self) -> int:
        """Number of readable messages, without those lost between the two offsets."""
        return self.counted


class TopicCensus(NamedTuple):
    """The contents of a log."""

    queues: list[CountedQueue]
    """By topic and queue id; offsets and times are those in the records."""
    message_count: int
    """Readable messages, those in no queue (prepared, rolled back) included; no fillers."""
    damages: list[Damage]
    """Everything that is no sound record, in log order."""


def census(store: Store, on_progress: Callable[[int, int], None]) -> TopicCensus:
    """Read the log from end to end and verify every checksum.

    Args:
        store: the store whose log is read.
        on_progress: called with bytes done and bytes in all.
    """
    first, last = store.log.min_physical_offset, store.log.max_physical_offset
    queues: dict[tuple[str, int], CountedQueue] = {}
    count, damaged = 0, DamageCollector(store.log)
    for batch in store.scan(first, last, check_crc=True):
        messages = unwrapped_batch(batch)
        count += len(messages) - filler_count(batch)
        _count(messages, queues)
        damaged.add(batch)
        on_progress(batch.end_offset - first, last - first)
    damaged.add_end(store.recovery.finding)
    return TopicCensus([queues[key] for key in sorted(queues)], count, damaged.damages)


def queues_counted(store: Store, queues: Sequence[QueueInfo]) -> list[QueueInfo]:
    """Return queues with the number of their messages, where the log has lost some.

    Args:
        store: the store; files of the plugins that keep its queues are read.
        queues: its queues, whose offsets include lost messages.
    """
    from reput_tools.cli.plugins.plugindocs import hooks_of  # imports pluggy
    from reput_tools.offline import inspect_store, offline_hooks

    counts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}  # where the last message before begins
    spans = {
        (each.topic, each.queue_id): (each.min_queue_offset, each.max_queue_offset)
        for each in queues
    }
    traces = inspect_store(store.root)
    for name, plugin in store.plugin_objects.items():
        if "reput_read" not in hooks_of(type(plugin)):
            continue
        hooks = offline_hooks(name, plugin)
        for hints in hooks.reput_tools_hints(root=store.root, disk=traces.disk) or ():
            key = hints.topic or "", -1 if hints.queue_id is None else hints.queue_id
            if key in spans and hints.queue_offset is not None:
                low, high = spans[key]
                is_there = (hints.queue_offset >= low) & (hints.queue_offset < high)
                places = hints.physical_offset[is_there]
                # The unit of a lost message leads to the message after it.
                is_own = np.diff(places, prepend=ends.get(key, -1)) != 0
                counts[key] = counts.get(key, 0) + int(np.count_nonzero(is_own))
                ends[key] = int(places[-1]) if len(places) else ends.get(key, -1)
    return [
        each
        if (key := (each.topic, each.queue_id)) not in counts
        else CountedQueue(
            *key,
            each.min_queue_offset,
            each.max_queue_offset,
            each.last_update_timestamp,
            counts[key],
        )
        for each in queues
    ]


def _count(batch: DispatchBatch, queues: dict[tuple[str, int], CountedQueue]) -> None:
    transaction = batch.sys_flag & TRANSACTION_MASK
    rows = np.flatnonzero((transaction == 0) | (transaction == TRANSACTION_COMMIT))
    # One number for each (topic, queue id), so that sorting puts the rows of a queue together.
    group = queue_keys(batch.topic_code[rows], batch.queue_id[rows])
    order = np.argsort(group, kind="stable")
    names, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    offsets = batch.queue_offset[rows][order]
    times = batch.store_timestamp[rows][order]
    for name, count, low, high, time in zip(
        names.tolist(),
        counts.tolist(),
        np.minimum.reduceat(offsets, starts).tolist() if len(starts) else [],
        np.maximum.reduceat(offsets, starts).tolist() if len(starts) else [],
        np.maximum.reduceat(times, starts).tolist() if len(starts) else [],
        strict=True,
    ):
        code, queue_id = queue_of_key(name)
        key = batch.topics[code], queue_id
        known = queues.get(key)
        queues[key] = CountedQueue(
            *key,
            low if known is None else min(low, known.min_queue_offset),
            max(high + 1, 0 if known is None else known.max_queue_offset),
            max(time, 0 if known is None else known.last_update_timestamp or 0),
            count + (0 if known is None else known.counted),
        )
