"""The two small files that RocketMQ keeps of a store, too: ``abort`` and ``checkpoint``.

The file ``checkpoint`` has 4096 bytes, of which 48 are used, integers big-endian:

    0          8          16        24              32               40              48
    +----------+----------+---------+---------------+----------------+---------------+---- zeros
    | log ms   | queues ms| index ms| replica offset| confirm offset | queues offset |
    +----------+----------+---------+---------------+----------------+---------------+----

Only RocketMQ 5.5 and later know the last one; 0 stands for a store without it.

Source: RocketMQ ``DefaultMessageStore#createTempFile``, ``StoreCheckpoint``.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

_LEFT_ON_PURPOSE: Final = b"closed by reput; queues not kept"
CHECKPOINT_SIZE: Final = 4096
_FIELDS: Final = struct.Struct(">qqqqqq")
_MARGIN_MS: Final = 3_000  # a flush may lack messages stored up to this long before it


@attrs.define(eq=False, repr=False)
class AbortFile:
    """The file ``abort``: made when a writer opens the store, removed when it closes the store.

    An object looks at the file once, and again after it has changed the file.
    """

    path: str
    disk: Disk
    _is_present: bool | None = None
    _is_left: bool | None = None

    @property
    def present(self) -> bool:
        """Whether the file exists: the store is being written, or was not (fully) closed."""
        if self._is_present is None:
            self._is_present = self.disk.exists(self.path)
        return self._is_present

    @property
    def left_on_purpose(self) -> bool:
        """Whether the last writer closed the store, but left the file for RocketMQ to see."""
        if self._is_left is None:
            self._is_left = self.disk.read_if_exists(self.path, 64) == _LEFT_ON_PURPOSE
        return self._is_left

    def create(self) -> None:
        """Write the file with this process's id, as the store is being written.

        Only its name is on disk when this returns, as the file's existence is what counts.
        """
        # Never the inode of a file that was left on purpose.
        fresh = f"{self.path}.new" if self.present else self.path
        self._is_present = self._is_left = None
        descriptor = self.disk.create_fresh(fresh)
        try:
            self.disk.write(descriptor, str(os.getpid()).encode(), 0)
        finally:
            self.disk.close(descriptor)
        if fresh != self.path:
            self.disk.rename(fresh, self.path)
        self.disk.flush_directory(os.path.dirname(self.path))

    def leave(self) -> None:
        """Note that the store is closed, but that RocketMQ must recover, as queues are missing."""
        self._is_present = self._is_left = None
        self.disk.replace(self.path, _LEFT_ON_PURPOSE)

    def remove(self) -> None:
        """Remove the file durably; only after everything was flushed and dispatched."""
        self._is_present = self._is_left = None
        self.disk.remove(self.path)
        self.disk.flush_directory(os.path.dirname(self.path))


@attrs.frozen
class Checkpoint:
    """Times until which files were flushed, ms; 0 if unknown."""

    SIZE_MIN: ClassVar[int] = 24
    """Least bytes of a usable file; RocketMQ 4.8 wrote three values."""
    log_timestamp: int = 0
    """Store time of the last message known to be flushed in the log."""
    queues_timestamp: int = 0
    """Store time of the last message whose queue entry is flushed."""
    index_timestamp: int = 0
    """End of the last full, flushed index file."""
    replica_offset: int = 0
    confirm_offset: int = 0
    queues_offset: int = 0
    """Physical offset of the last record up to which all queue entries are flushed."""
    crc: int = attrs.field(default=0, eq=False)
    """CRC-32 of the file; 0 without a file."""
    is_whole: bool = attrs.field(default=False, eq=False)
    """Whether the file has its full size, so that it is written in place."""

    @classmethod
    def load(cls, path: str, disk: Disk) -> Checkpoint:
        """Read the file; all values are 0 if it is missing or too short."""
        data = disk.read_if_exists(path, CHECKPOINT_SIZE + 1) or b""
        crc = zlib.crc32(data)
        if len(data) < cls.SIZE_MIN:
            return cls(crc=crc)
        values: list[Any] = [
            *_FIELDS.unpack(data[: _FIELDS.size].ljust(_FIELDS.size, b"\0")),
            crc,
            len(data) == CHECKPOINT_SIZE,
        ]
        return cls(*values)

    def save(self, path: str, disk: Disk) -> Checkpoint:
        """Write the file durably; return these values with its checksum.

        All values are in one sector, so RocketMQ and we write them in place. A file that is missing
        or has another size is replaced as a whole.
        """
        values = attrs.astuple(self, filter=attrs.filters.exclude("crc", "is_whole"))
        data = _FIELDS.pack(*values).ljust(CHECKPOINT_SIZE, b"\0")
        if not (self.is_whole and disk.overwrite(path, data)):
            disk.replace(path, data)
        return attrs.evolve(self, crc=zlib.crc32(data), is_whole=True)

    @property
    def replay_timestamp(self) -> int:
        """Store time, ms, after which messages may be missing from derived files."""
        return max(0, min(self.log_timestamp, self.queues_timestamp) - _MARGIN_MS)
