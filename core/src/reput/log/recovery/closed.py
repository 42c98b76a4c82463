"""The close record, ``<store>/reput/closed``, which a writer leaves when it closes a store.

It holds the log's end and the last record's checksum, so that the next opening need not read the
last file to its end, and notices if that record was changed. It is valid only until another writer
has opened the store: every writer changes the checkpoint, whose checksum it holds, too.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Self

import attrs

from reput.files.names import OWN_DIRECTORY

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reading.reader import LogReader

__all__ = ["CloseRecord"]

_NAME = "closed"
_OWN_CRC = "crc"


@attrs.frozen
class CloseRecord:
    """The end of a log that was closed."""

    end_offset: int
    """Physical offset after the last record."""
    record_offset: int
    """Where that record begins; -1 in an empty log."""
    record_crc: int
    """CRC-32 of that whole record."""
    last_store_timestamp: int
    """Its store time, ms."""
    checkpoint_crc: int
    """CRC-32 of the file ``checkpoint``."""

    @staticmethod
    def path(root: str) -> str:
        """Return the path of a store's close record."""
        return os.path.join(root, OWN_DIRECTORY, _NAME)

    @classmethod
    def load(cls, root: str, disk: Disk) -> Self | None:
        """Read the close record; None if there is no valid one."""
        if not disk.exists(cls.path(root)):
            return None
        record = cls._read(root, disk)
        if record is None or record.checkpoint_crc != _checkpoint_crc(root, disk):
            return None
        return record

    @classmethod
    def left_behind(cls, root: str, disk: Disk) -> Self | None:
        """Read the close record, also of a store that another program has written since."""
        return cls._read(root, disk) if disk.exists(cls.path(root)) else None

    @classmethod
    def is_sound(cls, root: str, disk: Disk) -> bool:
        """Whether the existing file is as it was written, even if it is no longer valid."""
        return cls._read(root, disk) is not None

    @classmethod
    def _read(cls, root: str, disk: Disk) -> Self | None:
        path = cls.path(root)
        try:
            facts = json.loads(disk.read_file(path, 4096))
            own_crc = facts.pop(_OWN_CRC)
            record = cls(**facts)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        if not all(type(value) is int for value in attrs.astuple(record)):
            return None
        # A damaged close record would move the log's end, or make its last record look changed.
        return record if own_crc == record.own_crc() else None

    @classmethod
    def save(cls, root: str, log: LogReader, record_offset: int, disk: Disk) -> None:
        """Write the close record of a log that is flushed and takes no more puts."""
        message = log.read_message(record_offset) if record_offset >= 0 else None
        record = cls(
            end_offset=log.max_physical_offset,
            record_offset=-1 if message is None else record_offset,
            record_crc=0 if message is None else zlib.crc32(message.record),
            last_store_timestamp=0 if message is None else message.store_timestamp,
            checkpoint_crc=_checkpoint_crc(root, disk),
        )
        facts = {**attrs.asdict(record), _OWN_CRC: record.own_crc()}
        disk.replace(cls.path(root), json.dumps(facts).encode())

    def own_crc(self) -> int:
        """Return the CRC-32 of the numbers in their order, in decimal, with spaces in between."""
        return zlib.crc32(" ".join(map(str, attrs.astuple(self))).encode())

    @classmethod
    def remove(cls, root: str, disk: Disk) -> None:
        """Remove the close record, as the store is being written again."""
        if disk.exists(cls.path(root)):
            disk.remove(cls.path(root))


def _checkpoint_crc(root: str, disk: Disk) -> int:
    path = os.path.join(root, "checkpoint")
    return zlib.crc32(disk.read_file(path, 4096)) if disk.exists(path) else 0
