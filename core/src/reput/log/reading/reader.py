"""Reading the commit log: bytes, single records, and scans of decoded windows.

`LogReader` serves a store of ours that is being written and one that another process writes:
the latter's end is found by looking behind the last record known, each time somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from reput.errors import CorruptFileError
from reput.files.mapped import MappedFileQueue
from reput.files.names import file_name
from reput.locks import new_lock
from reput.log.reading.holes import DamagedRange, SoundRecordFinder
from reput.log.reading.windows import BatchReader, PrefetchingReader
from reput.record.batch import Corruption, CorruptionKind
from reput.record.decode import RECORD_SIZE_MAX, Decoder, DecodeResult, End
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HEADER,
    HEADER_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    host_size,
)
from reput.record.view import MessageView, message_at

if TYPE_CHECKING:
    from reput.log.losses import Loss, LossLedger
    from reput.record.batch import DispatchBatch

__all__ = ["LogEnd", "LogReader"]

_DAMAGE_SIZE = 65_536
_HEAD_READ_SIZE = 80  # reaches the store timestamp of any record


@attrs.frozen
class LogEnd:
    """Where a log ends, as far as that is known."""

    offset: int = 0
    """Physical offset after the last whole record."""
    last_record_offset: int = -1
    """Where that record begins; -1 where none is known."""
    last_store_timestamp: int = 0
    """Its store time, ms; 0 where it is not known. What is older and stands after the end was left
    there by a log that was cut."""
    is_damaged: bool = False
    """Whether something stands there that is not to be taken for a record."""


class LogReader:
    """The commit log for whoever only reads; see `reput.log.LogView`. Thread-safe."""

    def __init__(
        self,
        files: MappedFileQueue,
        window_size: int,
        *,
        ledger: LossLedger | None = None,
        end: LogEnd | None = None,
        holes: Sequence[DamagedRange] = (),
        keeps_records_after_damage: bool = True,
        follows: bool = False,
    ) -> None:
        """Read what is in ``files``.

        Args:
            files: of the log, loaded.
            window_size: bytes that are read at once.
            ledger: what is known to be lost; None where nobody asks.
            end: where the log ends; found by `set_end` later when left out.
            holes: damage before that end, which is passed over.
            keeps_records_after_damage: whether sound records after a damaged range are kept. If
                false, the log ends at the damage.
            follows: whether another process may be writing, so that the end must be looked for.
        """
        self.files = files
        self.follows = follows
        self.holes = tuple(holes)
        self.ledger = ledger
        self.keeps_records_after_damage = keeps_records_after_damage
        self._window_size = window_size
        self._end_offset = 0
        self._last_timestamp = 0
        self._damage = b""
        """What stood at the end when it was set, if that was damage: no record while it stays."""
        self._follow_lock = new_lock()
        if end is not None:
            self.set_end(
                end.offset,
                damaged=end.is_damaged,
                last_store_timestamp=end.last_store_timestamp,
            )

    # ------------------------------------------------------------------ extent

    @property
    def file_size(self) -> int:
        """Bytes of one file."""
        return self.files.file_size

    @property
    def file_count(self) -> int:
        """Files of the log."""
        return len(self.files.bases)

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins: at its first file."""
        if self.follows and not self.files.has_first():
            self.files.refresh()
        return self.files.min_offset

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends: behind the last whole record."""
        if self.follows:
            self._follow()
        return self._end_offset

    @property
    def last_store_timestamp(self) -> int:
        """Store time of the last record in front of the end, ms; 0 where it is not known."""
        return self._last_timestamp

    def set_end(
        self, end_offset: int, *, damaged: bool = False, last_store_timestamp: int = 0
    ) -> None:
        """Make ``end_offset`` the known end of the log.

        Args:
            end_offset: the end.
            damaged: something stands behind it that is not to be taken for a record.
            last_store_timestamp: store time of the record in front of it, ms; 0 for unknown. What
                is older and stands behind the end was left there by a log that was cut.
        """
        self._end_offset = end_offset
        self._last_timestamp = last_store_timestamp
        self._damage = self.files.read(end_offset, _DAMAGE_SIZE) if damaged else b""

    def _follow(self) -> None:
        """Look for records that another process wrote behind the end that is known."""
        if not self._anything_at(self._end_offset):
            return
        if self._damage and self.files.read(self._end_offset, _DAMAGE_SIZE) == self._damage:
            return
        with self._follow_lock:
            reader = self.window_reader(check_crc=True)
            while True:
                if self._end_offset < self.files.min_offset:
                    # All that was known is gone; every file begins with a record or with nothing.
                    self._end_offset = self.files.min_offset
                result = reader.read(self._end_offset)
                end_offset = result.batch.end_offset
                if len(result.batch):
                    self._last_timestamp = int(result.batch.store_timestamp[-1])
                if result.end == End.BLANK and self.files.base_of(end_offset) is None:
                    self.files.refresh()
                    if end_offset < self.files.min_offset:
                        self._end_offset = self.files.min_offset
                        continue
                    if self.files.base_of(end_offset) is None:
                        # The next file is not there yet: the log ends in front of the blank.
                        self._end_offset = max(self._end_offset, _last_end(result.batch))
                        return
                if result.end == End.BAD:
                    end_offset = self._follow_behind(result, reader)
                if end_offset == self._end_offset:
                    return
                self._end_offset = end_offset
                if result.end == End.EMPTY:
                    return

    def _follow_behind(self, result: DecodeResult, reader: BatchReader) -> int:
        """Where another process's log goes on behind damage; in front of it when it does not."""
        batch = result.batch
        if not self.keeps_records_after_damage or not self.size_at(batch.end_offset):
            return batch.end_offset  # a writer writes a record's size last
        holes = self.hole_finder().holes_at(
            batch.end_offset, batch.finding, after=self._last_timestamp
        )
        if not holes or len(reader.read(batch.end_offset).batch):
            return batch.end_offset  # in the second case it was being written when we looked
        self.holes += tuple(holes)
        return holes[-1].end_offset

    def _anything_at(self, offset: int) -> bool:
        if self.files.base_of(offset) is None:
            self.files.refresh()
            if offset < self.files.min_offset:
                return True
        head = self.files.read(offset, 4)
        return len(head) == 4 and head != b"\0\0\0\0"

    # ------------------------------------------------------------------ reading

    def read(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log; fewer than ``size``, or none, where it does not hold them.

        Never crosses the end of a file, as no record does.
        """
        left = self._end_offset - physical_offset
        if left < size:
            left = self.max_physical_offset - physical_offset
        return self.files.read(physical_offset, min(size, left)) if left > 0 else b""

    def read_message(self, physical_offset: int, size: int = 0) -> MessageView | None:
        """The record at an offset that is known to be a record's; None when there is no such one.

        What stands there must have the size that is asked for, a record's magic, and the offset
        as its own; the checksum is not verified (`MessageView.body_matches`).
        """
        if size <= 0:
            head = self.read(physical_offset, SIZE_AND_MAGIC.size)
            if len(head) < SIZE_AND_MAGIC.size:
                return None
            size, _ = SIZE_AND_MAGIC.unpack(head)
        if not RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX:
            return None
        record = self.read(physical_offset, size)
        return message_at(record, physical_offset) if len(record) == size else None

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Store time of the record at that offset, ms; -1 when there is none."""
        return _store_timestamp(self.read(physical_offset, _HEAD_READ_SIZE))

    def store_timestamp_in_files(self, physical_offset: int) -> int:
        """Like `store_timestamp_at`, before anybody knows where the log ends."""
        return _store_timestamp(self.files.read(physical_offset, _HEAD_READ_SIZE))

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """See `reput.log.LogView.scan`."""
        reader = self.window_reader(check_crc=check_crc, check_record_crc=check_crc)
        position = self.min_physical_offset if start is None else start
        stop = self.max_physical_offset if end is None else min(end, self.max_physical_offset)
        while position < stop:
            known = next((each for each in self.holes if each.end_offset > position), None)
            limit = stop if known is None else max(min(stop, known.start_offset), position)
            if limit > position:
                result = reader.read(position, limit)
                batch = result.batch
                position = batch.end_offset
                is_damage = result.end in (End.BAD, End.EMPTY)
                is_damage = is_damage or (len(batch) == 0 and result.end == End.WINDOW)
                if is_damage and position < self.min_physical_offset:
                    position = self.min_physical_offset  # no damage: the log just lost its head
                elif is_damage:
                    hole = self.hole_at(position, limit, batch.finding)
                    position = max(hole.end_offset, position + 1)
                    batch.finding = hole.finding
            else:
                batch = reader.read(position).batch[:0]
                batch.finding = None  # what is known of the hole counts, and leads past it
            # Damage right in front of a known hole is another one, and so is told alone.
            if known is not None and position == known.start_offset and batch.finding is None:
                position = known.end_offset
                batch.finding = known.finding
            if len(batch) or batch.finding is not None:
                yield batch

    def window_reader(
        self, *, check_crc: bool = False, check_record_crc: bool = False
    ) -> BatchReader:
        """A reader of decoded windows, for one thread."""
        decoder = Decoder(check_crc=check_crc, check_record_crc=check_record_crc)
        return BatchReader(self.files, decoder, self._window_size)

    def check_names(self) -> None:
        """Refuse files whose records say that they are another file: the first and the last ones.

        Raises:
            CorruptFileError: the first two records of a file agree on another place.
        """
        bases = self.files.bases
        for base in dict.fromkeys((*bases[:1], *bases[-2:])):
            stated = self._stated_base(base)
            if stated != base:
                raise CorruptFileError(
                    self.files.path(base),
                    0,
                    f"its records say that it is {file_name(stated)}; give it that name back, or "
                    "move it away if it is not part of the store",
                )

    def _stated_base(self, base: int) -> int:
        """Where the file begins by its first two records; ``base`` where they do not agree."""
        stated, position = [], 0
        for _ in range(2):
            head = self.files.read(base + position, HEADER_SIZE)
            if len(head) < HEADER_SIZE:
                return base
            size, magic, _, _, _, _, own, *_ = HEADER.unpack(head)
            if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_MIN_SIZE <= size <= self.file_size:
                return base
            stated.append(own - position)
            position += size
        first, second = stated
        return first if first == second and first >= 0 and first % self.file_size == 0 else base

    # ------------------------------------------------------------------ damage

    def size_at(self, offset: int) -> int:
        """What stands where a record's size would; 0 where nothing does."""
        return int.from_bytes(self.files.read(offset, 4), "big")

    def hole_finder(self) -> SoundRecordFinder:
        """Looks for sound records, for one thread."""
        return SoundRecordFinder(self.files)

    def hole_at(self, start: int, stop: int, finding: Corruption | None = None) -> DamagedRange:
        """The damage at ``start`` and the place where the log goes on behind it, ``stop`` at most.

        Args:
            start: where a record should begin and none does.
            stop: the log's end, or a record's beginning.
            finding: what the decoder says of it; None for zeros.
        """
        holes = self.hole_finder().holes_at(start, finding, stop)
        if not holes:
            finding = finding or Corruption(start, CorruptionKind.BAD_MAGIC, "the file is gone")
            # Records begin where the next file does, as none crosses the end of one.
            following = self.files.base_after(start)
            return DamagedRange(start, stop if following is None else min(following, stop), finding)
        return attrs.evolve(holes[0], end_offset=holes[-1].end_offset)

    def next_record(self, start: int, end: int) -> int:
        """Offset of the first sound record at ``start`` or behind it; ``end`` when there is none.

        Behind damage there is no border to go by: what counts as a record has the magic, states
        its own offset, is consistent, and its body matches its checksum.
        """
        found = self.hole_finder().next_record(start, end)
        return end if found is None else found

    def losses(self, start: int, end: int) -> tuple[Loss, ...]:
        """See `reput.log.LogView.losses`."""
        return () if self.ledger is None else self.ledger.between(start, end)

    def note_loss(
        self,
        start: int,
        end: int,
        finding: Corruption | None = None,
        hole: DamagedRange | None = None,
    ) -> None:
        """Note in the ledger that ``[start, end)`` was passed over; once, however often it is.

        Args:
            start: where a record should begin and none does.
            end: where the log goes on.
            finding: what stands there; None for zeros.
            hole: what `hole_at` found there, where it was asked.
        """
        if self.ledger is None:
            return
        if hole is None:
            hole = self.hole_at(start, end, finding)
        self.ledger.note(skipped(attrs.evolve(hole, end_offset=end)))

    def ask_to_wake(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called at the next append; a log that is only read has none."""

    def read_ahead(self) -> PrefetchingReader:
        """A reader of decoded windows that reads one ahead, for one thread."""
        return PrefetchingReader((self.window_reader(), self.window_reader()), self._window_size)

    def path_of(self, physical_offset: int) -> tuple[str, int]:
        """File and file position of a physical offset, for error texts."""
        base = self.files.base_of(physical_offset)
        if base is None:
            return self.files.directory, 0
        return self.files.path(base), physical_offset - base


def _store_timestamp(head: bytes) -> int:
    if len(head) < _HEAD_READ_SIZE:
        return -1
    _, magic = SIZE_AND_MAGIC.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return -1
    at = BORN_HOST_POSITION + host_size(int.from_bytes(head[36:40], "big"), BORN_HOST_V6)
    return int.from_bytes(head[at : at + 8], "big", signed=True)


def _last_end(batch: DispatchBatch) -> int:
    """Physical offset behind the last record, whatever followed it."""
    if len(batch) == 0:
        return 0
    return batch.base_offset + int(batch.start[-1] + batch.size[-1])


def skipped(hole: DamagedRange) -> Loss:
    """The ledger's entry for damage that stays as it is."""
    from reput.log.losses import SKIPPED, Loss

    return Loss(
        hole.start_offset,
        hole.end_offset,
        hole.finding.reason.name,
        hole.finding.detail,
        hole.topic,
        hole.queue_id,
        hole.queue_offset,
        SKIPPED,
    )
