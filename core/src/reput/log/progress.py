"""`StateFile`: what moves with each flush, of the log and of all plugins: ``reput/state``.

The file has two slots of equal size, written in turn, so that a torn write leaves the other slot.
All entries of a slot are written at once: they never disagree. Integers are big-endian:

    0       4         6       8          16     20
    +-------+---------+-------+----------+------+---------+-----+
    | magic | version | count | sequence | size | entries | crc |
    +-------+---------+-------+----------+------+---------+-----+

    an entry:
    0   1      1+n       9+n      13+n
    +---+------+---------+--------+-------+
    | n | name | changed | length | value |
    +---+------+---------+--------+-------+

The size is that of header and entries, in bytes; ``crc`` is the CRC-32 of them. ``changed`` is the
sequence of the slot in which the value changed last. A slot takes a page of 4096 bytes, or more if
the entries need it: the file is replaced as a whole then.

The entry ``.log`` says how far the log is on disk, ``.head`` where it begins, and the entry with a
plugin's name how far the plugin's files are: each is a progress of 25 bytes. The entry
``NAME/state`` is a plugin's record, in JSON (`StoredPluginStates`).

    a progress:
    0       1                 9               17            21       25
    +-------+-----------------+---------------+-------------+--------+
    | flags | physical offset | record offset | fingerprint | closed |
    +-------+-----------------+---------------+-------------+--------+

The flag 1 marks a closed log (`LogStateFile`); ``closed`` is then the CRC-32 of the file
``checkpoint``. The fingerprint is the CRC-32 of the last record below the offset. If the log's
record there now has another CRC, the log was cut and written again since, and the progress is void.
"""

from __future__ import annotations

import functools
import logging
import os
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import attrs

from reput.files.filenames import OWN_DIRECTORY
from reput.record.layout import SIZE_AND_MAGIC
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reader.logview import LogView

__all__ = [
    "HEAD",
    "LOG",
    "Entry",
    "Progress",
    "ProgressEntry",
    "Recorded",
    "StateFile",
    "fingerprint_of",
    "record_at",
]

logger = logging.getLogger(__name__)

LOG: Final = ".log"
"""Name of the entry that says how far the log is on disk."""
HEAD: Final = ".head"
"""Name of the entry that says where the log begins."""

_HEADER: Final = struct.Struct(">4sHHqI")
_CHANGED: Final = struct.Struct(">qI")  # between an entry's name and its value
_PROGRESS: Final = struct.Struct(">BqqII")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"RPST"
_VERSION: Final = 1
_CLOSED: Final = 1
_FIRST_READ_SIZE: Final = 4096  # bytes: most records are shorter
_PAGE_SIZE: Final = 4096  # a slot begins at a page: a torn page never destroys both
_SIZE_MAX: Final = 1 << 24
_SEQUENCE_END: Final = 1 << 62
_TRIES: Final = 3  # how often a reader reads slots that another process may be writing


class Entry(NamedTuple):
    """An entry of a slot."""

    changed: int
    """The sequence of the slot in which the value changed last."""
    value: bytes


Slot = Mapping[str, Entry]


@attrs.frozen
class Progress:
    """Everything below `physical_offset` is in the plugin's files, and on disk."""

    physical_offset: int
    record_offset: int = -1
    """Where the last record below it begins; -1 if there is none."""
    fingerprint: int = 0
    """CRC-32 of that record."""
    closed: int | None = None
    """Of the log's own progress, if the log ends there as it was closed: CRC-32 of the file
    ``checkpoint``; else None."""

    @classmethod
    @functools.lru_cache(64)
    def of(cls, value: bytes) -> Self | None:
        """Return the progress in an entry; None if the value is not a progress."""
        if len(value) != _PROGRESS.size:
            return None
        flags, offset, record, fingerprint, closed = _PROGRESS.unpack(value)
        if offset < 0 or not -1 <= record <= offset:
            return None
        return cls(offset, record, fingerprint, closed if flags & _CLOSED else None)

    def packed(self) -> bytes:
        """Return the value of the entry."""
        flags = 0 if self.closed is None else _CLOSED
        place = self.physical_offset, self.record_offset, self.fingerprint
        return _PROGRESS.pack(flags, *place, self.closed or 0)


@attrs.frozen
class Recorded:
    """Progress as read at one moment."""

    sequence: int
    """Increases with each change."""
    physical_offset: int
    """Everything below it is in the plugin's files, and on disk."""


@attrs.define(eq=False, slots=False)  # `known` is kept in the object's dictionary
class StateFile:
    """Reads and writes the state file of one store; a writer uses one object for all entries."""

    path: str
    disk: Disk
    unreadable: Callable[[OSError], None] | None = None
    """Called if the file cannot be read, which then counts as missing; if None, it raises."""
    sequence: int = 0
    """Increases with each write."""
    is_damaged: bool = False
    """Whether the file existed when it was read last, and no slot was whole."""
    _slot_size: int = 0
    """Bytes from slot to slot; 0 if the file has to be replaced as a whole."""
    _lock: Any = attrs.field(factory=new_lock)

    @classmethod
    def of(cls, root: str, disk: Disk, unreadable: Callable[[OSError], None] | None = None) -> Self:
        """Return the state file of the store at ``root``."""
        return cls(os.path.join(root, OWN_DIRECTORY, "state"), disk, unreadable)

    def entry(self, name: str) -> ProgressEntry:
        """Return the progress of a plugin, or of the log (`LOG`, `HEAD`)."""
        return ProgressEntry(self, name)

    def load(self) -> list[Slot]:
        """Return the whole slots, newest first."""
        data, found, size = b"", {}, _PAGE_SIZE
        for _ in range(_TRIES):
            try:
                data = self.disk.read_if_exists(self.path, _SIZE_MAX) or b""
            except OSError as error:
                if self.unreadable is None:
                    raise
                self.unreadable(error)
                self.known = []
                return self.known
            size = max(len(data) // 2, _PAGE_SIZE)
            found = dict(filter(None, (_read_slot(data[:size], 0), _read_slot(data[size:], 1))))
            if found or not data:
                break
        with self._lock:
            self._slot_size = 0 if size % _PAGE_SIZE or len(data) != 2 * size else size
            self.is_damaged = bool(data) and not found
            self.sequence = max(found, default=self.sequence)
            self.known = [found[sequence] for sequence in sorted(found, reverse=True)]
            return self.known

    @functools.cached_property
    def known(self) -> list[Slot]:
        """The same, as read or written last: for a writer, as nobody else writes the file."""
        return self.load()

    def save(
        self, changed: Mapping[str, bytes], forgotten: str = "", *, always: bool = False
    ) -> None:
        """Change values, in the older slot; on disk when this returns.

        Args:
            changed: new values, by entry.
            forgotten: an entry that is removed.
            always: whether the slot is written if nothing changes.
        """
        with self._lock:
            slots, sequence = self.known, self.sequence + 1  # the older slot is overwritten
            entries = dict(slots[0]) if slots else {}
            for name, value in changed.items():
                if name not in entries or entries[name].value != value:
                    entries[name] = Entry(sequence, value)
            entries.pop(forgotten, None)
            if slots and not always and entries == slots[0]:
                return
            slot, size = _slot(sequence, entries), self._slot_size
            position = sequence % 2 * size
            fits = bool(slots) and len(slot) <= size
            if not (fits and self.disk.overwrite(self.path, slot, position)):
                # Complete from the first moment: a reader would take an empty file for damaged.
                # Both slots count, or an older one could be read at a place that is not its own.
                older = _slot(sequence - 1, slots[0]) if slots else b""
                size = max(-(-len(each) // _PAGE_SIZE) * _PAGE_SIZE for each in (slot, older))
                halves = (older, slot) if sequence % 2 else (slot, older)
                self.disk.replace(self.path, b"".join(half.ljust(size, b"\0") for half in halves))
                self._slot_size = size
            self.sequence, self.known = sequence, [entries, *slots[:1]]

    def save_in_both(self, changed: Mapping[str, bytes], forgotten: str = "") -> None:
        """Change values in both slots, and remove an entry."""
        with self._lock:
            for _ in range(2):
                self.save(changed, forgotten, always=True)


@attrs.frozen(eq=False)
class ProgressEntry:
    """The progress of one plugin, or of the log, in a state file."""

    file: StateFile
    name: str

    @property
    def path(self) -> str:
        """The state file."""
        return self.file.path

    def load(self) -> Progress | None:
        """Return the progress in the newest whole slot that has it; None if none has."""
        return next(iter(self.load_all()), None)

    def load_all(self) -> list[Progress]:
        """Return the progress in the whole slots, newest first."""
        self.file.load()
        return self.known()

    def known(self) -> list[Progress]:
        """Return the same, read once only: for a store's writer, as nobody else writes the file."""
        found = []
        for slot in self.file.known:
            progress = Progress.of(slot[self.name].value) if self.name in slot else None
            if progress is not None:
                found.append(progress)
        return found

    def believable(self, log: LogView) -> int | None:
        """Return the newest recorded offset whose last record is still the same in ``log``.

        None if nothing is recorded, or if the log was cut and written again below both slots.
        """
        return self.believable_of(self.load_all(), log)

    def believable_of(
        self, newest_first: Sequence[Progress], log: LogView, known: Progress | None = None
    ) -> int | None:
        """Return the same for slots that were loaded; the log has the last record of ``known``."""
        low, high = log.min_physical_offset, log.max_physical_offset
        for progress in newest_first:
            record = progress.record_offset
            if progress.physical_offset > high:
                continue
            if record >= low:
                if known is not None and record == known.record_offset:
                    found = known.fingerprint
                else:
                    found = fingerprint_of(log, record)
                if found != progress.fingerprint:
                    continue
            if progress is not newest_first[0]:
                text = "the log was rewritten below a plugin's progress plugin=%s goes_back_to=%d"
                logger.warning(text, self.name, progress.physical_offset)
            return max(progress.physical_offset, low)
        if newest_first:
            logger.warning("the log was rewritten below a plugin's progress plugin=%s", self.name)
        return None

    def recorded(self) -> Recorded | None:
        """Read what is on disk now, perhaps written by another process; None if nothing is."""
        slots = self.file.load()
        entry = slots[0].get(self.name) if slots else None
        progress = None if entry is None else Progress.of(entry.value)
        if entry is None or progress is None:
            return None
        return Recorded(entry.changed, progress.physical_offset)

    def save(self, progress: Progress) -> None:
        """Change this entry only; on disk when this returns."""
        self.file.save({self.name: progress.packed()})

    def reset(self) -> None:
        """Set the progress to 0, in both slots: everything is derived again."""
        self.file.save_in_both({self.name: Progress(0).packed()})


def _slot(sequence: int, entries: Slot) -> bytes:
    parts = [b""]
    for name, (changed, value) in entries.items():
        encoded = name.encode()
        parts += (bytes((len(encoded),)), encoded, _CHANGED.pack(changed, len(value)), value)
    size = _HEADER.size + sum(map(len, parts))
    parts[0] = _HEADER.pack(_MAGIC, _VERSION, len(entries), sequence, size)
    slot = b"".join(parts)
    return slot + _CRC.pack(zlib.crc32(slot))


def _read_slot(data: bytes, parity: int) -> tuple[int, Slot] | None:
    """Return sequence and entries of the slot at the start of ``data``; None if not whole."""
    if len(data) < _HEADER.size:
        return None
    magic, version, count, sequence, size = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or not 0 < sequence < _SEQUENCE_END:
        return None
    if sequence % 2 != parity or not _HEADER.size <= size <= len(data) - _CRC.size:
        return None
    if _CRC.pack(zlib.crc32(data[:size])) != data[size : size + _CRC.size]:
        return None
    entries, position = {}, _HEADER.size
    try:
        for _ in range(count):
            end = position + 1 + data[position]
            start = end + _CHANGED.size
            changed, length = _CHANGED.unpack_from(data, end)
            if start + length > size:
                return None
            name = data[position + 1 : end].decode()
            entries[name] = Entry(changed, data[start : start + length])
            position = start + length
    except (ValueError, IndexError, struct.error):  # no writer of reput made it
        return None
    return sequence, entries


def fingerprint_of(log: LogView, record_offset: int) -> int:
    """Return the CRC-32 of the record at ``record_offset``; 0 without one."""
    return zlib.crc32(record_at(log, record_offset))


def record_at(log: LogView, record_offset: int) -> bytes:
    """Return the bytes of the record at ``record_offset``; none if there is no record."""
    data = log.read(record_offset, _FIRST_READ_SIZE)
    if record_offset < 0 or len(data) < SIZE_AND_MAGIC.size:
        return b""
    size, _ = SIZE_AND_MAGIC.unpack_from(data)
    if not 0 <= size <= len(data):
        data = log.read(record_offset, size)
    return data[:size]
