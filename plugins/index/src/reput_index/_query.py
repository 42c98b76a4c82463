"""Finds messages by key: items of like hash select them, the records themselves decide.

A chain that a file's own items contradict is not followed: the items are read one after the other
instead, which needs no slot. So whatever a file holds, a search ends, and what it returns is right.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput.errors import CorruptFileError
from reput.results import QueryResult
from reput_index._file import CHUNK, Header, IndexFile
from reput_index._keys import hash_of, keys_of_message
from reput_index.layout import ITEM, ITEM_SIZE, NEXT_ITEM_POSITION

if TYPE_CHECKING:
    from reput.context import LogReader
    from reput.view import MessageView
    from reput_index._files import IndexFiles

__all__ = ["Look", "Question", "find"]

logger = logging.getLogger(__name__)

_BLOCK: Final = 204  # items read at once, one page: those of a frequent key stand close together
_SECONDS_MAX: Final = (1 << 31) - 1


class Question(NamedTuple):
    """What is looked for."""

    topic: str
    key: str
    begin: int
    """Store time of the oldest message, ms."""
    end: int
    """Store time of the newest one, ms."""
    limit: int | None
    oldest_first: bool
    after: int | None
    """Physical offset of the last message of the answer before."""


class Look(NamedTuple):
    """One file as it was at one moment."""

    file: IndexFile
    header: Header
    newest: int
    """Item that the slot of the hash states."""
    key_hash: int

    @classmethod
    def at(cls, index: IndexFiles, file: IndexFile, key_hash: int) -> Look:
        """Look at a file now.

        Raises:
            CorruptFileError: a header that the file's items contradict.
        """
        slot = key_hash % file.geometry.slot_count
        if index.writable:
            with index.lock:  # slots and header of one moment
                return cls(file, file.header, file.read_slot(slot), key_hash)
        # The header first: what it counts is in the slots that are read behind it.
        header = file.read_header()
        _check(index, file, header)
        return cls(file, header, file.read_slot(slot), key_hash)

    def items(self) -> Iterator[tuple[int, int, int]]:
        """Number, physical offset and seconds of the items of the hash, the newest first."""
        file, slot_count = self.file, self.file.geometry.slot_count
        slot, above, offset_above = self.key_hash % slot_count, file.geometry.item_count, 1 << 63
        number, block, block_first = self.newest, b"", above
        last = self.header.next_item
        while number != 0:
            if not 0 < number < above:
                break
            if number < block_first:
                block_first = max(number - _BLOCK + 1, 1)
                position = file.geometry.position_of_item(block_first)
                size = (number + 1 - block_first) * ITEM_SIZE
                block = file.pool.read(file.path, size, position).ljust(size, b"\0")
            key_hash, offset, seconds, previous = ITEM.unpack_from(
                block, (number - block_first) * ITEM_SIZE
            )
            if key_hash < 0 or key_hash % slot_count != slot or not 0 <= offset <= offset_above:
                break
            if number >= self.header.next_item:
                # It came behind the header, and is left for the next question.
                if offset < self.header.end_physical_offset:
                    break
            elif key_hash == self.key_hash:
                last = number
                yield number, offset, seconds
            above, offset_above, number = number, offset, previous
        else:
            return
        logger.warning(
            "chain of items is broken, reading all of them file=%s slot=%d item=%d below=%d",
            file.path,
            slot,
            number,
            above,
        )
        yield from self._items_read_through(last)

    def _items_read_through(self, stop: int) -> Iterator[tuple[int, int, int]]:
        stop = min(stop, self.file.geometry.item_count)
        for first in reversed(range(1, stop, CHUNK)):
            items = self.file.read_items(first, min(CHUNK, stop - first))
            for row in np.flatnonzero(items["key_hash"] == self.key_hash)[::-1].tolist():
                yield (
                    first + row,
                    int(items["physical_offset"][row]),
                    int(items["seconds"][row]),
                )

    def may_be_between(self, number: int, seconds: int, begin: int, end: int) -> bool:
        """Whether an item's message may have been stored in ``[begin, end]``, ms.

        False only where it is certain: a clock that goes back leaves items at second 0, and the
        first item may count from the end of another file.
        """
        base = self.header.begin_timestamp
        if number <= 1 or base <= 0 or seconds >= _SECONDS_MAX:
            return True
        earliest = base + seconds * 1_000
        return begin <= earliest + 999 and (seconds <= 0 or earliest <= end)


def _check(index: IndexFiles, file: IndexFile, header: Header) -> None:
    last = header.next_item - 1
    if last >= file.geometry.item_count:
        found = f"a file of {file.geometry.item_count} items has no item {last}"
    elif last < 1:
        return
    else:
        offset = file.read_item(last)[1]
        if offset == header.end_physical_offset:
            return
        found = (
            f"the header says that item {last} is of physical offset "
            f"{header.end_physical_offset}, the item itself says {offset}"
        )
    raise CorruptFileError(file.path, NEXT_ITEM_POSITION, f"{found}; {index.advice}")


def find(index: IndexFiles, log: LogReader, question: Question, indexed_to: int) -> QueryResult:
    """Answer a question with messages whose key is the one asked for."""
    key_hash = hash_of(question.topic, question.key)
    found: list[MessageView] = []
    last_offset = -1
    for offset in _offsets(index, question, key_hash):
        if offset == last_offset:
            continue  # its keys name the word twice
        last_offset = offset
        message = _matching(log, offset, question)
        if message is None:
            continue
        if question.limit is not None and len(found) >= question.limit:
            return QueryResult(tuple(found), False, found[-1].physical_offset, indexed_to)
        found.append(message)
    return QueryResult(tuple(found), True, None, indexed_to)


def _offsets(index: IndexFiles, question: Question, key_hash: int) -> Iterator[int]:
    """Physical offsets of the items of a hash, in the order that is asked for."""
    after, oldest_first = question.after, question.oldest_first
    files = index.files if oldest_first else index.files[::-1]
    for file in files:
        try:
            look = Look.at(index, file, key_hash)
            if look.header.next_item <= 1:
                continue
            if after is not None and not oldest_first:
                if look.header.begin_physical_offset >= after:
                    continue
            elif after is not None and look.header.end_physical_offset <= after:
                continue
            offsets: Iterable[int] = (
                offset
                for number, offset, seconds in look.items()
                if look.may_be_between(number, seconds, question.begin, question.end)
            )
            if oldest_first:
                offsets = reversed(array("q", offsets))
            for offset in offsets:
                if after is None or (offset > after if oldest_first else offset < after):
                    yield offset
        except FileNotFoundError:
            continue  # trimmed in the meantime


def _matching(log: LogReader, offset: int, question: Question) -> MessageView | None:
    try:
        message = log.read_message(offset)
        if message is None or message.topic != question.topic:
            return None
        if not question.begin <= message.store_timestamp <= question.end:
            return None
        return message if question.key in keys_of_message(message) else None
    except CorruptFileError:
        return None  # the item points to something that is no record
