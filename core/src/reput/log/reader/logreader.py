"""`LogReader` reads the commit log: bytes, single records, and scans of decoded windows.

It serves a store that this process writes, and a store that another process writes
(`ExternalLogEnd`). `StoreLog` is the log of an open store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from reput.errors import CorruptFileError
from reput.files.filenames import file_name
from reput.files.mappedfilequeue import MappedFileQueue
from reput.files.system.vectoredread import PLACE, extent_of
from reput.log.losses import Damage, Loss
from reput.log.reader.batchreader import (
    BatchReader,
    CheckedRanges,
    PrefetchingReader,
    border_of,
)
from reput.log.reader.logend import ExternalLogEnd, LogEnd
from reput.log.reader.logwalk import LogWalk, NextRecord
from reput.log.reader.resync import NextRecordFinder
from reput.record.batch import Corruption, CorruptionKind, DispatchBatch
from reput.record.decode import RECORD_SIZE_MAX, Decoder
from reput.record.entries import ENTRY_HEAD_SIZE
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HEADER,
    HEADER_SIZE,
    HOST_SIZE,
    HOST_SIZE_V6,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
)
from reput.record.messageview import MessageView, message_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from reput.files.readmap import MappedPart
    from reput.log.config import CommitLogConfig
    from reput.log.losses import LossLedger
    from reput.log.reader.logend import Tail

_FIRST_READ_SIZE = 4096  # bytes: most records are shorter
_LARGE_SIZE = 1 << 20  # bytes of a record; more only where its own size word states them
_HEAD_READ_SIZE = 80  # reaches the store timestamp of any record


class Ending(Protocol):
    """Knows where a log ends."""

    end_offset: int
    """Physical offset after the last whole record."""


class LogReader:
    """Reads the commit log; implements `reput.log.LogView`. Thread-safe."""

    def __init__(
        self,
        files: MappedFileQueue,
        window_size: int,
        *,
        ledger: LossLedger | None = None,
        end: LogEnd | None = None,
        damages: Sequence[Damage] = (),
        keeps_records_after_damage: bool = True,
        follows: bool = False,
        appender: Ending | None = None,
        tail: Tail | None = None,
        checked: CheckedRanges | None = None,
    ) -> None:
        """Read the log in ``files``.

        Args:
            files: the log's files, loaded.
            window_size: bytes that are read at once.
            ledger: the known losses; None if they are not needed.
            end: where the log ends; set later by `set_end` when left out.
            damages: damage before the end, which scans skip.
            keeps_records_after_damage: whether sound records after damage are kept. If false, the
                log ends at the damage.
            follows: whether another process may be writing, so that the end must be searched for.
            appender: knows where the log ends that this process writes; None for another log.
            tail: judges the last record while another process may be writing; None if every record
                is whole as soon as its size is there.
            checked: ranges in which each record has a checksum of its own; None for none.
        """
        self.files = files
        self.file_size = files.file_size
        """Bytes of one file."""
        self.follows = follows
        self.ledger = ledger
        self.keeps_records_after_damage = keeps_records_after_damage
        self.checked = CheckedRanges() if checked is None else checked
        self._window_size = window_size
        self._beside = ExternalLogEnd(self, tail, damages)
        self._ending: Ending = self._beside if appender is None else appender
        if end is not None:
            self._beside.set(end)

    # ------------------------------------------------------------------ extent

    @property
    def file_count(self) -> int:
        """Files of the log."""
        return len(self.files.bases)

    @property
    def file_offsets(self) -> Sequence[int]:
        """Physical offsets at which the files begin, ascending."""
        return self.files.bases

    @property
    def min_physical_offset(self) -> int:
        """See `reput.log.LogView.min_physical_offset`."""
        if self.follows and not self.files.has_first():
            self.files.refresh()
        bases = self.files.bases
        return bases[0] if bases else 0

    @property
    def max_physical_offset(self) -> int:
        """Physical offset at which the log ends: after its last whole record."""
        if self.follows:
            self._beside.look()
        return self._ending.end_offset

    @property
    def last_store_timestamp(self) -> int:
        """Store time of the last record before the end, ms; 0 if not known."""
        return self._beside.last_store_timestamp

    @property
    def damages(self) -> tuple[Damage, ...]:
        """Damage before the end that is known, in the log's order; scans skip it."""
        return self._beside.damages

    def set_end(self, end_offset: int, *, last_store_timestamp: int = 0) -> None:
        """Make ``end_offset`` the known end of the log.

        Args:
            end_offset: the end.
            last_store_timestamp: store time of the record before it, ms; 0 for unknown. Older
                records after the end are remainders of a log that was cut.
        """
        self._beside.set(LogEnd(end_offset, last_store_timestamp=last_store_timestamp))

    def holds_back(self, physical_offset: int) -> bool:
        """Whether the log has a record there that is not known to be whole yet."""
        return self._beside.holds_back(physical_offset)

    def settle(self, last_record_offset: int = -1) -> None:
        """See `ExternalLogEnd.settle`."""
        self._beside.settle(last_record_offset)

    # ------------------------------------------------------------------ reading

    def read(self, physical_offset: int, size: int) -> bytes:
        """See `reput.log.LogView.read`."""
        left = self._ending.end_offset - physical_offset
        if left < size and self.follows:
            left = self.max_physical_offset - physical_offset
        return self.files.read(physical_offset, min(size, left)) if left > 0 else b""

    def read_records(
        self,
        places: bytes | memoryview,
        stride: int,
        max_count: int,
        max_bytes: int,
        together: int = 0,
    ) -> list[bytes]:
        """See `reput.log.LogView.read_records`."""
        whole = len(places) - len(places) % stride
        if not whole:
            return []
        offset, size = PLACE.unpack_from(places, min(whole, max_count * stride) - stride)
        limit = self._ending.end_offset
        if offset + size > limit:
            limit = self.max_physical_offset
        read = self.files.read_many
        found, done = read(limit, places, stride, _LARGE_SIZE, max_count, max_bytes, together)
        while done < max_count and done * stride < whole:
            # What follows is large, stands in another file, or is not to be had.
            left = max_bytes - sum(map(len, found))
            rest = places[done * stride :]
            offset, size = PLACE.unpack_from(rest)
            is_large = _LARGE_SIZE < size <= RECORD_SIZE_MAX
            if size > left if found else not is_large:
                break
            if not self._states(offset, size):
                break
            count, size_max = (1, size) if is_large else (max_count - done, _LARGE_SIZE)
            more, count = read(limit, rest, stride, size_max, count, left, together)
            if not more:
                break
            found += more
            done += count
        return found

    def map_records(
        self, places: bytes | memoryview, stride: int, max_count: int, max_bytes: int
    ) -> tuple[npt.NDArray[np.uint8], int] | None:
        """See `reput.log.LogView.map_records`."""
        limit, ranges = self._ending.end_offset, self.checked.ranges
        found = self.files.mapped(limit, places, stride, max_count, max_bytes)
        if found is None or not ranges:
            return found
        count = min(max_count, len(places) // stride)
        first, end, _ = extent_of(places, stride, count, max_bytes)
        return None if any(low < end and first < high for low, high in ranges) else found

    def mapped(self) -> tuple[int, tuple[MappedPart, ...]]:
        """See `reput.log.LogView.mapped`."""
        return self._ending.end_offset, () if self.checked.ranges else self.files.maps.parts

    def read_message(self, physical_offset: int, size: int = 0) -> MessageView | None:
        """Return the record at the physical offset of a record; None without one.

        The record must have ``size`` if given, a record's magic, and state that offset as its own;
        its checksum is not verified (`MessageView.body_matches`).
        """
        record = b""
        if size <= 0:
            record = self.read(physical_offset, _FIRST_READ_SIZE)
            if len(record) < SIZE_AND_MAGIC.size:
                return None
            size, _ = SIZE_AND_MAGIC.unpack_from(record)
        if not RECORD_MIN_SIZE <= size <= RECORD_SIZE_MAX or not self._states(
            physical_offset, size
        ):
            return None
        record = record[:size] if size <= len(record) else self.read(physical_offset, size)
        return message_at(record, physical_offset) if len(record) == size else None

    def _states(self, physical_offset: int, size: int) -> bool:
        """Whether the log states that size, too; asked for large ones, before memory is taken."""
        return size <= _LARGE_SIZE or self.size_at(physical_offset) == size

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Return the store time of the record at that offset, ms; -1 without one.

        An entry may begin there, as it does where a file begins.
        """
        timestamp = store_timestamp_of(self.read(physical_offset, _HEAD_READ_SIZE))
        if timestamp >= 0 or physical_offset < self.files.entries_from:
            return timestamp
        return store_timestamp_of(self.read(physical_offset + ENTRY_HEAD_SIZE, _HEAD_READ_SIZE))

    def store_timestamp_in_files(self, physical_offset: int) -> int:
        """Do the same as `store_timestamp_at`, while the log's end is not known yet."""
        if physical_offset >= self.files.entries_from:
            border = border_of(self.files, physical_offset)
            physical_offset = border + ENTRY_HEAD_SIZE
        return store_timestamp_of(self.files.read(physical_offset, _HEAD_READ_SIZE))

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """See `reput.log.LogView.scan`."""
        reader = self.window_reader(check_crc=check_crc, check_record_crc=check_crc)
        position = self.min_physical_offset if start is None else start
        stop = self.max_physical_offset if end is None else min(end, self.max_physical_offset)
        position, stop = border_of(self.files, position), border_of(self.files, stop)
        batch = None
        for found in LogWalk(reader, position, _Within(self, stop), stop, follows=self.follows):
            if isinstance(found, DispatchBatch):
                batch = found
            elif batch is not None and batch.finding is None:  # else it was reported
                batch = batch[len(batch) :]
                batch.finding = found.finding
            else:
                continue
            if len(batch) or batch.finding is not None:
                yield batch

    def window_reader(
        self,
        *,
        check_crc: bool = False,
        check_record_crc: bool = False,
        window_size: int | None = None,
    ) -> BatchReader:
        """Return a reader of decoded windows, for one thread; the size is usually the log's."""
        decoder = Decoder(check_crc=check_crc, check_record_crc=check_record_crc)
        checked = self.checked if check_record_crc else None
        size = self._window_size if window_size is None else min(window_size, self._window_size)
        return BatchReader(self.files, decoder, size, checked)

    # ------------------------------------------------------------------ damage

    def size_at(self, offset: int) -> int:
        """Return the four bytes at ``offset`` as a record's size; 0 if unwritten."""
        return int.from_bytes(self.files.read(offset, 4), "big")

    def finder(self) -> NextRecordFinder:
        """Return a finder of valid records, for one thread."""
        return NextRecordFinder(self.files, self.checked)

    def must_have_crc(self, physical_offset: int) -> bool:
        """See `reput.log.LogView.must_have_crc`."""
        return bool(self.checked.ranges) and self.checked.covers(physical_offset)

    def damage_at(self, start: int, stop: int, finding: Corruption | None = None) -> Damage:
        """Return the damage at ``start``, up to where the log continues, ``stop`` at most.

        Args:
            start: where a record should begin, but none does.
            stop: the log's end, or a record's beginning.
            finding: the decoder's finding there; None for zeros.
        """
        finder = self.finder()
        damages = finder.damages_at(start, finding, stop)
        if not damages:
            finding = finding or Corruption(start, CorruptionKind.BAD_MAGIC, "the file is gone")
            # A record begins where the next file does, as no record crosses the end of a file.
            following = self.files.base_after(start)
            return finder.damage(finding, stop if following is None else min(following, stop))
        return attrs.evolve(damages[0], end_offset=damages[-1].end_offset)

    def next_record(self, start: int, end: int) -> int:
        """Return the offset of the first sound record from ``start`` on; ``end`` without one.

        A valid record has the magic, states its own offset, is consistent, and its body matches its
        checksum.
        """
        found = self.finder().next_record(start, end)
        return end if found is None else found

    def losses(self, start: int, end: int) -> tuple[Loss, ...]:
        """See `reput.log.LogView.losses`."""
        return () if self.ledger is None else self.ledger.between(start, end)

    def note_loss(self, damage: Damage) -> None:
        """Note in the ledger that readers skip ``damage``; the same range is noted once."""
        if self.ledger is not None:
            self.ledger.note(Loss.of(damage))

    def read_ahead(self) -> PrefetchingReader:
        """Return a reader of decoded windows that prefetches the next ones, for one thread."""
        return PrefetchingReader(self.window_reader, self._window_size)

    def path_of(self, physical_offset: int) -> tuple[str, int]:
        """Return file and file position of a physical offset, for error texts."""
        base = self.files.base_of(physical_offset)
        if base is None:
            return self.files.directory, 0
        return self.files.path(base), physical_offset - base


@attrs.frozen
class _Within:
    """Reads up to a known end: anything else than a record before it is damage."""

    log: LogReader
    stop: int

    def limit(self, position: int) -> int:
        """Read up to the next damage that is known already."""
        known = self._known(position)
        return self.stop if known is None else max(min(self.stop, known.start_offset), position)

    def past(self, at: int, finding: Corruption | None) -> NextRecord:
        """Skip the damage at ``at``."""
        known = self._known(at)
        if known is not None and known.start_offset <= at:
            return NextRecord(known.end_offset, (known,))
        damage = self.log.damage_at(at, self.limit(at), finding)
        return NextRecord(max(damage.end_offset, at + 1), (damage,))

    def _known(self, position: int) -> Damage | None:
        return next((each for each in self.log.damages if each.end_offset > position), None)


def store_timestamp_of(head: bytes) -> int:
    """Return the store time of the record that begins with ``head``, ms; -1 if it is none."""
    if len(head) < _HEAD_READ_SIZE:
        return -1
    _, magic = SIZE_AND_MAGIC.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return -1
    is_v6 = int.from_bytes(head[36:40], "big") & BORN_HOST_V6
    at = BORN_HOST_POSITION + (HOST_SIZE_V6 if is_v6 else HOST_SIZE)
    return int.from_bytes(head[at : at + 8], "big", signed=True)


def check_names(files: MappedFileQueue) -> None:
    """Check that the first file and the last two have the names that their records state.

    Raises:
        CorruptFileError: the first two records of a file agree on another offset.
    """
    bases = files.bases
    for base in dict.fromkeys((*bases[:1], *bases[-2:])):
        stated = _stated_base(files, base)
        if stated != base:
            raise CorruptFileError(
                files.path(base),
                0,
                f"its records say that it is {file_name(stated)}; give it that name back, or "
                "move it away if it is not part of the store",
            )


def _stated_base(files: MappedFileQueue, base: int) -> int:
    """Return the file's base by its first two records; ``base`` if they do not agree."""
    gap = ENTRY_HEAD_SIZE if base >= files.entries_from else 0
    stated, position = [], gap
    data = files.read(base, _FIRST_READ_SIZE)  # most often both headers
    for _ in range(2):
        if position + HEADER_SIZE <= len(data):
            head = data[position : position + HEADER_SIZE]
        else:
            head = files.read(base + position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return base
        size, magic, _, _, _, _, own, *_ = HEADER.unpack(head)
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_MIN_SIZE <= size <= files.file_size:
            return base
        stated.append(own - position)
        position += size + gap
    first, second = stated
    return first if first == second and first >= 0 and first % files.file_size == 0 else base


class StoreLog(LogReader):
    """The log of a read-only store; `reput.log.writer.commitlog.CommitLog` is a writable store's.

    Args: those of `LogReader`, and
        config: the log's options.
        master: whose bytes the log is fed with; None if it takes puts.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        config: CommitLogConfig,
        *,
        end: LogEnd,
        ledger: LossLedger | None = None,
        damages: Sequence[Damage] = (),
        tail: Tail | None = None,
        checked: CheckedRanges | None = None,
        master: str | None = None,
        appender: Ending | None = None,
    ) -> None:
        super().__init__(
            files,
            config.window_size,
            ledger=ledger,
            end=end,
            damages=damages,
            keeps_records_after_damage=config.recovery == "reput",
            follows=appender is None,
            appender=appender,
            tail=tail,
            checked=checked,
        )
        self.config = config
        self.master = master
        """Name of the master of a replica; None in a store that takes puts."""
        self._end = end

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything counts as on disk."""
        return self._end.offset

    @property
    def last_record_offset(self) -> int:
        """Where the newest record begins, at the opening of a read-only store; -1 if not known."""
        return self._end.last_record_offset

    @property
    def queue_offsets(self) -> dict[tuple[str, int], int] | None:
        """The next queue offset of every queue; None if no put of this process gives any."""
        return None

    def hide_light_queues(self, ends: Mapping[str, int]) -> None:
        """See `reput.plugin.StoreContext.hide_light_queues`: no put counts them."""

    def flush_facts(self) -> dict[str, Any]:
        """Return facts about waits for the disk; none of a log that is only read."""
        return {}
