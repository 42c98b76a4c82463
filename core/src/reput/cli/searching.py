"""The messages that ``reput grep`` looks for: by key through an index, else out of the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.cli.failures import warn
from reput.cli.keysearch import has_key, messages_by_key
from reput.cli.progress import Progress

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput.filters import MessageFilter
    from reput.store import Store
    from reput.view import MessageView

__all__ = ["Wanted", "by_key", "by_reading"]

_HIDDEN = (0x4, 0xC)  # prepared and rollback records: no consumer sees them


@attrs.define
class Wanted:
    """What a message has to be."""

    topic: str
    key: str | None
    tags: frozenset[str] | None
    chosen: MessageFilter | None
    since: int
    until: int
    is_damaged: bool = False
    """Whether something was passed over that could not be read."""

    def rows(self, batch: DispatchBatch) -> list[int]:
        """Rows of a batch that meet all conditions but the key."""
        if self.topic not in batch.topics:
            return []
        wanted: npt.NDArray[np.bool_] = batch.topic_code == batch.topics.index(self.topic)
        wanted &= ~np.isin(batch.transaction, _HIDDEN)
        wanted &= (batch.store_timestamp >= self.since) & (batch.store_timestamp <= self.until)
        if self.chosen is not None and wanted.any():
            wanted &= self.chosen.matches_batch(batch)
        rows: list[int] = np.flatnonzero(wanted).tolist()
        return rows

    def matches(self, message: MessageView) -> bool:
        """Whether a message meets all conditions."""
        return (
            message.topic == self.topic
            and message.transaction not in _HIDDEN
            and self.since <= message.store_timestamp <= self.until
            and (self.key is None or has_key(message, self.key))
            and (self.tags is None or message.tags in self.tags)
            and (self.chosen is None or self.chosen.matches(message))
        )


def by_key(store: Store, wanted: Wanted) -> Iterator[MessageView]:
    """Messages that meet all conditions, by their key."""
    assert wanted.key is not None
    found = messages_by_key(store, wanted.topic, wanted.key, wanted.since, wanted.until)
    return filter(wanted.matches, found)


def by_reading(store: Store, wanted: Wanted) -> Iterator[MessageView]:
    """Messages that meet all conditions, out of the whole log."""
    first, last = store.log.min_physical_offset, store.log.max_physical_offset
    with Progress("reading", None, "bytes", shown=not sys.stdout.isatty()) as progress:
        for batch in store.scan(first, last):
            progress.update(batch.end_offset - first, last - first)
            for row in wanted.rows(batch):
                message = batch.message(row)
                if wanted.tags is None or message.tags in wanted.tags:
                    yield message
            if batch.finding is not None:
                wanted.is_damaged = True
                warn(f"messages may be missing: {batch.finding}")
