"""`StateFile`: what moves with each flush, of the log and of all plugins: ``reput/state``.

The file has two slots of equal size, written in turn, so that a torn write leaves the other slot.
All entries of a slot are written at once: they never disagree. Integers are big-endian:

    0       4         6       8          16     20
    +-------+---------+-------+----------+------+---------+-----+
    | magic | version | count | sequence | size | entries | crc |
    +-------+---------+-------+----------+------+---------+-----+

    an entry:
    0      1      1+n     2+n               10+n            18+n          22+n     26+n
    +------+------+-------+-----------------+---------------+-------------+--------+
    | n    | name | flags | physical offset | record offset | fingerprint | closed |
    +------+------+-------+-----------------+---------------+-------------+--------+

The size is that of header and entries, in bytes. A slot takes a page of 4096 bytes, or more if the
entries need it: the file is replaced as a whole then. The entry ``.log`` is the log's own,
``.head`` says where the log begins, and each other one is a plugin's, by its name. The flag 1 marks
a closed log (`LogStateFile`), and ``closed`` is then the CRC-32 of the file ``checkpoint``.

The fingerprint is the CRC-32 of the last record below the offset. If the log's record there now has
another CRC, the log was cut and written again since, and the progress is void.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

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
_ENTRY: Final = struct.Struct(">BqqII")  # behind the name
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"RPST"
_VERSION: Final = 1
_CLOSED: Final = 1
_FIRST_READ_SIZE: Final = 4096  # bytes: most records are shorter
_PAGE_SIZE: Final = 4096  # a slot begins at a page: a torn page never destroys both
_SIZE_MAX: Final = 1 << 20

Slot = Mapping[str, "Progress"]


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


@attrs.frozen
class Recorded:
    """Progress as read at one moment."""

    sequence: int
    """Increases with each write."""
    physical_offset: int
    """Everything below it is in the plugin's files, and on disk."""


@attrs.define(eq=False)
class StateFile:
    """Reads and writes the state file of one store; a writer uses one object for all entries."""

    path: str
    disk: Disk
    unreadable: Callable[[OSError], None] | None = None
    """Called if the file cannot be read, which then counts as missing; if None, it raises."""
    sequence: int = 0
    """Increases with each write."""
    _slots: list[Slot] | None = None
    """The whole slots, newest first, as they were read or written last; None before that."""
    _slot_size: int = _PAGE_SIZE
    _lock: Any = attrs.field(factory=new_lock)

    @classmethod
    def of(cls, root: str, disk: Disk, unreadable: Callable[[OSError], None] | None = None) -> Self:
        """Return the state file of the store at ``root``."""
        return cls(os.path.join(root, OWN_DIRECTORY, "state"), disk, unreadable)

    def entry(self, name: str) -> ProgressEntry:
        """Return the entry of a plugin, or of the log (`LOG`, `HEAD`)."""
        return ProgressEntry(self, name)

    def load(self) -> list[Slot]:
        """Return the whole slots, newest first."""
        try:
            data = self.disk.read_if_exists(self.path, _SIZE_MAX) or b""
        except OSError as error:
            if self.unreadable is None:
                raise
            self.unreadable(error)
            return []
        size = max(len(data) // 2, _PAGE_SIZE)
        found = dict(filter(None, map(_read_slot, (data[:size], data[size:]))))
        with self._lock:
            self._slot_size = size
            self.sequence = max(found, default=self.sequence)
            self._slots = [found[sequence] for sequence in sorted(found, reverse=True)]
            return self._slots

    def known(self) -> list[Slot]:
        """Return the same, read once only: for a store's writer, as nobody else writes the file."""
        return self.load() if self._slots is None else self._slots

    def save(self, changed: Slot) -> None:
        """Change entries, in the older slot; on disk when this returns."""
        with self._lock:
            slots = self.known()  # the older one is overwritten
            newest = slots[0] if slots else {}
            if all(newest.get(name) == progress for name, progress in changed.items()):
                return
            self._write({**newest, **changed}, slots)

    def save_in_both(self, changed: Slot) -> None:
        """Change entries in both slots."""
        with self._lock:
            for _ in range(2):
                slots = self.known()
                self._write({**(slots[0] if slots else {}), **changed}, slots)

    def _write(self, entries: Slot, slots: list[Slot]) -> None:
        sequence = self.sequence + 1
        slot, size = _slot(sequence, entries), self._slot_size
        position = sequence % 2 * size
        fits = bool(slots) and len(slot) <= size
        if not (fits and self.disk.overwrite(self.path, slot, position)):
            # Complete from the first moment: a reader would take an empty file for damaged.
            size = max(-(-len(slot) // _PAGE_SIZE) * _PAGE_SIZE, size)
            # Both slots count, or an older one could be read at a place that is not its own.
            older = _slot(sequence - 1, slots[0]) if slots and sequence > 1 else b""
            halves = (older, slot) if sequence % 2 else (slot, older)
            self.disk.replace(self.path, b"".join(half.ljust(size, b"\0") for half in halves))
            self._slot_size = size
        self.sequence, self._slots = sequence, [entries, *slots[:1]]


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
        return self._of(self.file.load())

    def known(self) -> list[Progress]:
        """Return the same, read once only: for a store's writer, as nobody else writes the file."""
        return self._of(self.file.known())

    def _of(self, slots: Sequence[Slot]) -> list[Progress]:
        return list(filter(None, (slot.get(self.name) for slot in slots)))

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
        progress = self.load()
        return None if progress is None else Recorded(self.file.sequence, progress.physical_offset)

    def save(self, progress: Progress) -> None:
        """Change this entry only; on disk when this returns."""
        self.file.save({self.name: progress})


def _slot(sequence: int, entries: Slot) -> bytes:
    parts = [b""]
    for name, progress in entries.items():
        encoded = name.encode()
        flags = 0 if progress.closed is None else _CLOSED
        place = progress.physical_offset, progress.record_offset, progress.fingerprint
        packed = _ENTRY.pack(flags, *place, progress.closed or 0)
        parts.append(len(encoded).to_bytes(1, "big") + encoded + packed)
    size = _HEADER.size + sum(map(len, parts))
    parts[0] = _HEADER.pack(_MAGIC, _VERSION, len(entries), sequence, size)
    slot = b"".join(parts)
    return slot + _CRC.pack(zlib.crc32(slot))


def _read_slot(data: bytes) -> tuple[int, Slot] | None:
    """Return sequence and entries of the slot at the start of ``data``; None if not whole."""
    if len(data) < _HEADER.size:
        return None
    magic, version, count, sequence, size = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or size + _CRC.size > len(data):
        return None
    if _CRC.pack(zlib.crc32(data[:size])) != data[size : size + _CRC.size]:
        return None
    entries, position = {}, _HEADER.size
    for _ in range(count):
        end = position + 1 + data[position]
        name = data[position + 1 : end].decode()
        flags, offset, record, fingerprint, closed = _ENTRY.unpack_from(data, end)
        entries[name] = Progress(offset, record, fingerprint, closed if flags & _CLOSED else None)
        position = end + _ENTRY.size
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
