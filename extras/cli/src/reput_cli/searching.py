"""The messages that ``reput grep`` looks for: by key through an index, else out of the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_cli.keysearch import has_key, messages_by_key, tell_damage
from reput_cli.progress import Progress
from reput_cli.timerange import batches_between, first_offset_since

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput import Store
    from reput.record import Corruption, DispatchBatch, MessageView
    from reput_cli.conditions import Conditions

__all__ = ["Wanted", "by_key", "by_reading"]

_HIDDEN = (0x4, 0xC)  # prepared and rollback records: no consumer sees them


@attrs.define
class Wanted:
    """What a message has to be."""

    topic: str
    key: str | None
    conditions: Conditions
    since: int
    until: int
    is_damaged: bool = False
    """Whether something was passed over that could not be read."""

    def tell(self, finding: Corruption) -> None:
        """Say that a part of the log could not be read, and remember it."""
        self.is_damaged = True
        tell_damage(finding)

    def rows(self, batch: DispatchBatch) -> list[int]:
        """Rows of a batch that meet all conditions but the key and the tags."""
        if self.topic not in batch.topics:
            return []
        wanted: npt.NDArray[np.bool_] = batch.topic_code == batch.topics.index(self.topic)
        wanted &= ~np.isin(batch.transaction, _HIDDEN)
        wanted &= (batch.store_timestamp >= self.since) & (batch.store_timestamp <= self.until)
        chosen = self.conditions.chosen
        if chosen is not None and wanted.any():
            wanted &= chosen.matches_batch(batch)
        rows: list[int] = np.flatnonzero(wanted).tolist()
        return rows

    def matches(self, message: MessageView) -> bool:
        """Whether a message meets all conditions."""
        return (
            message.topic == self.topic
            and message.transaction not in _HIDDEN
            and self.since <= message.store_timestamp <= self.until
            and (self.key is None or has_key(message, self.key))
            and self.conditions.matches(message)
        )


def by_key(store: Store, wanted: Wanted) -> Iterator[MessageView]:
    """Messages that meet all conditions, by their key."""
    assert wanted.key is not None
    found = messages_by_key(
        store, wanted.topic, wanted.key, wanted.since, wanted.until, wanted.tell
    )
    return filter(wanted.matches, found)


def by_reading(store: Store, wanted: Wanted) -> Iterator[MessageView]:
    """Messages that meet all conditions, out of the part of the log that is of their time."""
    first = first_offset_since(store.log, wanted.since)
    size = store.log.max_physical_offset - first
    with Progress("reading", None, "bytes", shown=not sys.stdout.isatty()) as progress:
        for batch in batches_between(store, first, None, wanted.until):
            progress.update(batch.end_offset - first, size)
            for row in wanted.rows(batch):
                message = batch.message(row)
                if wanted.conditions.has_tag(message):
                    yield message
            if batch.finding is not None:
                wanted.tell(batch.finding)
