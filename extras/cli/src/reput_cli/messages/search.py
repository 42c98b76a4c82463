"""Finds messages by key, through an index if the store has one, and by the options of ``grep``.

Messages that an index does not hold yet are read from the log, so that none are missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record.layout import PROPERTY_KEYS
from reput_cli.kit.failures import warn
from reput_cli.kit.progressbar import ProgressBar
from reput_cli.messages.timerange import batches_between, first_offset_since

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput import Store
    from reput.plugin import QueryResult
    from reput.record import Corruption, DispatchBatch, MessageView
    from reput_cli.messages.conditions import Conditions

__all__ = ["Wanted", "by_key", "by_reading", "messages_by_key"]

_PAGE = 1_000
_HIDDEN = (0x4, 0xC)  # prepared and rollback records: consumers do not see them


def _tell_damage(finding: Corruption) -> None:
    """Warn that a part of the log could not be read."""
    warn(f"messages may be missing: {finding}")


def messages_by_key(
    store: Store,
    topic: str | None,
    key: str,
    begin: int | None = None,
    end: int | None = None,
    tell: Callable[[Corruption], None] = _tell_damage,
) -> Iterator[MessageView]:
    """Yield messages whose ``UNIQ_KEY``, or a word of whose ``KEYS``, is ``key``, in storing order.

    Args:
        store: opened with the plugins that it uses.
        topic: messages of this topic; of all topics when left out, for which no index helps.
        key: the whole key.
        begin: store time of the oldest message, ms.
        end: store time of the newest message, ms.
        tell: called with each part of the log that could not be read.
    """
    start, last = store.log.min_physical_offset, -1
    while topic is not None:
        answer = _page(store, topic, key, begin, end, None if last < 0 else last)
        if answer is None:
            start = max(start, last)
            break
        for message in answer:
            yield message
            last = message.physical_offset
        if answer.is_complete:
            start = max(start, answer.indexed_to)
            break
    for batch in batches_between(store, start, begin, end):
        for message in _in_batch(batch, key):
            # An index that another process writes may have only some keys of its last message.
            is_new = message.physical_offset > last
            if is_new and topic in (None, message.topic) and _is_between(message, begin, end):
                yield message
        if batch.finding is not None:
            tell(batch.finding)


def _page(
    store: Store, topic: str, key: str, begin: int | None, end: int | None, after: int | None
) -> QueryResult | None:
    """Return the next answer of the index; None if there is no index or nothing more."""
    from reput.errors import CorruptFileError, NoReaderError, PluginError

    try:
        return store.query(topic, key, begin, end, _PAGE, oldest_first=True, after=after)
    except NoReaderError:
        return None
    except (CorruptFileError, PluginError) as error:
        place = "the whole log" if after is None else f"the log from physical offset {after} on"
        warn(f"the index cannot be used, reading {place} instead: {error}")
        return None


def _in_batch(batch: DispatchBatch, key: str) -> Iterator[MessageView]:
    for row in _rows_with(batch, re.compile(re.escape(key.encode()))):
        message = batch.message(row)
        if _has_key(message, key):
            yield message


def _rows_with(batch: DispatchBatch, needle: re.Pattern[bytes]) -> list[int]:
    """Return rows in whose records the bytes occur anywhere."""
    places = [found.start() for found in needle.finditer(batch.window.data)]
    rows = np.unique(np.searchsorted(batch.start, places, "right") - 1)
    inside: list[int] = rows[rows >= 0].tolist()
    return inside


def _has_key(message: MessageView, key: str) -> bool:
    """Whether a message has a key, by the rules of an index."""
    words = message.properties.get(PROPERTY_KEYS, "").split(" ")
    return bool(key) and (key == message.unique_key or key in words)


def _is_between(message: MessageView, begin: int | None, end: int | None) -> bool:
    time = message.store_timestamp
    return (begin is None or begin <= time) and (end is None or time <= end)


@attrs.define
class Wanted:
    """The conditions of ``reput grep``."""

    topic: str
    key: str | None
    conditions: Conditions
    since: int
    until: int
    is_damaged: bool = False
    """Whether unreadable parts of the log were passed over."""

    def tell(self, finding: Corruption) -> None:
        """Warn that a part of the log could not be read, and remember it."""
        self.is_damaged = True
        _tell_damage(finding)

    def rows(self, batch: DispatchBatch) -> list[int]:
        """Return rows of a batch that meet all conditions but the key and the tags."""
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
            and (self.key is None or _has_key(message, self.key))
            and self.conditions.matches(message)
        )


def by_key(store: Store, wanted: Wanted) -> Iterator[MessageView]:
    """Find messages that meet all conditions by their key."""
    assert wanted.key is not None
    found = messages_by_key(
        store, wanted.topic, wanted.key, wanted.since, wanted.until, wanted.tell
    )
    return filter(wanted.matches, found)


def by_reading(store: Store, wanted: Wanted) -> Iterator[MessageView]:
    """Find messages that meet all conditions by reading the log of their time."""
    first = first_offset_since(store.log, wanted.since)
    size = store.log.max_physical_offset - first
    with ProgressBar("reading", None, "bytes", shown=not sys.stdout.isatty()) as progress:
        for batch in batches_between(store, first, None, wanted.until):
            progress.update(batch.end_offset - first, size)
            for row in wanted.rows(batch):
                message = batch.message(row)
                if wanted.conditions.has_tag(message):
                    yield message
            if batch.finding is not None:
                wanted.tell(batch.finding)
