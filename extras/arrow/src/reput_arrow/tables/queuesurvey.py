"""How far the queues of a log reach, and since when what nobody has read yet waits.

Consume queues tell nearly all of it without the log, where a store has some and the plugin that
reads them is installed. The rest, or everything without queues, is read from the log, so that the
answer does not depend on them.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from reput.errors import ReputError
from reput.record import queue_keys, unwrapped_batch
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_MASK
from reput_arrow.logs.arrowdisk import disk_of
from reput_arrow.logs.logopening import open_log
from reput_arrow.logs.logplace import COMMIT_LOG
from reput_arrow.reader.queuebounds import root_of

if TYPE_CHECKING:
    from reput import Store
    from reput.record import DispatchBatch
    from reput_arrow.logs.logplace import LogPlace

Mark: TypeAlias = tuple[str, int, int]
"""Topic, queue id, and the queue offset of the next message that somebody wants."""
_PLUGIN: Final = "consumequeue"
_BATCHES: Final = "batchconsumequeue"


@attrs.define
class Span:
    """What a queue holds."""

    min_queue_offset: int
    max_queue_offset: int
    """After the last message."""
    first_timestamp: int | None
    """Store time of the first message that is there, ms."""
    last_timestamp: int | None


@attrs.define(eq=False)
class Survey:
    """The queues of one log, and the messages that marks wait for."""

    place: LogPlace
    marks: Collection[Mark] = ()
    spans: dict[tuple[str, int], Span] = attrs.field(factory=dict, init=False)
    """By topic and queue id."""
    waiting: dict[Mark, int] = attrs.field(factory=dict, init=False)
    """Store time, ms, of the first message at or after each mark that has one."""
    _left: dict[tuple[str, int], set[Mark]] = attrs.field(factory=dict, init=False)

    def make(self) -> Survey:
        """Look at the queues, then at the part of the log that they do not reach.

        Raises:
            CorruptFileError: a log that cannot be opened; damage in it is skipped.
        """
        self._forget()
        start = self._ask_queues()
        with open_log(self.place, 0) as log:
            log.find_end()
            for batch in log.scan(log.min_physical_offset if start is None else start):
                self._add(unwrapped_batch(batch))
        return self

    def _forget(self) -> None:
        self.spans.clear()
        self.waiting.clear()
        self._left.clear()
        for mark in self.marks:
            self._left.setdefault(mark[:2], set()).add(mark)

    def _ask_queues(self) -> int | None:
        """Take what consume queues tell; the physical offset up to which they do, None for none."""
        store = _opened(self.place)
        if store is None:
            return None
        with store:
            try:
                state = next(each for each in store.plugins() if each.name == _PLUGIN)
                for queue in store.queues():
                    key = queue.topic, queue.queue_id
                    low, high = queue.min_queue_offset, queue.max_queue_offset
                    first = _time(store, *key, low) if low < high else None
                    last = queue.last_update_timestamp
                    # A queue is made for its first message, and has a last one to be read.
                    if high == 0 or (low < high and None in (first, last)):
                        self._forget()
                        return None
                    self.spans[key] = Span(low, high, first, last)
                    for mark in [each for each in self._left.get(key, ()) if each[2] < high]:
                        found = _time(store, *key, max(mark[2], low))
                        if found is not None:
                            self.waiting[mark] = found
                        self._left[key].remove(mark)
            except ReputError:  # damaged queues: the log is right, perhaps
                self._forget()
                return None
            return state.dispatched_to

    def _add(self, batch: DispatchBatch) -> None:
        transaction = batch.sys_flag & TRANSACTION_MASK
        rows = np.flatnonzero((transaction == 0) | (transaction == TRANSACTION_COMMIT))
        keys = queue_keys(batch.topic_code, batch.queue_id)
        order = rows[np.argsort(keys[rows], kind="stable")]
        borders = np.flatnonzero(np.diff(keys[order])) + 1
        for part in np.split(order, borders) if len(order) else ():
            first, last = int(part[0]), int(part[-1])
            key = batch.topics[batch.topic_code[first]], int(batch.queue_id[first])
            offsets, times = batch.queue_offset[part], batch.store_timestamp
            low, end = int(offsets.min()), int(offsets.max()) + 1
            span = self.spans.get(key)
            if span is None:
                span = self.spans[key] = Span(low, end, None, None)
            if span.first_timestamp is None:
                span.min_queue_offset, span.first_timestamp = low, int(times[first])
            span.max_queue_offset = max(span.max_queue_offset, end)
            span.last_timestamp = int(times[last])
            for mark in [each for each in self._left.get(key, ()) if each[2] < end]:
                row = part[int(np.argmax(offsets >= mark[2]))]
                self.waiting.setdefault(mark, int(times[row]))
                self._left[key].remove(mark)


def _time(store: Store, topic: str, queue_id: int, queue_offset: int) -> int | None:
    found = store.read(topic, queue_id, queue_offset, 1).messages
    return found[0].store_timestamp if found else None


def _opened(place: LogPlace) -> Store | None:
    """Open a store with its consume queues; None where it has none that can be read."""
    import reput

    root = root_of(place)
    if place.kind != COMMIT_LOG or place.only_base is not None or "://" in root:
        return None
    disk, root = disk_of(root)
    has = [disk.exists(os.path.join(root, name)) for name in (_PLUGIN, _BATCHES)]
    if os.path.basename(place.directory) != "commitlog" or has != [True, False]:
        return None
    try:
        return reput.open(root, "r", plugins=(_PLUGIN,))
    except ReputError:
        return None
