"""Finds where the log continues after damage.

After damage the borders of records are unknown. A record counts there if it is *sound*: it has the
magic, its lengths add up, it states its own offset, its body matches its checksum, and so does the
whole record if it carries that checksum. A body may contain the bytes of such a record, so the size
that the damaged record states is tried first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.files.system.disk import is_zero
from reput.log.losses import Damage
from reput.record.batch import Corruption, CorruptionKind
from reput.record.decode import RECORD_SIZE_MAX, Decoder, magic_places
from reput.record.entries import ENTRY_HEAD_SIZE, size_and_magic
from reput.record.layout import (
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    BORN_HOST_V6,
    HEADER,
    HEADER_SIZE,
    HOST_EXTRA_V6,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)
from reput.record.text.textmatrix import words_at

if TYPE_CHECKING:
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.log.reader.batchreader import CheckedRanges

_OWN_OFFSET_POSITION: Final = 28  # of a record's own physical offset
_SEARCH_SIZE: Final = 1 << 20
_TRUSTED_SIZE: Final = frozenset(
    {CorruptionKind.BODY_CRC, CorruptionKind.RECORD_CRC, CorruptionKind.PHYSICAL_OFFSET}
)
"""Kinds of corruption of records whose lengths add up to their size."""
_CLOCK_STEP_MS: Final = 1_000
_TOPIC = re.compile(rb"[%|a-zA-Z0-9_-]+")


def head_at(files: MappedFileQueue, offset: int) -> tuple[int, int]:
    """Return the size and the magic at ``offset``; zeros if the files do not hold both.

    Of an entry, its size and the magic of its record.
    """
    if offset >= files.entries_from:
        return size_and_magic(files.read(offset, ENTRY_HEAD_SIZE + SIZE_AND_MAGIC.size))
    head = files.read(offset, SIZE_AND_MAGIC.size)
    return SIZE_AND_MAGIC.unpack(head) if len(head) == SIZE_AND_MAGIC.size else (0, 0)


def is_blank(files: MappedFileQueue, offset: int) -> bool:
    """Whether a blank begins at ``offset``, which ends with its file."""
    base = files.base_of(offset)
    return base is not None and head_at(files, offset) == (
        base + files.file_size - offset,
        BLANK_MAGIC,
    )


class NextRecordFinder:
    """Searches for sound records in the files of one log; not thread-safe."""

    def __init__(self, files: MappedFileQueue, checked: CheckedRanges) -> None:
        self._files = files
        self._checked = checked
        self._decoder = Decoder(check_crc=True, check_record_crc=True)
        self._spent = 0  # bytes of candidates examined in one search

    # ------------------------------------------------------------------ damage

    def damages_at(
        self, start: int, finding: Corruption | None, stop: int | None = None, after: int = 0
    ) -> list[Damage]:
        """Find the damage from ``start`` to the next sound record.

        Args:
            start: where a record should begin, but none does.
            finding: the decoder's finding there; None for zeros.
            stop: end of the log, if known: the damage reaches no further. If unknown, there is
                damage only if a valid record follows.
            after: store time of the record before ``start``, ms. An older record is a remainder: it
                stood there when the log was cut, as RocketMQ does not clear what it cuts.

        Returns:
            One damage per file; none if the log ends at ``start``.
        """
        since = after - _CLOCK_STEP_MS
        if self._files.base_of(start) is None:
            return []
        end = self._next(start, finding, stop, since)
        if end is None:
            return []
        if finding is None:
            detail = f"zeros, where the log goes on to {end}"
            finding = Corruption(start, CorruptionKind.BAD_MAGIC, detail)
        timestamp = after or self._store_timestamp(end)
        damages = []
        while True:
            file_end = self._file_end(start)
            is_last = end <= file_end or file_end <= start
            damages.append(self.damage(finding, end if is_last else file_end, timestamp))
            if is_last:
                return damages if stop is not None or _can_be_filled(damages) else []
            start = file_end
            detail = f"no sound record before {end}"
            finding = Corruption(start, CorruptionKind.BAD_MAGIC, detail)

    def _next(
        self, start: int, finding: Corruption | None, stop: int | None, since: int
    ) -> int | None:
        """Return where the log continues after ``start``; None if nowhere."""
        last = self._files.capacity_end if stop is None else stop
        stated = None if finding is None else self._stated_end(start, last, stop, since)
        if stated is not None and finding is not None and finding.reason in _TRUSTED_SIZE:
            return stated
        # A file's head is examined however near it is: a blank may be shorter than any record.
        after = min(start + RECORD_MIN_SIZE, max(self._file_end(start), start + 1))
        found = self.next_record(after, last, since)
        if stated is not None and not (found is not None and self._chain_leads(found, stated)):
            return stated
        return stop if found is None else found

    def _stated_end(self, start: int, last: int, stop: int | None, since: int) -> int | None:
        """Return the damaged record's end by its stated size, if the log continues there."""
        file_end = self._file_end(start)
        size, _ = head_at(self._files, start)
        end = start + size
        if not RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX or end > min(file_end, last):
            return None
        closes = end < file_end and is_blank(self._files, end)
        return end if closes or end == stop or self._sound_size(end, last, since) else None

    def _chain_leads(self, start: int, end: int) -> bool:
        """Whether sound records lie end to end from ``start`` to ``end``.

        If so, the size that led to ``end`` was wrong, and these records are not part of a body.
        """
        while start < end:
            size = self._sound_size(start, end, 0)
            if not size:
                return False
            start += size
        return start == end

    def _gap_at(self, offset: int) -> int:
        return ENTRY_HEAD_SIZE if offset >= self._files.entries_from else 0

    def _file_end(self, offset: int) -> int:
        base = self._files.base_of(offset)
        return offset if base is None else base + self._files.file_size

    # ------------------------------------------------------------------ sound records

    def next_record(self, start: int, end: int, since: int = 0) -> int | None:
        """Return the offset of the first sound record in ``[start, end)``; None without one.

        Sparse regions are not read, so that searching a mostly unwritten file is cheap, however
        large it is.

        Args:
            start: where to begin, in any file.
            end: where to stop; no record ends after it.
            since: a record stored earlier than this, ms, does not count.
        """
        self._spent = 0
        first = start
        while start < end:
            base = self._files.base_of(start)
            if base is None:  # a file is missing, and the log may continue after it
                base = self._files.base_after(start)
                if base is None or base >= end:
                    return None
                start = base
            file_end = self._file_end(start)
            if start == base:
                if self._sound_size(start, min(file_end, end), since):
                    return start
                start += RECORD_MIN_SIZE  # no other record can begin nearer to the file's head
            for data_start, data_end in self._files.data_ranges(start, min(file_end, end)):
                found = self._search(data_start, data_end, first, min(file_end, end), since)
                if found is not None:
                    return found
            start = file_end
        return None

    def _search(self, start: int, end: int, first: int, stop: int, since: int) -> int | None:
        while start < end:
            # A header may extend into a sparse region, and into the next window.
            window_bytes = self._files.read(start, min(_SEARCH_SIZE, end - start) + HEADER_SIZE)
            if len(window_bytes) < HEADER_SIZE:
                return None
            if not is_zero(window_bytes):
                gap = self._gap_at(start)
                window = np.frombuffer(window_bytes, np.uint8)
                places = magic_places(window)
                stated = words_at(window, places + _OWN_OFFSET_POSITION, np.dtype(">i8"))
                for offset in (places[stated == places + start] + start - gap).tolist():
                    # Limits the work on bodies that contain many records inside of records.
                    if self._spent > RECORD_SIZE_MAX + 8 * (offset - first):
                        continue
                    if self._sound_size(offset, stop, since):
                        return int(offset)
            start += _SEARCH_SIZE
        return None

    def _sound_size(self, offset: int, end: int, since: int) -> int:
        """Return the size of the valid record at ``offset`` that ends by ``end``; 0 without one."""
        size, magic = head_at(self._files, offset)
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX:
            return 0
        if offset + size > end:
            return 0
        self._spent += size
        record = self._files.read(offset, size)
        if len(record) < size:
            return 0
        self._decoder.requires_record_crc = self._checked.covers(offset)
        gap = self._gap_at(offset)
        batch = self._decoder.decode(np.frombuffer(record, np.uint8), offset, gap=gap).batch
        sound = len(batch) == 1 and int(batch.store_timestamp[0]) >= since
        return size if sound else 0

    # ------------------------------------------------------------------ what a header tells

    def _store_timestamp(self, offset: int) -> int:
        size = self._sound_size(offset, self._files.capacity_end, 0)
        if not size:
            return 0
        record = np.frombuffer(self._files.read(offset, size), np.uint8)
        gap = self._gap_at(offset)
        return int(self._decoder.decode(record, offset, gap=gap).batch.store_timestamp[0])

    def damage(self, finding: Corruption, end: int, store_timestamp: int = 0) -> Damage:
        """Return the damage from a decoder's finding to ``end``, with what the header tells.

        Args:
            finding: the damage, and its place.
            end: physical offset after the damage.
            store_timestamp: of the record before or after it, ms; 0 if not known.
        """
        start = finding.physical_offset
        return Damage(
            start,
            end,
            finding.reason.name,
            finding.detail,
            *self._queue_place(start),
            store_timestamp=store_timestamp,
        )

    def _queue_place(self, start: int) -> tuple[str | None, int | None, int | None]:
        """Return topic, queue id and queue offset of a damaged record; None for unreadable ones."""
        start += self._gap_at(start)
        head = self._files.read(start, HEADER_SIZE + 2 * HOST_EXTRA_V6)
        if len(head) < HEADER_SIZE + 2 * HOST_EXTRA_V6:
            return None, None, None
        size, magic, _, queue_id, _, queue_offset, own, sys_flag, *_ = HEADER.unpack_from(head)
        if own != start or magic not in (MAGIC_V1, MAGIC_V2) or queue_id < 0 or queue_offset < 0:
            return None, None, None
        header_size = HEADER_SIZE
        header_size += HOST_EXTRA_V6 if sys_flag & BORN_HOST_V6 else 0
        header_size += HOST_EXTRA_V6 if sys_flag & STORE_HOST_V6 else 0
        body_size = int.from_bytes(head[header_size - 4 : header_size], "big", signed=True)
        if not 0 <= body_size <= size - header_size:
            return None, None, None
        width = 1 if magic == MAGIC_V1 else 2
        rest = self._files.read(start + header_size + body_size, width + 255)
        topic = rest[width : width + int.from_bytes(rest[:width], "big")]
        if _TOPIC.fullmatch(topic) is None:
            return None, None, None
        counts = sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
        return topic.decode(), queue_id, queue_offset if counts else None


def _can_be_filled(damages: list[Damage]) -> bool:
    """Whether none is smaller than a blank; damage that ends before a record never is."""
    return all(damage.size >= BLANK_MIN_SIZE for damage in damages)
