"""Messages by key: through an index where the store has one, else from the log itself.

What an index does not hold yet is read from the log as well, so that nothing is missing either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reput.cli.failures import warn
from reput.layout import PROPERTY_KEYS

if TYPE_CHECKING:
    from reput.batch import DispatchBatch
    from reput.results import QueryResult
    from reput.store import Store
    from reput.view import MessageView

__all__ = ["has_key", "messages_by_key"]

_PAGE = 1_000


def messages_by_key(
    store: Store, topic: str | None, key: str, begin: int | None = None, end: int | None = None
) -> Iterator[MessageView]:
    """Messages whose ``UNIQ_KEY``, or a word of whose ``KEYS``, is ``key``; in storing order.

    Args:
        store: opened with the plugins that it uses.
        topic: messages of this topic; of all topics when left out, which no index serves.
        key: the whole key.
        begin: store time of the oldest message, ms.
        end: store time of the newest message, ms.
    """
    indexed_to = store.log.min_physical_offset
    answer = None if topic is None else _first_page(store, topic, key, begin, end)
    while answer is not None and topic is not None:
        indexed_to = max(indexed_to, answer.indexed_to)
        yield from answer
        if answer.is_complete:
            break
        answer = store.query(topic, key, begin, end, _PAGE, oldest_first=True, after=answer.after)
    for message in _scanned(store, key, indexed_to):
        # An index that another process writes tells its last message only, which is here once more.
        is_new = answer is None or message.physical_offset > answer.indexed_to
        if is_new and topic in (None, message.topic) and _is_between(message, begin, end):
            yield message


def _first_page(
    store: Store, topic: str, key: str, begin: int | None, end: int | None
) -> QueryResult | None:
    """The answer of the index; None where there is none."""
    from reput.errors import CorruptFileError, NoReaderError, PluginError

    try:
        answer = store.query(topic, key, begin, end, _PAGE, oldest_first=True)
    except NoReaderError:
        return None
    except (CorruptFileError, PluginError) as error:
        warn(f"the index cannot be used, reading the whole log instead: {error}")
        return None
    return answer if answer.indexed_to > store.log.min_physical_offset else None


def _scanned(store: Store, key: str, start: int) -> Iterator[MessageView]:
    needle = re.compile(re.escape(key.encode()))
    begin = max(start, store.log.min_physical_offset)
    for batch in store.scan(begin, None):
        for row in _rows_with(batch, needle):
            message = batch.message(row)
            if has_key(message, key):
                yield message
        if batch.finding is not None:
            warn(f"messages may be missing: {batch.finding}")


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
