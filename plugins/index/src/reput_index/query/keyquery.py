"""Find messages by key: items with the same hash select them, the records themselves decide.

Whatever a file holds, a search ends and returns only right messages: if a chain is broken, all
items of its file are read instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.errors import CorruptFileError
from reput.plugin import QueryResult
from reput_index.batchkeys import hash_of, keys_of_message, tag_key_of_message
from reput_index.query.hashsearch import BrokenChainError, Found, HashSearch

if TYPE_CHECKING:
    from reput.log import LogView
    from reput.record import MessageView
    from reput_index.files.indexfiles import IndexFiles

logger = logging.getLogger(__name__)

_CHAIN_MAX: Final = 1 << 13
"""Items of a key above which its oldest items are searched from the front: a chain only leads
backwards, and would be followed again for each page of answers. So many uncached reads of single
pages take about as long as reading all items of a large file."""


class Question(NamedTuple):
    """What to search for."""

    topic: str
    key: str
    begin: int
    """Store time of the oldest message wanted, ms."""
    end: int
    """Store time of the newest message wanted, ms."""
    limit: int | None
    oldest_first: bool = False
    after: int | None = None
    """Physical offset of the last message of the previous answer."""
    is_tag: bool = False
    """Whether ``key`` is that of tags, `reput_index.batchkeys.tag_key_of_message`."""


def find(index: IndexFiles, log: LogView, question: Question, indexed_to: int) -> QueryResult:
    """Answer a question with messages that have exactly the wanted key."""
    search = _Search(log, question)
    key_hash = hash_of(question.topic, question.key)
    for file in index.files if question.oldest_first else index.files[::-1]:
        try:
            search.look_at(HashSearch.at(index, file, key_hash))
        except FileNotFoundError:
            continue  # trimmed meanwhile
        if search.is_full:
            break
    found = search.found
    after = found[-1].physical_offset if search.is_full else None
    return QueryResult(tuple(found), not search.is_full, after, indexed_to)


class _Search:
    """The messages found so far, file by file."""

    def __init__(self, log: LogView, question: Question) -> None:
        self._log = log
        self._question = question
        self.found: list[MessageView] = []
        self.is_full = False
        """Whether there is at least one message more than asked for."""

    def look_at(self, look: HashSearch) -> None:
        """Add the messages of one file."""
        if not self._may_hold(look):
            return
        count = len(self.found)
        try:
            self._take(look, self._in_order(look))
        except BrokenChainError as error:
            logger.warning(
                "chain of items is broken, reading all of them file=%s reason=%s",
                look.file.path,
                error,
            )
            # Items from the broken chain may be in the wrong order, with others missing between.
            del self.found[count:]
            items = look.read_through()
            self._take(look, items if self._question.oldest_first else reversed(items))

    def _may_hold(self, look: HashSearch) -> bool:
        header, after = look.header, self._question.after
        if header.next_item <= 1:
            return False
        if after is None:
            return True
        if self._question.oldest_first:
            return header.end_physical_offset > after
        return header.begin_physical_offset < after

    def _in_order(self, look: HashSearch) -> Iterable[Found]:
        """Return the items of a file in the wanted order."""
        after = self._question.after
        if not self._question.oldest_first:
            # The chain is entered at `after`, not followed again from its newest item.
            is_inside = after is not None and after <= look.header.end_physical_offset
            return look.chain(after if is_inside else None)
        chained: list[Found] = []
        is_behind = False
        for found in look.chain():
            if is_behind:
                break
            if after is not None and found.physical_offset <= after:
                # Not the end yet: the next item tells whether this one was in its place.
                is_behind = True
                continue
            if len(chained) == _CHAIN_MAX:
                return look.forward(1 if after is None else look.first_behind(after))
            chained.append(found)
        return reversed(chained)

    def _take(self, look: HashSearch, items: Iterable[Found]) -> None:
        """Add the messages of these items, up to one more than wanted."""
        question, found = self._question, self.found
        last = -1
        for offset in self._offsets(look, items):
            if offset == last or (found and offset == found[-1].physical_offset):
                continue  # the message names the key twice
            last = offset
            message = self._matching(offset)
            if message is None:
                continue
            if question.limit is not None and len(found) >= question.limit:
                self.is_full = True
                return
            found.append(message)

    def _offsets(self, look: HashSearch, items: Iterable[Found]) -> Iterator[int]:
        """Yield the physical offsets of the items that may be wanted."""
        begin, end, after = self._question.begin, self._question.end, self._question.after
        oldest_first = self._question.oldest_first
        for item in items:
            offset = item.physical_offset
            if after is not None and (offset <= after if oldest_first else offset >= after):
                continue
            if look.may_be_between(item, begin, end):
                yield offset

    def _matching(self, offset: int) -> MessageView | None:
        question = self._question
        try:
            message = self._log.read_message(offset)
            if message is None or message.topic != question.topic:
                return None
            if not question.begin <= message.store_timestamp <= question.end:
                return None
            if question.is_tag:
                return message if question.key == tag_key_of_message(message) else None
            return message if question.key in keys_of_message(message) else None
        except CorruptFileError:
            return None  # the item points to something that is not a record
