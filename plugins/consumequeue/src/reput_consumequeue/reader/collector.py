"""Collect the messages of one read: what units point to, up to the limits of the read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.plugin import MissingMessage
from reput.record import RECORD_SIZE_MAX, message_at
from reput.record.layout import RECORD_MIN_SIZE
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.reader.resultbuffers import ColumnBuffer, MessageBuffer

if TYPE_CHECKING:
    from reput.log import LogView
    from reput.record import MessageView
    from reput_consumequeue.queue.consumequeue import ConsumeQueue
    from reput_consumequeue.reader.readahead import FilterReadAhead

_STRETCH_SIZE = 1 << 20  # bytes of neighbouring records in one read, at most
_STRETCH_WASTE = 3  # bytes between them per byte of records, at most


@attrs.define(eq=False, repr=False)
class Collector:
    """Collects the messages of one read of a queue."""

    queue: ConsumeQueue
    log: LogView
    max_count: int
    max_bytes: int
    scout: FilterReadAhead | None = None
    kept: MessageBuffer | ColumnBuffer = attrs.field(factory=MessageBuffer)
    holes: list[MissingMessage] = attrs.field(factory=list)
    is_full: bool = False
    _total: int = 0
    _removed: bool = False
    _skip_below: int = -1  # after a missing record: skip units before the next commit-log file

    @property
    def status(self) -> ReadStatus:
        """The status of the read."""
        if self.kept:
            return ReadStatus.FOUND
        if self._removed:
            return ReadStatus.MESSAGE_WAS_REMOVING
        return ReadStatus.NO_MATCHED_MESSAGE

    def _is_intact(self, message: MessageView) -> bool:
        """Whether a message's body matches its checksum, and its record does where it must."""
        if not message.body_matches():
            return False
        return not self.log.must_have_crc(message.physical_offset) or message.record_matches()

    def take_sound(self, queue_offset: int, units: bytes, count: int) -> int:
        """Read the messages of consecutive units that leave nothing to decide; no filter applies.

        Args:
            queue_offset: of the first unit.
            units: as in the file; one more than ``count`` if the next unit is known.
            count: how many are wanted.

        Returns:
            How many units were dealt with. `is_full` says whether the read ends there; otherwise
            `take` looks at the rest.
        """
        kept, queue, log = self.kept, self.queue, self.log
        left, room, after = self.max_count, self.max_bytes, self._skip_below - 1
        if kept:
            left, room = left - len(kept), room - self._total
            after = max(after, kept.last_offset)
            if left <= 0 or UNIT.unpack_from(units)[1] > room:
                self.is_full = True
                return 0
        wanted = min(count, left)
        chunks = log.read_records(units, UNIT_SIZE, wanted, room, kept.together)
        place = queue.topic_bytes, queue.queue_id, queue_offset, queue.is_light
        first, *_ = UNIT.unpack_from(units)
        last, *_ = UNIT.unpack_from(units, (wanted - 1) * UNIT_SIZE)
        has_crc = log.must_have_crc(first) or log.must_have_crc(last)
        intact = self._count_intact if has_crc else None
        asked = chunks, units, UNIT_SIZE, *place, after
        taken = kept.add_sound(asked, queue_offset, wanted, intact)
        if taken >= left:
            self.is_full = True
            return taken
        if taken:
            sizes = np.frombuffer(units, UNIT_DTYPE, taken)["size"]
            self._total += int(sizes.sum())
        if kept and taken < count:
            size = UNIT.unpack_from(units, taken * UNIT_SIZE)[1]
            self.is_full = self._total + size > self.max_bytes
        return taken

    def _count_intact(self, messages: list[MessageView]) -> int:
        wrong = (row for row, each in enumerate(messages) if not self._is_intact(each))
        return next(wrong, len(messages))

    def take(
        self,
        queue_offset: int,
        offsets: list[int],
        sizes: list[int],
        following: tuple[int, int],
        rows: list[int] | None = None,
    ) -> int:
        """Read the messages of consecutive units.

        Args:
            queue_offset: of the first unit.
            offsets: physical offset that each unit states.
            sizes: size that each unit states.
            following: what the next unit states; with an offset of -1 if that is in another file,
                or does not exist.
            rows: the wanted units; None for all.

        Returns:
            How many units were dealt with.
        """
        kept, log = self.kept, self.log
        left = self.max_count - len(kept)
        if rows is None:
            rows = list(range(len(offsets)))
            records = _records(log, offsets, sizes, left, self.max_bytes)
        else:
            records = self._records_of(rows, queue_offset, offsets, sizes, left)
        next_row = 0
        for row, record in zip(rows, records, strict=True):
            place, offset, size = queue_offset + row, offsets[row], sizes[row]
            count = len(kept)
            if count and (
                count >= self.max_count or self._total + size > self.max_bytes or row > next_row
            ):
                stop = self._full_at(sizes, next_row, row + 1)
                if stop is not None:
                    self.is_full = True
                    return stop
            next_row = row + 1
            if offset < self._skip_below:
                continue
            is_last = row + 1 == len(offsets)
            behind = following if is_last else (offsets[row + 1], sizes[row + 1])
            message, is_repeated = self._message_at(place, offset, size, record, behind)
            if message is not None and not is_repeated and _belongs(message, self.queue):
                # A damaged body that the filter would reject is not lost: tags ignore bodies, too.
                if self.scout is not None and not self.scout.selects(place, message):
                    continue
                if self._is_intact(message):
                    kept.add(place, message)
                    self._total += size
                    continue
            if count and self._follows:
                # The unit may have been half-written: the next read looks again.
                self.is_full = True
                return row
            self._note_gone(place, offset, size, message, is_repeated)
        stop = self._full_at(sizes, next_row, len(offsets))
        self.is_full = stop is not None or len(kept) >= self.max_count
        return len(offsets) if stop is None else stop

    @property
    def _follows(self) -> bool:
        """Whether another process may be writing."""
        return not self.queue.files.shared.writable

    def _message_at(
        self, place: int, offset: int, size: int, record: bytes, behind: tuple[int, int]
    ) -> tuple[MessageView | None, bool]:
        """Return the message of a unit, or None; and whether the unit repeats the next one."""
        message = message_at(record, offset) if len(record) == size else None
        is_repeated = False
        if message is None or message.queue_offset != place:  # else it is at its place
            other = self._place_behind(place) if behind[0] < 0 else behind
            is_repeated = (offset, size) == other
        if self._follows and self.kept and offset <= self.kept.last_offset:
            message = None  # a half-written unit may point at another record of the queue
        return message, is_repeated

    def _note_gone(
        self, place: int, offset: int, size: int, message: MessageView | None, is_repeated: bool
    ) -> None:
        """Note a unit that leads to no message of the queue."""
        log = self.log
        self._removed = True
        if offset < log.min_physical_offset:
            self._skip_below = offset - offset % log.file_size + log.file_size
        elif is_repeated:
            self._add_hole_unit(place, offset)
        else:
            self._add_damage(place, offset, size, message)

    def _records_of(
        self, rows: list[int], queue_offset: int, offsets: list[int], sizes: list[int], left: int
    ) -> Iterator[bytes]:
        """Yield the records that some units point to; the scout may have read them."""
        known = {} if self.scout is None else self.scout.selected
        missing = [row for row in rows if queue_offset + row not in known]
        some = [offsets[row] for row in missing], [sizes[row] for row in missing]
        read = _records(self.log, *some, left, self.max_bytes)
        for row in rows:
            record = known.get(queue_offset + row)
            yield next(read) if record is None else record

    def _full_at(self, sizes: list[int], first: int, stop: int) -> int | None:
        """Return the first row that does not fit; it ends the read, wanted or not."""
        if not self.kept or first >= stop:
            return None
        if len(self.kept) >= self.max_count:
            return first
        left = self.max_bytes - self._total
        if max(sizes[first:stop]) <= left:
            return None
        return next(row for row in range(first, stop) if sizes[row] > left)

    # ------------------------------------------------------------------ holes

    def _place_behind(self, place: int) -> tuple[int, int] | None:
        """Return what the unit after ``place`` states, which is in the next file."""
        is_last = place + 1 >= self.queue.max_offset
        return None if is_last else self.queue.files.read_place(place + 1)

    def _add_hole_unit(self, place: int, physical_offset: int) -> None:
        """Note a missing message, whose unit repeats that of the next message that exists."""
        log, start = self.log, self.log.min_physical_offset
        before = self.queue.files.read_place(place - 1) if place > self.queue.min_offset else None
        if before is not None and before[0] != physical_offset:
            start = sum(before)
        losses = log.losses(start, physical_offset)
        if not losses:
            self.holes.append(MissingMessage(place, physical_offset, 0, "lost"))
            return
        loss = losses[-1]
        text = f"lost with the log's bytes {loss.start_offset} to {loss.end_offset}: {loss.reason}"
        self.holes.append(MissingMessage(place, loss.start_offset, loss.size, text))

    def _add_damage(
        self, place: int, physical_offset: int, size: int, message: MessageView | None
    ) -> None:
        """Note a unit that points to no sound message of the queue, although the log has bytes."""
        end = physical_offset + size
        if size < RECORD_MIN_SIZE or end > self.log.max_physical_offset:
            if physical_offset >= self.log.max_physical_offset:
                return  # the log does not reach so far, or not yet
            reason = f"the unit states {size} bytes, of which the log has not all"
        elif message is None:
            reason = "no whole record of that size stands there"
        elif not message.body_matches():
            reason = "checksum and body differ"
        elif not self._is_intact(message):
            reason = "the checksum of the whole record is missing or wrong"
        else:
            reason = f"the record is one of {message.topic}/{message.queue_id}"
        self.holes.append(MissingMessage(place, physical_offset, size, reason))


def _records(
    log: LogView, offsets: list[int], sizes: list[int], max_count: int, max_bytes: int
) -> Iterator[bytes]:
    """Yield the record that each unit points to; neighbouring records are read together."""
    row, count = 0, len(offsets)
    while row < count:
        if not _is_possible(log, offsets[row], sizes[row]):
            yield b""  # nothing is read
            row += 1
            continue
        # A stretch ends where its commit-log file does, as a read does.
        file_end = offsets[row] - offsets[row] % log.file_size + log.file_size
        stop = _stretch(
            offsets, sizes, row, min(count, row + max(max_count, 1)), max_bytes, file_end
        )
        start = offsets[row]
        data = log.read(start, offsets[stop - 1] + sizes[stop - 1] - start)
        for index in range(row, stop):
            at = offsets[index] - start
            yield data[at : at + sizes[index]]
        row = stop


def _is_possible(log: LogView, offset: int, size: int) -> bool:
    """Whether a record may have that size; of a large one the log must state it, too."""
    if not RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX:
        return False
    return size <= _STRETCH_SIZE or log.read(offset, 4) == size.to_bytes(4, "big")


def _stretch(
    offsets: list[int], sizes: list[int], row: int, stop: int, max_bytes: int, file_end: int
) -> int:
    """Return the end of the run of units from ``row`` on whose records are worth one read."""
    start, wanted = offsets[row], sizes[row]
    if wanted > _STRETCH_SIZE:
        return row + 1
    for index in range(row + 1, stop):
        end = offsets[index] + sizes[index]
        wanted += sizes[index]
        span = end - start
        ascending = offsets[index] >= offsets[index - 1] + sizes[index - 1]
        if not ascending or end > file_end or span > _STRETCH_SIZE or wanted > max_bytes:
            return index
        if span > wanted * (1 + _STRETCH_WASTE) + 65_536:
            return index
    return stop


def _belongs(message: MessageView, queue: ConsumeQueue) -> bool:
    if message.queue_id == queue.queue_id and message.topic_bytes == queue.topic_bytes:
        return True
    return queue.is_light  # which lists other topics
