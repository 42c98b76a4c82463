"""Read one compacted queue: units, then the records that they lead to.

Source: RocketMQ ``CompactionStore#getMessage``, ``SparseConsumeQueue#iterateFromOrNext``: an offset
below the queue starts at its first message, an offset in a gap at the next message. Different on
purpose: the caller's ``max_count`` and ``max_bytes`` are the limits; the end of a file does not end
the read; a record is returned only if it belongs to the queue and its body matches its checksum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np

from reput.files import ReplacedError
from reput.plugin import MissingMessage, ReadResult
from reput.record import RECORD_SIZE_MAX, message_at
from reput.status import ReadStatus
from reput_compaction.layout import UNIT_DTYPE, UNIT_SIZE

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_compaction.filepairs.filepair import Pair, PairFiles
    from reput_compaction.queue.compactedqueue import CompactedQueue

_Answer = TypeVar("_Answer")

_MAX_BYTES_LOWEST, _MAX_BYTES_HIGHEST = 100, 128 << 20
_LARGE_SIZE = 1 << 20  # bytes of a record; more only where its own size word states them
_STRETCH_SIZE = 4 << 20  # bytes of a log read at once
_UNITS_MAX = 4096  # units read at once
_HOLES_MAX = 4096  # damaged messages that one read skips


def read(queue: CompactedQueue, queue_offset: int, max_count: int, max_bytes: int) -> ReadResult:
    """Answer `reput.plugin.hookspecs.reput_read` for one queue."""
    return beside_runs(queue, lambda: _read(queue, queue_offset, max_count, max_bytes))


def beside_runs(queue: CompactedQueue, question: Callable[[], _Answer]) -> _Answer:
    """Answer a question that reads files of a queue; ask again if a run replaced them meanwhile.

    Every read of an open store's queue goes through here, except under the queue's lock.
    """
    while True:
        try:
            return question()
        except ReplacedError:
            with queue.lock:  # wait for the renames to end; then the pairs are the new ones
                pass


def _read(queue: CompactedQueue, queue_offset: int, max_count: int, max_bytes: int) -> ReadResult:
    pairs = [pair for pair in queue.pairs if pair.count]
    if not pairs:
        return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    low, high = pairs[0].first, pairs[-1].last + 1
    if queue_offset == high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
    if queue_offset > high:
        return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, high if low else low, low, high)
    found = _Collector(queue, max_count, min(max(max_bytes, _MAX_BYTES_LOWEST), _MAX_BYTES_HIGHEST))
    at = bisect_left([pair.last for pair in pairs], queue_offset)
    found.next_offset = queue_offset
    for pair in pairs[at:]:
        found.take(pair, slot_of(queue.files, pair, queue_offset))
        if found.is_full:
            break
    status = ReadStatus.FOUND if found.messages else ReadStatus.MESSAGE_WAS_REMOVING
    places = tuple(message.queue_offset for message in found.messages)
    return ReadResult(
        status, found.next_offset, low, high, tuple(found.messages), places, tuple(found.holes)
    )


def slot_of(files: PairFiles, pair: Pair, queue_offset: int) -> int:
    """Return the number of the first unit in the pair at or above ``queue_offset``."""
    low, high = 0, pair.count
    if queue_offset <= pair.first:
        return 0
    # While no message is missing, the place can be computed; one read checks it.
    guess = queue_offset - pair.first
    if guess < pair.count and _offset_at(files, pair, guess) == queue_offset:
        return guess
    while low < high:
        middle = (low + high) // 2
        if _offset_at(files, pair, middle) < queue_offset:
            low = middle + 1
        else:
            high = middle
    return low


def _offset_at(files: PairFiles, pair: Pair, slot: int) -> int:
    units = files.read_units(pair, slot, slot + 1)
    return int(units["queue_offset"][0]) if len(units) else 1 << 63


@attrs.define(eq=False)
class _Collector:
    """Collects the messages of one read."""

    queue: CompactedQueue
    max_count: int
    max_bytes: int
    next_offset: int = 0
    messages: list[MessageView] = attrs.field(factory=list)
    holes: list[MissingMessage] = attrs.field(factory=list)
    is_full: bool = False
    _total: int = 0

    def take(self, pair: Pair, slot: int) -> None:
        """Add the messages of a pair from a slot on."""
        files, count = self.queue.files, pair.count
        while slot < count and not self.is_full:
            wanted = min(max(self.max_count - len(self.messages), 1), _UNITS_MAX)
            units = files.read_units(pair, slot, min(slot + wanted, count))
            places = units["position"].tolist()
            sizes = units["size"].tolist()
            offsets = units["queue_offset"].tolist()
            if not places:
                return  # cut by another process
            records = self._records(pair, units.tobytes(), len(places))
            for place, size, offset in zip(places, sizes, offsets, strict=True):
                if not self._may_take(size):
                    self.is_full = True
                    return
                self._add(pair, next(records), place, size, offset)
                slot += 1
            self.is_full = len(self.messages) >= self.max_count or len(self.holes) >= _HOLES_MAX

    def _records(self, pair: Pair, units: bytes, count: int) -> Iterator[bytes]:
        """Yield the bytes that each unit leads to; none where it leads to no record of the file."""
        row = 0
        while row < count:
            rest = units[row * UNIT_SIZE :]
            found = self._pieces(pair, rest, count - row, _LARGE_SIZE)
            if not found and self._states_large(pair, rest):
                found = self._pieces(pair, rest, 1, RECORD_SIZE_MAX)
            yield from found or (b"",)
            row += max(len(found), 1)

    def _pieces(self, pair: Pair, units: bytes, count: int, size_max: int) -> list[bytes]:
        files = self.queue.files
        found, _ = files.pool.read_pieces(
            pair.log,
            pair.base,
            pair.base + files.sizes.log,
            units,
            UNIT_SIZE,
            min(size_max, files.sizes.log),
            count,
            min(self.max_bytes - self._total, _STRETCH_SIZE),
        )
        return found

    def _states_large(self, pair: Pair, units: bytes) -> bool:
        """Whether the first unit leads to a large record, which states that size, too.

        Asked before memory is taken: a damaged unit may state any size.
        """
        unit = np.frombuffer(units, UNIT_DTYPE, 1)[0]
        place, size = int(unit["position"]) - pair.base, int(unit["size"])
        if place < 0 or not _LARGE_SIZE < size <= RECORD_SIZE_MAX:
            return False
        return self.queue.files.pool.read(pair.log, 4, place) == size.to_bytes(4, "big")

    def _may_take(self, size: int) -> bool:
        if not self.messages:
            return True
        return len(self.messages) < self.max_count and self._total + size <= self.max_bytes

    def _add(self, pair: Pair, record: bytes, place: int, size: int, offset: int) -> None:
        self.next_offset = offset + 1
        message = message_at(record, place) if record else None
        reason = "no whole record of that size stands there"
        if message is not None:
            queue = self.queue
            if (message.topic, message.queue_id) != (queue.topic, queue.queue_id):
                reason = f"the record is one of {message.topic}/{message.queue_id}"
            elif message.queue_offset != offset:
                reason = f"the record states queue offset {message.queue_offset}"
            elif not message.body_matches():
                reason = "checksum and body differ"
            else:
                self.messages.append(message)
                self._total += size
                return
        self.holes.append(MissingMessage(offset, place, size, f"{pair.log.path}: {reason}"))
