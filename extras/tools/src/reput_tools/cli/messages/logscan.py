"""Reads messages of a topic in storing order from the log itself; needs no plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.log import CUT
from reput_tools.cli.messages.queuereader import Lost, Placed
from reput_tools.cli.messages.timerange import batches_between

if TYPE_CHECKING:
    from reput import Store
    from reput.record import DispatchBatch
    from reput_tools.cli.kit.timestamps import Start

_TRANSACTION_HIDDEN = (0x4, 0xC)  # prepared and rollback records are in no queue


def scanned(
    store: Store,
    topic: str,
    queue_id: int | None,
    start: Start,
    until: int | None,
    on_progress: Callable[[int, int], None],
) -> Iterator[Placed | Lost]:
    """Yield messages of the topic, and losses that were, or may have been, of the topic.

    Args:
        store: the store whose log is read.
        topic: messages of this topic.
        queue_id: only messages of this queue.
        start: compared with each message, as the log has no index.
        until: store time, ms; much later messages end the reading. None for all.
        on_progress: called with bytes done and bytes in all.
    """
    first, last = store.log.min_physical_offset, store.log.max_physical_offset
    if start.kind == "latest":
        return
    losses = _Losses(store, topic, queue_id)
    damage, reached = None, first
    begin = start.value if start.kind == "time" else None
    for batch in batches_between(store, first, begin, until, last):
        on_progress(batch.end_offset - first, last - first)
        if damage is not None:
            losses.add(damage.physical_offset, batch.start_offset, damage.reason.name)
        for row in _rows(batch, topic, queue_id, start):
            message = batch.message(row)
            yield from losses.before(message.physical_offset)
            yield Placed(message.queue_offset, message)
        damage, reached = batch.finding, batch.end_offset
    if damage is not None:
        losses.add(damage.physical_offset, last, damage.reason.name)
    # Reading may have ended where later messages begin.
    yield from losses.before(last if until is None or damage is not None else reached)


def _rows(batch: DispatchBatch, topic: str, queue_id: int | None, start: Start) -> list[int]:
    if topic not in batch.topics:
        return []
    wanted = batch.topic_code == batch.topics.index(topic)
    wanted &= ~np.isin(batch.transaction, _TRANSACTION_HIDDEN)
    if queue_id is not None:
        wanted &= batch.queue_id == queue_id
    if start.kind == "offset":
        wanted &= batch.queue_offset >= start.value
    if start.kind == "time":
        wanted &= batch.store_timestamp >= start.value
    rows: list[int] = np.flatnonzero(wanted).tolist()
    return rows


class _Losses:
    """The losses of a log in one topic or queue, in log order, each once."""

    def __init__(self, store: Store, topic: str, queue_id: int | None) -> None:
        # A cut is not listed: the log ended there, and may have been written on since.
        every = [loss for loss in store.losses() if loss.action != CUT]
        self._known = [(loss.start_offset, loss.end_offset) for loss in every]
        self._left = sorted(
            (
                Lost(
                    loss.topic,
                    loss.queue_id,
                    loss.queue_offset,
                    loss.start_offset,
                    loss.size,
                    loss.reason,
                )
                for loss in every
                if loss.topic in (None, topic)
                and (None in (queue_id, loss.queue_id) or loss.queue_id == queue_id)
            ),
            key=lambda lost: lost.physical_offset,
        )

    def add(self, start: int, end: int, reason: str) -> None:
        """Add damage that was found while reading, unless it is known."""
        if not any(low <= start < high for low, high in self._known):
            self._left.append(Lost(None, None, None, start, end - start, reason))
            self._left.sort(key=lambda lost: lost.physical_offset)

    def before(self, physical_offset: int) -> Iterator[Lost]:
        """Yield losses before a physical offset."""
        while self._left and self._left[0].physical_offset < physical_offset:
            yield self._left.pop(0)
