"""The log's own notes, in ``reput/state``: where it begins and ends, and where checksums are.

The entry ``.log`` (`reput.log.progress`) says how far the log is on disk, and if
it was closed. Every round of flushing writes it, and closing writes it last, with the mark that the
log ends there. So the next opening need not read the last file to its end, and notices if the last
record was changed. The mark counts until another writer opens the store. A writer of reput makes
the file ``abort`` first; every other writer changes the file ``checkpoint``, whose checksum the
mark has.

The other two notes count as long as reput was the last to write the store (`StoreLock.sign`).

The entry ``.head`` says where the log begins, as its files do not say whether there were older
ones. A writer notes it when it opens a store, and trimming before it removes a file. A log that
begins after the noted offset has lost files that nobody trimmed; RocketMQ removes old files, too,
and leaves no note. The flag 1 of the entry marks that plugins were not notified yet of files that
were trimmed. Both slots have the entry, so that a torn write does not bring back an older one; they
are written in place, so that trimming can write them on a full disk.

The value ``.checked`` of the journal says where every record has a checksum of its own. It is on
disk before the first record of a range is written, and before the first record after it. The range
that is being written has no end in the file. After another writer it ends where reput is known to
have written, as RocketMQ does not add the checksum unless its own option is on. The value is UTF-8
JSON: ``[[first, end], …]``, physical offsets, ascending; the last end may be null.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from reput.log.losses import GONE, Loss
from reput.log.progress import Progress, ProgressEntry, record_at
from reput.log.reader.batchreader import OPEN_END, CheckedRanges
from reput.log.reader.logreader import store_timestamp_of
from reput.log.recovery.checkpoint import AbortFile, Checkpoint
from reput.log.statefile import HEAD, LOG, StateFile

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reader.logview import LogView

logger = logging.getLogger(__name__)

CHECKED: Final = ".checked"
"""Name of the value that has the ranges of checksums."""
_RANGES_MAX: Final = 10_000


# --------------------------------------------------------------------------- its end


@attrs.frozen
class LastRecord:
    """The last record of a log that is on disk, as a note has it."""

    offset: int = -1
    """Where the record begins; -1 if there is none."""
    end_offset: int = 0
    fingerprint: int = 0
    """Its CRC-32."""
    store_timestamp: int = 0
    """Its store time, ms."""


@attrs.define(eq=False, slots=False)  # `checkpoint` is kept in the object's dictionary
class LogStateFile:
    """The note of one store, and the files of RocketMQ that say if it counts."""

    root: str
    disk: Disk
    state: StateFile
    """Has the notes of log and plugins."""
    file: ProgressEntry
    """The log's own entry."""
    abort: AbortFile
    last: LastRecord = LastRecord()
    """What `flush` has noted last."""

    @classmethod
    def of(cls, root: str, disk: Disk, unreadable: Callable[[OSError], None] | None = None) -> Self:
        """Return the note of the store at ``root``; see `StateFile` for ``unreadable``."""
        abort = AbortFile(os.path.join(root, "abort"), disk)
        state = StateFile.of(root, disk, unreadable)
        return cls(root, disk, state, ProgressEntry(state, LOG), abort)

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """The store's checkpoint, read once only: nobody else writes the file meanwhile."""
        return Checkpoint.load(os.path.join(self.root, "checkpoint"), self.disk)

    def save_checkpoint(self, changed: Checkpoint) -> None:
        """Write the checkpoint durably, if it differs."""
        if changed != self.checkpoint:
            path = os.path.join(self.root, "checkpoint")
            self.checkpoint = changed.save(path, self.disk)

    def closed(self) -> Progress | None:
        """Return where the log ended as it was closed; None if it was not, or was written since."""
        place = next(iter(self.file.known()), None)
        if place is None or place.closed is None:
            return None
        if self.abort.present and not self.abort.left_on_purpose:
            return None
        return place if place.closed == self.checkpoint.crc else None

    def flushed(self, log: LogView, record_offset: int) -> dict[str, bytes]:
        """Return the entry of a log that is on disk up to the end of the record at an offset."""
        self._read(log, record_offset)
        last = self.last
        if last.offset < 0:
            return {}
        return {LOG: Progress(last.end_offset, last.offset, last.fingerprint).packed()}

    def begin(self, offset: int, record: bytes) -> None:
        """Note the last record of a log that another program wrote, in place of earlier notes.

        They may be of a record that stands after the log's end: others do not clear what they cut.
        """
        place = Progress(offset + len(record), offset, zlib.crc32(record))
        self.state.save_in_both({LOG: place.packed()})

    def close(
        self, log: LogView, record_offset: int, others: Mapping[str, bytes] | None = None
    ) -> None:
        """Note that a log is closed.

        Args:
            log: the log, which is flushed and takes no more puts.
            record_offset: where its last record begins; -1 in an empty log.
            others: other entries to write with it.
        """
        self._read(log, record_offset)
        end, fingerprint = log.max_physical_offset, self.last.fingerprint
        place = Progress(end, record_offset, fingerprint, self.checkpoint.crc)
        self.state.save({**(others or {}), LOG: place.packed()})

    def _read(self, log: LogView, record_offset: int) -> None:
        """Read the record at an offset, which is the log's last one, unless that was done."""
        if record_offset == self.last.offset:
            return
        self.last, record = LastRecord(), record_at(log, record_offset)
        if record:
            end, timestamp = record_offset + len(record), max(store_timestamp_of(record), 0)
            self.last = LastRecord(record_offset, end, zlib.crc32(record), timestamp)


# --------------------------------------------------------------------------- its beginning


@attrs.define(eq=False)
class LogHead:
    """The note of where one store's log begins."""

    state: StateFile
    is_writer: bool = False
    """Whether no other process changes the note meanwhile."""
    entry: ProgressEntry = attrs.field(init=False)

    @entry.default
    def _entry(self) -> ProgressEntry:
        return ProgressEntry(self.state, HEAD)

    @property
    def recorded_offset(self) -> int | None:
        """Physical offset at which the log begins, or before it; None if that is not known."""
        places = self.entry.known() if self.is_writer else self.entry.load_all()
        return places[0].physical_offset if places else None

    def note(self, physical_offset: int, *, trims: bool = False) -> None:
        """Note that the log may begin at an offset; on disk, in both slots, when this returns.

        Args:
            physical_offset: where the log begins.
            trims: whether files are about to be removed, of which plugins must be notified.
        """
        known = self.entry.known()
        noted = Progress(physical_offset, closed=0 if trims or _is_marked(known) else None)
        if known != [noted, noted]:
            self.state.save_in_both({HEAD: noted.packed()})

    @property
    def must_notify(self) -> bool:
        """Whether a plugin may not have been notified of removed files."""
        return _is_marked(self.entry.known())

    def notified(self) -> None:
        """Note that all plugins were notified; an older slot may still say the contrary."""
        if _is_marked(known := self.entry.known()):
            self.entry.save(Progress(known[0].physical_offset))

    def loss(self, min_physical_offset: int) -> Loss | None:
        """Return what a log that begins at ``min_physical_offset`` has lost; None for nothing.

        For a store that reput was the last to write. Call it with an offset that was read before:
        trimming writes the note first, and then removes files.
        """
        recorded = self.recorded_offset
        if recorded is None or recorded >= min_physical_offset:
            return None
        detail = "the first files of the log are gone, and nobody has trimmed them"
        return Loss(recorded, min_physical_offset, GONE, detail)


def _is_marked(places: Sequence[Progress]) -> bool:
    return bool(places) and places[0].closed is not None


# --------------------------------------------------------------------------- its checksums


@attrs.define(eq=False)
class CheckedNote:
    """The note of where every record of one store's log has a checksum of its own."""

    state: StateFile
    """Has the note."""

    @property
    def recorded(self) -> CheckedRanges:
        """The ranges in the file, as it was read last; none if they cannot be read."""
        text = self.state.value(CHECKED)
        if not text:
            return CheckedRanges()
        try:
            return CheckedRanges(_ranges(json.loads(text)))
        except (ValueError, TypeError, RecursionError) as error:
            logger.warning("ranges of checksums ignored error=%s", error)
        return CheckedRanges()

    def load(self, *, reput_wrote_last: bool) -> CheckedRanges:
        """Return the ranges that count.

        Args:
            reput_wrote_last: whether no other program has opened the store for writing since.
        """
        recorded = self.recorded
        if reput_wrote_last or not recorded.ranges or recorded.ranges[-1][1] < OPEN_END:
            return recorded
        flushed = next(iter(ProgressEntry(self.state, LOG).known()), None)
        return recorded.until(0 if flushed is None else flushed.physical_offset)

    def save(self, checked: CheckedRanges) -> None:
        """Write the ranges if the file has others."""
        if checked != self.recorded:
            ranges = [[start, None if end >= OPEN_END else end] for start, end in checked.ranges]
            self.state.note({CHECKED: json.dumps(ranges).encode() if ranges else b""})


def _ranges(rows: list[Any]) -> tuple[tuple[int, int], ...]:
    if len(rows) > _RANGES_MAX:
        raise ValueError("too many")
    found = tuple((start, OPEN_END if end is None else end) for start, end in rows)
    if not all(type(each) is int and 0 <= each <= OPEN_END for row in found for each in row):
        raise ValueError("not physical offsets")
    return found
