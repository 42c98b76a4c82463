"""Messages by key: through an index where the store has one, else from the log itself.

What an index does not hold yet is read from the log as well, so that nothing is missing either way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.record.layout import PROPERTY_KEYS
from reput_cli.failures import warn
from reput_cli.timerange import batches_between

if TYPE_CHECKING:
    from reput import Store
    from reput.plugin import QueryResult
    from reput.record import Corruption, DispatchBatch, MessageView

__all__ = ["has_key", "messages_by_key", "tell_damage"]

_PAGE = 1_000


def tell_damage(finding: Corruption) -> None:
    """Say that a part of the log could not be read."""
    warn(f"messages may be missing: {finding}")


def messages_by_key(
    store: Store,
    topic: str | None,
    key: str,
    begin: int | None = None,
    end: int | None = None,
    tell: Callable[[Corruption], None] = tell_damage,
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
        if has_key(message, key):
            yield message


def _rows_with(batch: DispatchBatch, needle: re.Pattern[bytes]) -> list[int]:
    """Rows in whose records the bytes stand, somewhere."""
    places = [found.start() for found in needle.finditer(batch.window.data)]
    rows = np.unique(np.searchsorted(batch.start, places, "right") - 1)
    inside: list[int] = rows[rows >= 0].tolist()
    return inside


def has_key(message: MessageView, key: str) -> bool:
    """Whether a message has a key, as an index sees it."""
    words = message.properties.get(PROPERTY_KEYS, "").split(" ")
    return bool(key) and (key == message.unique_key or key in words)


def _is_between(message: MessageView, begin: int | None, end: int | None) -> bool:
    time = message.store_timestamp
    return (begin is None or begin <= time) and (end is None or time <= end)
