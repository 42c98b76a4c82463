"""Answer as RocketMQ does: hashes decide, at most 64 offsets, in RocketMQ's order.

Source: RocketMQ ``DefaultMessageStore#queryMessage``, ``IndexService#queryOffset``,
``IndexFile#selectPhyOffset``. Different on purpose: a circular chain ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput.errors import CorruptFileError
from reput.plugin import QueryResult
from reput_index.batchkeys import hash_of
from reput_index.query.hashsearch import HashSearch

if TYPE_CHECKING:
    from reput.log import LogView
    from reput.record import MessageView
    from reput_index.files.indexfiles import IndexFiles
    from reput_index.query.keyquery import Question

_MAX_COUNT: Final = 64
_ROUNDS: Final = 3


def find_as_rocketmq(
    index: IndexFiles, log: LogView, question: Question, indexed_to: int
) -> QueryResult:
    """Answer a question as RocketMQ's store answers it."""
    key_hash = hash_of(question.topic, question.key)
    count = _MAX_COUNT if question.limit is None else min(question.limit, _MAX_COUNT)
    end = question.end
    found: list[MessageView] = []
    offsets: list[int] = []
    for _ in range(_ROUNDS):
        offsets = sorted(_offsets(index, key_hash, count, question.begin, end))
        if not offsets:
            break
        for number, offset in enumerate(offsets):
            message = _read(log, offset)
            if message is None:
                continue
            if number == 0:
                end = message.store_timestamp
            found.append(message)
        if found or end < question.begin:
            break
    # If the list was full, RocketMQ tells neither whether there is more nor how to go on.
    return QueryResult(tuple(found), len(offsets) < count, None, indexed_to)


def _read(log: LogView, offset: int) -> MessageView | None:
    try:
        return log.read_message(offset)
    except CorruptFileError:
        return None


def _offsets(index: IndexFiles, key_hash: int, count: int, begin: int, end: int) -> list[int]:
    offsets: list[int] = []
    for file in reversed(index.files):
        try:
            look = HashSearch.at(index, file, key_hash)
            first, last = look.header.begin_timestamp, look.header.end_timestamp
            if (begin < first and end > last) or first <= begin <= last or first <= end <= last:
                _select(look, offsets, count, begin, end)
        except FileNotFoundError:
            continue  # trimmed meanwhile
        if first < begin or len(offsets) >= count:
            break
    return offsets


def _select(look: HashSearch, offsets: list[int], count: int, begin: int, end: int) -> None:
    header, number = look.header, look.newest
    if header.next_item <= 1 or not 0 < number <= header.next_item:
        return
    for _ in range(header.next_item):
        if len(offsets) >= count:
            return
        key_hash, offset, seconds, previous = look.file.read_item(number)
        if seconds < 0:
            return
        time = header.begin_timestamp + seconds * 1_000
        if key_hash == look.key_hash and begin <= time <= end:
            offsets.append(offset)
        if not 0 < previous <= header.next_item or previous == number or time < begin:
            return
        number = previous
