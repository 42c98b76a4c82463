"""Messages by key, through an index where the store has one, and by what ``reput grep`` asks for.

What an index does not hold yet is read from the log as well, so that nothing is missing either way.
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
_HIDDEN = (0x4, 0xC)  # prepared and rollback records: no consumer sees them


def _tell_damage(finding: Corruption) -> None:
    """Say that a part of the log could not be read."""
    warn(f"messages may be missing: {finding}")


def messages_by_key(
    store: Store,
    topic: str | None,
    key: str,
    begin: int | None = None,
    end: int | None = None,
    tell: Callable[[Corruption], None] = _tell_damage,
) -> Iterator[MessageView]:
    """Messages whose ``UNIQ_KEY``, or a word of whose ``KEYS``, is ``key``; in storing order.

    Args:
        store: opened with the plugins that it uses.
        topic: messages of this topic; of all topics when left out, which no index serves.
        key: the whole key.
        begin: store time of the oldest message, ms.
        end: store time of the newest message, ms.
        tell: called with what could not be read of the log.
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
            # An index that another process writes may have some keys of its last message only.
            is_new = message.physical_offset > last
            if is_new and topic in (None, message.topic) and _is_between(message, begin, end):
                yield message
        if batch.finding is not None:
            tell(batch.finding)


def _page(
    store: Store, topic: str, key: str, begin: int | None, end: int | None, after: int | None
) -> QueryResult | None:
    """The next answer of the index; None where there is none, or no more."""
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
    """Rows in whose records the bytes stand, somewhere."""
    places = [found.start() for found in needle.finditer(batch.window.data)]
    rows = np.unique(np.searchsorted(batch.start, places, "right") - 1)
    inside: list[int] = rows[rows >= 0].tolist()
    return inside


def _has_key(message: MessageView, key: str) -> bool:
    """Whether a message has a key, as an index sees it."""
    words = message.properties.get(PROPERTY_KEYS, "").split(" ")
    return bool(key) and (key == message.unique_key or key in words)


def _is_between(message: MessageView, begin: int | None, end: int | None) -> bool:
    time = message.store_timestamp
    return (begin is None or begin <= time) and (end is None or time <= end)


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
        _tell_damage(finding)

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
            and (self.key is None or _has_key(message, self.key))
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
    with ProgressBar("reading", None, "bytes", shown=not sys.stdout.isatty()) as progress:
        for batch in batches_between(store, first, None, wanted.until):
            progress.update(batch.end_offset - first, size)
            for row in wanted.rows(batch):
                message = batch.message(row)
                if wanted.conditions.has_tag(message):
                    yield message
            if batch.finding is not None:
                wanted.tell(batch.finding)
