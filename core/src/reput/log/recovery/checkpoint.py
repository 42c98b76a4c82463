"""`Checkpoint`: until which times a store's files were flushed; RocketMQ's file ``checkpoint``.

The file has 4096 bytes, of which 40 are used, integers big-endian:

    0          8          16        24              32               40
    +----------+----------+---------+---------------+----------------+---- zeros
    | log ms   | queues ms| index ms| replica offset| confirm offset |
    +----------+----------+---------+---------------+----------------+----

Source: RocketMQ ``StoreCheckpoint``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["Checkpoint"]

CHECKPOINT_SIZE: Final = 4096
_FIELDS: Final = struct.Struct(">qqqqq")
_MARGIN_MS: Final = 3_000  # a flush may lack messages stored up to this long before it


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

    @classmethod
    def load(cls, path: str, disk: Disk) -> Checkpoint:
        """Read the file; all values are 0 if it is missing or too short."""
        data = disk.read_if_exists(path, CHECKPOINT_SIZE) or b""
        if len(data) < cls.SIZE_MIN:
            return cls()
        return cls(*_FIELDS.unpack(data[: _FIELDS.size].ljust(_FIELDS.size, b"\0")))

    def save(self, path: str, disk: Disk) -> None:
        """Replace the file atomically and durably."""
        disk.replace(path, _FIELDS.pack(*attrs.astuple(self)).ljust(CHECKPOINT_SIZE, b"\0"))

    @property
    def replay_timestamp(self) -> int:
        """Store time, ms, after which messages may be missing from derived files."""
        return max(0, min(self.log_timestamp, self.queues_timestamp) - _MARGIN_MS)
