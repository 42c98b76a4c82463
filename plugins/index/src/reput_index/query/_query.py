"""Finds messages by key: items of like hash select them, the records themselves decide.

Whatever a file holds, a search ends, and what it returns is right: a file whose chain is broken is
read through instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.errors import CorruptFileError
from reput.plugin import QueryResult
from reput_index._keys import hash_of, keys_of_message
from reput_index.query._look import BrokenChainError, Found, Look

if TYPE_CHECKING:
    from reput.log import LogView
    from reput.record import MessageView
    from reput_index.files._files import IndexFiles

__all__ = ["Question", "find"]

logger = logging.getLogger(__name__)

_CHAIN_MAX: Final = 1 << 13
"""Items of a key behind which the oldest ones are looked for from the front: a chain leads only
back, and would be walked again for each page. So many reads of single pages, when nothing is
cached, take about as long as reading all items of a large file."""


class Question(NamedTuple):
    """What is looked for."""

    topic: str
    key: str
    begin: int
    """Store time of the oldest message, ms."""
    end: int
    """Store time of the newest one, ms."""
    limit: int | None
    oldest_first: bool = False
    after: int | None = None
    """Physical offset of the last message of the answer before."""


def find(index: IndexFiles, log: LogView, question: Question, indexed_to: int) -> QueryResult:
    """Answer a question with messages whose key is the one asked for."""
    search = _Search(log, question)
    key_hash = hash_of(question.topic, question.key)
    for file in index.files if question.oldest_first else index.files[::-1]:
        try:
            search.look_at(Look.at(index, file, key_hash))
        except FileNotFoundError:
            continue  # trimmed in the meantime
        if search.is_full:
            break
    found = search.found
    after = found[-1].physical_offset if search.is_full else None
    return QueryResult(tuple(found), not search.is_full, after, indexed_to)


class _Search:
    """What was found so far, file by file."""

    def __init__(self, log: LogView, question: Question) -> None:
        self._log = log
        self._question = question
        self.found: list[MessageView] = []
        self.is_full = False
        """Whether there is one more message than was asked for."""

    def look_at(self, look: Look) -> None:
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
            # What the chain gave may be in the wrong order, with others missing in between.
            del self.found[count:]
            items = look.read_through()
            self._take(look, items if self._question.oldest_first else reversed(items))

    def _may_hold(self, look: Look) -> bool:
        header, after = look.header, self._question.after
        if header.next_item <= 1:
            return False
        if after is None:
            return True
        if self._question.oldest_first:
            return header.end_physical_offset > after
        return header.begin_physical_offset < after

    def _in_order(self, look: Look) -> Iterable[Found]:
        """Items of a file in the order that is asked for."""
        after = self._question.after
        if not self._question.oldest_first:
            # One more question to a chain that was walked up to there does not walk it again.
            is_inside = after is not None and after <= look.header.end_physical_offset
            return look.chain(after if is_inside else None)
        chained: list[Found] = []
        is_behind = False
        for found in look.chain():
            if is_behind:
                break
            if after is not None and found.physical_offset <= after:
                # Not the end yet: the next one says whether this one was in its place.
                is_behind = True
                continue
            if len(chained) == _CHAIN_MAX:
                return look.forward(1 if after is None else look.first_behind(after))
            chained.append(found)
        return reversed(chained)

    def _take(self, look: Look, items: Iterable[Found]) -> None:
        """Add the messages of these items, until there is one too many."""
        question, found = self._question, self.found
        last = -1
        for offset in self._offsets(look, items):
            if offset == last or (found and offset == found[-1].physical_offset):
                continue  # its keys name the word twice
            last = offset
            message = self._matching(offset)
            if message is None:
                continue
            if question.limit is not None and len(found) >= question.limit:
                self.is_full = True
                return
            found.append(message)

    def _offsets(self, look: Look, items: Iterable[Found]) -> Iterator[int]:
        """Physical offsets of the items that may be wanted."""
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
            return message if question.key in keys_of_message(message) else None
        except CorruptFileError:
            return None  # the item points to something that is no record
