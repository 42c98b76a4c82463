"""Finds messages by key, through an index if the store has one, and by the options of ``grep``.

Messages that an index does not hold yet are read from the log, so that none are missing.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.record import java_string_hash
from reput.record.layout import PROPERTY_KEYS
from reput_tools.cli.kit.failures import warn
from reput_tools.cli.kit.progressbar import ProgressBar
from reput_tools.cli.messages.bodysearch import finder_of, rows_with
from reput_tools.cli.messages.grepcontext import GrepContext
from reput_tools.cli.messages.timerange import batches_between, time_runs

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput import Store
    from reput.plugin import QueryResult
    from reput.record import Corruption, DispatchBatch, MessageView
    from reput_tools.cli.messages.bodies import BodyOf
    from reput_tools.cli.messages.bodysearch import BodySearch
    from reput_tools.cli.messages.filteroptions import FilterOptions

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
    for row in np.flatnonzero(rows_with(batch, finder_of(key.encode()))).tolist():
        message = batch.message(row)
        if _has_key(message, key):
            yield message


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

    topics: frozenset[str] | None
    """Messages of these topics; None for all."""
    needle: BodySearch | None
    key: str | None
    conditions: FilterOptions
    since: int
    until: int
    body_of: BodyOf
    """Gives the body in which the needle is looked for."""
    unpacks: bool
    """Whether `body_of` unpacks compressed bodies."""
    is_damaged: bool = False
    """Whether unreadable parts of the log were passed over."""
    seen: set[str] = attrs.field(factory=set)
    """Names of topics that were met on the way."""

    def tell(self, finding: Corruption) -> None:
        """Warn that a part of the log could not be read, and remember it."""
        self.is_damaged = True
        _tell_damage(finding)

    def seen_rows(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return which rows are messages of the topics and times: ``(n,)``."""
        self.seen.update(batch.topics)
        wanted: npt.NDArray[np.bool_] = ~np.isin(batch.transaction, _HIDDEN)
        wanted &= (batch.store_timestamp >= self.since) & (batch.store_timestamp <= self.until)
        if self.topics is not None:
            codes = [batch.topics.index(name) for name in self.topics if name in batch.topics]
            wanted &= np.isin(batch.topic_code, codes)
        return wanted

    def matching_rows(
        self, batch: DispatchBatch, wanted: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return which of the wanted rows meet all conditions: ``(n,)``."""
        if self.key is not None and wanted.any():
            wanted = wanted & rows_with(batch, finder_of(self.key.encode()))
        tags = self.conditions.tags
        if tags is not None and wanted.any():
            wanted = wanted & np.isin(batch.tags_code, [java_string_hash(tag) for tag in tags])
        if self.needle is not None:
            wanted = self.needle.rows(batch, wanted, unpacks=self.unpacks)
        chosen = self.conditions.chosen
        if chosen is not None and wanted.any():
            wanted = wanted & chosen.matches_batch(batch)
        if self.needle is None and self.key is None and tags is None:
            return wanted
        matching = np.zeros(len(batch), np.bool_)
        for row in np.flatnonzero(wanted).tolist():
            matching[row] = self._is_what_it_seems(batch.message(row))
        return matching

    def _is_what_it_seems(self, message: MessageView) -> bool:
        """Whether a row that was chosen by its bytes has the key, the tag and the body."""
        return (
            (self.key is None or _has_key(message, self.key))
            and self.conditions.has_tag(message)
            and (self.needle is None or self.needle.is_in(self.body_of(message)))
        )

    def matches(self, message: MessageView) -> bool:
        """Whether a message meets all conditions."""
        return (
            message.transaction not in _HIDDEN
            and self.since <= message.store_timestamp <= self.until
            and self.conditions.matches(message)
            and self._is_what_it_seems(message)
        )


def by_key(store: Store, wanted: Wanted) -> Iterator[tuple[MessageView, bool]]:
    """Find messages of the named topics by their key, through the store's index.

    Yields:
        Each message, and that it is a match.
    """
    assert wanted.key is not None
    assert wanted.topics is not None
    found = (
        messages_by_key(store, topic, wanted.key, wanted.since, wanted.until, wanted.tell)
        for topic in sorted(wanted.topics)
    )
    for message in heapq.merge(*found, key=lambda message: message.physical_offset):
        wanted.seen.add(message.topic)
        if wanted.matches(message):
            yield message, True


def by_reading(
    store: Store, wanted: Wanted, context: int = 0
) -> Iterator[tuple[MessageView, bool]]:
    """Find messages that meet all conditions by reading the log of their time.

    Args:
        store: the store whose log is read.
        wanted: the conditions.
        context: neighbours in its queue to show before and after each match.

    Yields:
        Each message, and whether it is a match, not only near one.
    """
    first = time_runs(store).first_file_since(store.log, wanted.since)
    size = store.log.max_physical_offset - first
    neighbours = GrepContext(context) if context else None
    with ProgressBar("reading", None, "bytes") as progress:
        for batch in batches_between(store, first, None, wanted.until):
            progress.update(batch.end_offset - first, size)
            seen = wanted.seen_rows(batch)
            matching = wanted.matching_rows(batch, seen)
            if sys.stdout.isatty() and matching.any():
                progress.hide()
            if neighbours is not None:
                yield from neighbours.of(batch, seen, matching)
            else:
                for row in np.flatnonzero(matching).tolist():
                    yield batch.message(row), True
            if sys.stdout.isatty():
                sys.stdout.flush()  # before the bar appears again
            if batch.finding is not None:
                progress.hide()
                wanted.tell(batch.finding)
