"""The note of where every record has a checksum of its own, ``<store>/reput/record-crc.json``.

The note is on disk before the first record of a range is written, and before the first record after
it. The range that is being written has no end in the file. It counts to the log's end as long as
reput was the last to write the store (`StoreLock.sign`); otherwise up to where reput is known to
have written, as RocketMQ does not add the checksum unless its own option is on.

The file is UTF-8 JSON, replaced whole: ``{"ranges": [[first, end], …], "crc": …}``. These are
physical offsets, ascending; the last end may be null. The CRC-32 is that of the ranges as JSON
without spaces.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Final

from reput.files.jsonnotes import object_of
from reput.files.names import OWN_DIRECTORY
from reput.log.checked import OPEN_END, CheckedRanges
from reput.log.recovery.lognote import LogNote

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["is_checked_note_sound", "load_checked", "path_of_checked", "save_checked"]

_NAME: Final = "record-crc.json"
_SIZE_MAX: Final = 1 << 20
_RANGES_MAX: Final = 10_000


def path_of_checked(root: str) -> str:
    """Return the path of a store's note."""
    return os.path.join(root, OWN_DIRECTORY, _NAME)


def load_checked(root: str, disk: Disk, *, reput_wrote_last: bool) -> CheckedRanges:
    """Read the note; no ranges if it is missing or damaged.

    Args:
        root: the store's directory.
        disk: file operations.
        reput_wrote_last: whether no other program has opened the store for writing since.
    """
    noted = _read(root, disk) or CheckedRanges()
    if reput_wrote_last or not noted.ranges or noted.ranges[-1][1] < OPEN_END:
        return noted
    return noted.until(_written_to(root, disk))


def is_checked_note_sound(root: str, disk: Disk) -> bool:
    """Whether the existing file is as it was written."""
    return _read(root, disk) is not None


def save_checked(checked: CheckedRanges, root: str, disk: Disk) -> None:
    """Write the note; on disk when this returns. Without a range there is no file."""
    path = path_of_checked(root)
    if checked.ranges:
        ranges = [[start, None if end >= OPEN_END else end] for start, end in checked.ranges]
        disk.replace(path, json.dumps({"ranges": ranges, "crc": _crc(ranges)}).encode())
    elif disk.exists(path):
        disk.remove(path)
        disk.flush_directory(os.path.dirname(path))


def _read(root: str, disk: Disk) -> CheckedRanges | None:
    path = path_of_checked(root)
    data = disk.read_if_exists(path, _SIZE_MAX)
    if data is None:
        return CheckedRanges()
    try:
        facts = object_of(data)
        ranges = facts["ranges"]
        if facts["crc"] != _crc(ranges) or len(ranges) > _RANGES_MAX:
            return None
        return CheckedRanges(
            tuple((start, OPEN_END if end is None else end) for start, end in ranges)
        )
    except (ValueError, TypeError, KeyError):
        return None


def _crc(ranges: object) -> int:
    return zlib.crc32(json.dumps(ranges, separators=(",", ":")).encode())


def _written_to(root: str, disk: Disk) -> int:
    """Return up to where reput has certainly written the log, before another program did."""
    flushed = LogNote.of(root, disk).file.load()
    return 0 if flushed is None else flushed.physical_offset
